"""Works off a vault's reflection debt over its HTTP API, with the user's own model: ``python -m infra.consolidate``."""
