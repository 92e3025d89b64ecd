"""An AWS account on this machine: ministack, a real OpenSearch node as its domain, a local model behind an endpoint.

What CDK deploys into it runs there: functions, routes, the table and its stream. All of it is in memory and gone at the
end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.session import Session

from infra import toolkit
from infra.bundling import KINDS, bundle
from infra.env import Environment, read
from infra.local import emulator, opensearch_node
from infra.local.emulator import REGION, Emulator
from infra.outputs import CDK_JSON, deployed_settings, outputs
from shared import bootstrap
from shared.settings import Settings

NAME = "emulator"
SECRET = "emulator"
MODEL = "minilm-l6-v2"
SAID_LINES = 40


class DeploymentFailed(RuntimeError):
    """CDK ended with an error; the message is the end of what it said."""


@dataclass(frozen=True)
class Account:
    """A running one. `described` is the environment ``emulator`` as it stands here, for CDK's context."""

    emulator: Emulator
    search_url: str
    described: Mapping[str, Any] = field(repr=False)

    @property
    def environment(self) -> Environment:
        return read(NAME, self.described)

    def changed(self, **values: Any) -> Account:
        """The same account under an environment with other values."""
        return replace(self, described={**self.described, **values})

    @property
    def variables(self) -> dict[str, str]:
        """What a program needs to speak to this account, and to no other."""
        home = str(self.emulator.folder)
        return {
            "HOME": home,
            "TMPDIR": home,
            "AWS_ENDPOINT_URL": self.emulator.url,
            # CDK asks for buckets by host name, which does not resolve here.
            "AWS_ENDPOINT_URL_S3": self.emulator.url,
            "AWS_ACCESS_KEY_ID": SECRET,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": f"{home}/none",
            "AWS_SHARED_CREDENTIALS_FILE": f"{home}/none",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def client(self, service: str) -> Any:
        """A low-level client that never leaves this machine."""
        return Session().create_client(
            service,
            region_name=REGION,
            endpoint_url=self.emulator.url,
            aws_access_key_id=SECRET,
            aws_secret_access_key=SECRET,
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )

    def cdk(self, *arguments: str, app: Path | None = None, sources: Path = toolkit.ROOT) -> str:
        """Run CDK on this account and return what it said. Raises `DeploymentFailed`."""
        said = self.emulator.folder / "cdk.log"
        said.unlink(missing_ok=True)
        context = ["-c", f"env={NAME}", "-c", f"environments={json.dumps({NAME: dict(self.described)})}"]
        code = toolkit.run([*arguments, *context], self.variables, app, said, sources)
        text = said.read_text("utf-8", "replace")
        if code:
            raise DeploymentFailed("\n".join(text.splitlines()[-SAID_LINES:]))
        return text

    def synthesise(self, folder: Path, *context: str, sources: Path = toolkit.ROOT) -> Path:
        """Both stacks as templates and zips in a folder, which the other commands take."""
        # Packages are fetched by this process, which knows the machine's mirrors, proxies and certificates.
        for kind in KINDS:
            bundle(kind, self.environment.python, self.environment.wheels)
        self.cdk("synth", "--quiet", "--output", str(folder), *context, sources=sources)
        return folder

    def bootstrap(self, app: Path) -> str:
        return self.cdk("bootstrap", f"aws://{self.environment.account}/{REGION}", app=app)

    def deploy(self, app: Path) -> str:
        return self.cdk("deploy", "--all", "--require-approval", "never", "--progress", "events", app=app)

    def destroy(self, app: Path, *stacks: str) -> str:
        return self.cdk("destroy", "--force", *(stacks or ["--all"]), app=app)

    @property
    def url(self) -> str:
        """The address of the deployed API, by path, since its host name does not resolve everywhere."""
        address = outputs(self.client("cloudformation"), self.environment.api_stack)["Url"]
        api = address.split("//")[1].split(".")[0]
        return f"{self.emulator.url}/_aws/execute-api/{api}"

    def settings(self) -> Settings:
        """For commands that work beside the deployed functions."""
        return deployed_settings(self.client("cloudformation"), self.environment, self.emulator.url)


@contextmanager
def running(model: str = MODEL, port: int = 0, embeddings_port: int = 0) -> Iterator[Account]:
    """An empty account with nothing deployed. Ports are the emulator's and the model's; 0 takes a free one."""
    with opensearch_node.running() as search_url, _embeddings(model, embeddings_port) as embeddings:
        override = {"MINISTACK_OPENSEARCH_ENDPOINT": search_url.removeprefix("http://"), "MINISTACK_HOST": "localhost"}
        with emulator.running(override, port) as stack:
            described = json.loads(CDK_JSON.read_text("utf-8"))["context"]["environments"][NAME]
            embedder = bootstrap.local_embedders()[model]
            endpoint = {
                "url": embeddings,
                "model": embedder.name,
                "dimension": embedder.dimension,
                "noise": embedder.noise,
            }
            yield Account(stack, search_url, {**described, "endpoint": {**described["endpoint"], **endpoint}})


@contextmanager
def _embeddings(model: str, port: int) -> Iterator[str]:
    """The address of a model that is served by a process of its own, as a deployment's model is."""
    program = [sys.executable, "-m", "infra.local.embedding_server", "--model", model, "--port", str(port)]
    process = subprocess.Popen(
        ["sh", "-c", emulator.UNTIL_WE_END, "sh", *program],
        cwd=toolkit.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.stdout.readline() if process.stdout is not None else ""
        if not said:
            raise emulator.EmulatorFailed("the embedding model cannot be served; why stands above")
        yield said.rpartition(" at ")[2].strip()
    finally:
        emulator.end(process)
