"""A retrieval set with known answers: five invented vaults in which chat is only one part.

Long documents, code, numbers, typing errors, nine other languages, near duplicates, dates in the question, questions
without a word of their answer, and turns that mean nothing alone. Everything is drawn from seeds, so that every run
on every machine asks the same.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tests.bench.retrieval.corpus import Corpus
from tests.bench.retrieval.probes import (
    chat,
    code,
    dates,
    documents,
    duplicates,
    languages,
    numbers,
    paraphrases,
    people,
)
from tests.bench.retrieval.probes.assembling import Draw, Vault, assemble

CATEGORIES = ("long", "code", "numbers", "typos", "languages", "duplicates", "dates", "paraphrase", "chat")

VAULTS = (
    Vault("probes 1", ("user", "assistant"), datetime(2025, 6, 18, 9, 30, tzinfo=UTC), ("German", "Polish")),
    Vault("probes 2", ("Petra", "Owen"), datetime(2024, 11, 5, 20, 10, tzinfo=UTC), ("French", "Russian")),
    Vault("probes 3", ("user", "assistant"), datetime(2026, 1, 23, 13, 0, tzinfo=UTC), ("Spanish", "Chinese")),
    Vault("probes 4", ("Valentin", "Zofia"), datetime(2025, 9, 28, 7, 45, tzinfo=UTC), ("Japanese", "Hindi")),
    Vault("probes 5", ("user", "assistant"), datetime(2024, 3, 14, 16, 5, tzinfo=UTC), ("Arabic", "German")),
)


def corpora() -> list[Corpus]:
    return [_corpus(number, vault) for number, vault in enumerate(VAULTS)]


def _corpus(number: int, vault: Vault) -> Corpus:
    def draw(category: str) -> Draw:
        return Draw(f"{category} {vault.name}")

    parts = (
        documents.compose(draw("long")),
        code.compose(draw("code")),
        numbers.compose(draw("numbers")),
        people.compose(draw("typos")),
        languages.compose(draw("languages"), vault.languages),
        duplicates.compose(draw("duplicates")),
        dates.compose(draw("dates"), vault),
        paraphrases.compose(draw("paraphrase"), number),
        chat.compose(draw("chat")),
    )
    return assemble(vault, parts)
