"""The settings of a deployment: what its functions are told, and what an operator's commands need of it."""

from __future__ import annotations

from infra.env import Environment
from shared.settings import AWS, ENDPOINT


def variables(environment: Environment, table: str, search_url: str) -> dict[str, str]:
    """``STRATA_…`` variables; names and meanings are those of the README's table."""
    told = {
        "BACKEND": AWS,
        "TABLE": table,
        "SEARCH_URL": search_url,
        "EMBEDDER": environment.embedder,
        "LOG_LEVEL": environment.log_level,
        "AUTO_PROVISION_KEYS": "1" if environment.auto_provision_keys else "0",
    }
    if environment.cors_origins:
        told["ORIGINS"] = ",".join(environment.cors_origins)
    if environment.public_url:
        told["PUBLIC_URL"] = environment.public_url
    if environment.authorization_server:
        told["AUTHORIZATION_SERVER"] = environment.authorization_server
    if environment.calls_per_minute is not None:
        told["CALLS_PER_MINUTE"] = str(environment.calls_per_minute)
    if environment.bedrock_model_id:
        told["BEDROCK_MODEL_ID"] = environment.bedrock_model_id
    if environment.embedder == ENDPOINT and environment.endpoint is not None:
        endpoint = environment.endpoint
        told |= {
            "EMBEDDINGS_URL": endpoint.url,
            "EMBEDDINGS_MODEL": endpoint.model,
            "EMBEDDINGS_DIMENSION": str(endpoint.dimension),
            "EMBEDDINGS_NOISE": str(endpoint.noise),
            "EMBEDDINGS_SHORTEN": "1" if endpoint.shorten else "0",
        }
        if endpoint.secret:
            told["EMBEDDINGS_SECRET"] = endpoint.secret
    return {f"STRATA_{name}": value for name, value in told.items()}
