"""Simple facts in languages other than English."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part
from tests.bench.retrieval.probes.european import EUROPEAN
from tests.bench.retrieval.probes.languages_of_asia import ASIAN
from tests.bench.retrieval.probes.tongue import Tongue

TONGUES: Mapping[str, Tongue] = {**EUROPEAN, **ASIAN}
ROWS = 45
"""Rows of a language in a vault that do not answer."""


def compose(draw: Draw, chosen: tuple[str, ...]) -> Part:
    part = Part()
    for language in chosen:
        tongue = TONGUES[language]
        for number, (told, asked) in enumerate(tongue.facts):
            part.tell(language, told, f"{language} {number}")
            part.asks.append(Ask(asked, f"{language} {number}", "languages"))
        beside: list[str] = []
        while len(beside) < ROWS:
            text = draw.one(tongue.frames).format(
                a=draw.one(tongue.names), b=draw.one(tongue.things), c=draw.one(tongue.ends)
            )
            if text not in beside:
                beside.append(text)
                part.tell(language, text)
    return part
