"""A token from Secrets Manager: when it is read, what is made of it, what a rotation and an outage do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from shared.adapters.openai_embeddings.embedder import OpenAiEmbedder
from shared.adapters.openai_embeddings.endpoint import Endpoint
from shared.adapters.secrets_manager.token import SecretToken
from shared.bootstrap.models import chosen_embedders
from shared.domain.errors import Unavailable
from shared.settings import Settings, SettingsError, load
from tests.contract.embedding_rigs import VirtualTime
from tests.emulator.ministack import session
from tests.unit.test_openai_embedder import Pool, Script, response, vectors_of

ENDPOINT = Endpoint("https://models.example.com/v1", "some-model", 2, 0.3)
DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "arn of it"}}, "GetSecretValue")
DOWN = EndpointConnectionError(endpoint_url="https://secretsmanager.example.com")


class Secrets:
    """A client with one secret, or what reading it raises; `made` counts connections."""

    def __init__(self, held: object = "sk-1") -> None:
        self.held = held
        self.read: list[str] = []
        self.made = 0

    def __call__(self) -> Secrets:
        self.made += 1
        return self

    def get_secret_value(self, **request: Any) -> Any:
        self.read.append(request["SecretId"])
        if isinstance(self.held, Exception):
            raise self.held
        return self.held if isinstance(self.held, dict) else {"SecretString": self.held}


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def token(secrets: Secrets, time: VirtualTime) -> SecretToken:
    return SecretToken(secrets, "strata/token", time.patience.clock)


def test_it_is_read_when_it_is_first_wanted_and_again_after_five_minutes(
    token: SecretToken, secrets: Secrets, time: VirtualTime
) -> None:
    assert (secrets.made, secrets.read) == (0, [])
    assert [token.current() for _ in range(3)] == ["sk-1"] * 3
    assert (secrets.made, secrets.read) == (1, ["strata/token"])
    secrets.held = "sk-2\n"
    time.patience.sleep(299)
    assert token.current() == "sk-1"
    time.patience.sleep(1)
    assert token.current() == "sk-2"
    assert (secrets.made, len(secrets.read)) == (1, 2)


def test_a_refused_token_is_read_again_but_not_by_every_request(
    token: SecretToken, secrets: Secrets, time: VirtualTime
) -> None:
    first = token.current()
    assert not token.refused(first)
    secrets.held = "sk-2"
    assert not token.refused(first)
    assert len(secrets.read) == 2
    time.patience.sleep(15)
    assert token.refused(first)
    # Another thread was refused with the old one meanwhile: it need not ask for a third.
    assert token.refused(first)
    assert (token.current(), len(secrets.read)) == ("sk-2", 3)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (DENIED, "AccessDeniedException"),
        (DOWN, "EndpointConnectionError"),
        ({"SecretBinary": b"sk-1"}, "the token alone"),
        ("", "the token alone"),
        ("two words", "the token alone"),
        ("schlüssel", "the token alone"),
        ('{"token":"sk-1"}', "the token alone"),
    ],
)
def test_without_a_token_the_caller_learns_why_and_nothing_of_the_secret(
    token: SecretToken, secrets: Secrets, held: object, said: str
) -> None:
    secrets.held = held
    with pytest.raises(Unavailable) as caught:
        token.current()
    assert (caught.value.code, caught.value.retry_after) == ("embedding_unavailable", 5)
    assert said in caught.value.message
    assert "STRATA_EMBEDDINGS_SECRET" in str(caught.value.hint)
    for hidden in ("sk-1", "words", "schl", "arn of it", "example.com"):
        assert hidden not in f"{caught.value.message} {caught.value.hint}"


def test_a_token_goes_on_while_its_secret_cannot_be_read(
    token: SecretToken, secrets: Secrets, time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    assert token.current() == "sk-1"
    secrets.held = DOWN
    time.patience.sleep(300)
    with caplog.at_level(logging.WARNING, "strata.secrets"):
        assert [token.current() for _ in range(5)] == ["sk-1"] * 5
    assert len(secrets.read) == 2
    assert "sk-1" not in caplog.text
    secrets.held = "sk-2"
    time.patience.sleep(15)
    assert token.current() == "sk-2"


def unless(right: str) -> Callable[[Pool], Script]:
    """An endpoint that takes one token only."""

    def made(pool: Pool) -> Script:
        def answer(body: dict[str, Any]) -> Any:
            if pool.requests[-1]["headers"].get("Authorization") == f"Bearer {right}":
                return vectors_of(body)
            return response(401, {"error": {"code": "invalid_api_key"}})

        return answer

    return made


def test_a_rotation_is_picked_up_by_the_request_that_meets_it(
    token: SecretToken, secrets: Secrets, time: VirtualTime
) -> None:
    pool = Pool()
    pool.script = [unless("sk-1")(pool)]
    embedder = OpenAiEmbedder(ENDPOINT, pool, time.patience, token)
    embedder.embed_query("words")
    pool.script = [unless("sk-2")(pool)]
    secrets.held = "sk-2"
    assert embedder.embed_query("words").shape == (2,)
    sent = [request["headers"]["Authorization"] for request in pool.requests]
    assert sent == ["Bearer sk-1", "Bearer sk-1", "Bearer sk-2"]
    pool.script = [unless("sk-3")(pool)]
    with pytest.raises(Unavailable, match="401"):
        embedder.embed_query("words")
    assert (len(pool.requests), len(secrets.read)) == (4, 2)


SETTINGS = Settings(
    embedder="endpoint",
    embeddings_url="https://models.example.com/v1",
    embeddings_model="some-model",
    embeddings_dimension=2,
    embeddings_secret="strata/token",
)


def test_the_settings_lead_to_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(vectors_of)
    monkeypatch.setattr("urllib3.PoolManager", lambda **_: pool)
    with mock_aws():
        client = session().client("secretsmanager")
        arn = client.create_secret(Name="strata/token", SecretString="sk-of-moto")["ARN"]
        for secret in ("strata/token", arn):
            embedders, default = chosen_embedders(replace(SETTINGS, embeddings_secret=secret), session().client)
            embedders[default].embed_query("words")
        client.delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True)
        embedders, default = chosen_embedders(SETTINGS, session().client)
        with pytest.raises(Unavailable, match="ResourceNotFoundException"):
            embedders[default].embed_query("words")
    assert [request["headers"]["Authorization"] for request in pool.requests] == ["Bearer sk-of-moto"] * 2


def test_the_token_is_said_once() -> None:
    both = {"STRATA_EMBEDDINGS_KEY": "sk-1", "STRATA_EMBEDDINGS_SECRET": "strata/token"}
    with pytest.raises(SettingsError, match="STRATA_EMBEDDINGS_KEY and STRATA_EMBEDDINGS_SECRET") as refused:
        load(both)
    assert "sk-1" not in str(refused.value)
    assert load({"STRATA_EMBEDDINGS_SECRET": both["STRATA_EMBEDDINGS_SECRET"]}).embeddings_secret == "strata/token"
    with pytest.raises(SettingsError, match="STRATA_EMBEDDINGS_SECRET"):
        load({"STRATA_EMBEDDINGS_SECRET": "a name with spaces"})
