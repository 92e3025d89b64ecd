"""The stacks of an environment as CloudFormation gets them, made in this process without their zips."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from aws_cdk import App

from infra.app import build
from infra.env import read
from infra.outputs import CDK_JSON

Template = dict[str, Any]


@dataclass(frozen=True)
class Stacks:
    data: Template
    api: Template

    def of_type(self, kind: str) -> Iterator[tuple[str, Template]]:
        """Resources by logical id."""
        for template in (self.data, self.api):
            for name, resource in template["Resources"].items():
                if resource["Type"] == kind:
                    yield name, resource

    def the(self, kind: str) -> Template:
        ((_, only),) = self.of_type(kind)
        return only


@cache
def stacks(name: str, deletable: bool = False, **changed: Any) -> Stacks:
    """Of the environment of that name in ``cdk.json`` with some values changed. cdk-nag's findings raise."""
    os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] = "20"
    context = json.loads(CDK_JSON.read_text("utf-8"))["context"]
    environment = read(name, {**context["environments"][name], **changed})
    folder = Path(mkdtemp(prefix="strata-synth-"))
    app = App(context=context, outdir=str(folder / "out"))
    with patch("infra.api_stack.bundle", lambda kind, *rest: _empty(folder, kind)):
        data, api = build(app, environment, deletable)
    assembly = app.synth()
    return Stacks(
        *(assembly.get_stack_by_name(stack.stack_name).template for stack in (data, api)),
    )


def _empty(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{kind}.py", "")
    return path
