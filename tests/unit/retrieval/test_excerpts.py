"""Parts of long texts: verbatim, marked, around what was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval.excerpts import excerpt, question_stems

FILLER = "Nothing of note was said about the weather that day. "
NEEDLE = "The harbour meeting moved to Tuesday. "
LONG = st.lists(
    st.one_of(st.text(), st.sampled_from([". ", "\n", "。", "a" * 300, "word ", "🙂" * 90, "\t \n" * 40, "鯨" * 200]))
).map("".join)


def test_what_fits_is_left_alone() -> None:
    text = " spaces  stay \n"
    assert excerpt(text, frozenset(), len(text)) == text
    assert excerpt(text, frozenset(), len(text) - 1) != text


@pytest.mark.parametrize(("before", "after"), [(0, 40), (10, 30), (40, 0), (200, 200)])
def test_the_part_holds_what_was_asked_for(before: int, after: int) -> None:
    text = FILLER * before + NEEDLE + FILLER * after
    part = excerpt(text, question_stems("When is the meeting in the harbour?"), 600)
    assert NEEDLE.strip() in part
    assert part.startswith("… ") == bool(before)
    assert part.endswith(" …") == bool(after)
    assert 500 < len(part.encode()) <= 600


def test_a_passage_that_does_not_fit_is_shown_from_the_sentence_that_was_asked_for() -> None:
    text = FILLER * 3 + NEEDLE + FILLER * 30
    assert excerpt(text, question_stems("harbour"), 60) == "… The harbour meeting moved to Tuesday. Nothing of …"


def test_without_a_shared_word_the_beginning_is_shown() -> None:
    assert excerpt(FILLER * 20, question_stems("whales"), 40) == "Nothing of note was said about …"


def test_cuts_fall_between_words_unless_there_are_none() -> None:
    assert excerpt("alpha beta gamma delta", frozenset(), 21) == "alpha beta …"
    assert excerpt("x" * 100, frozenset(), 28) == "x" * 20 + " …"
    end = question_stems("end")
    assert excerpt("y" * 40 + " and. The end of it.", end, 31) == "… and. The end of it."
    assert excerpt("y" * 40 + ". The end of it.", end, 31) == "… yyyyyyy. The end of it."


@pytest.mark.parametrize("letter", ["e\u0301", "कि", "👍🏽", "👩\u200d🚀", "🇩🇪", "☀\ufe0f"])
@pytest.mark.parametrize("size", range(40, 60))
def test_a_cut_tears_no_visible_character(letter: str, size: int) -> None:
    end = question_stems("end")
    for text in (letter * 600, "." + letter * 60 + " The end of it."):
        for asked in (frozenset(), end):
            shown = excerpt(text, asked, size).removeprefix("… ").removesuffix(" …").removeprefix(".")
            assert shown.removesuffix(" The end of it.").replace(letter, "") == ""


def test_a_heap_of_accents_is_cut_all_the_same() -> None:
    assert excerpt("e" + "\u0301" * 100, frozenset(), 29) == "e" + "\u0301" * 10 + " …"


@given(LONG, st.lists(st.sampled_from(["word", "a" * 300, "鯨"])), st.integers(16, 500))
def test_a_part_is_verbatim_and_fits(text: str, asked: list[str], size: int) -> None:
    part = excerpt(text, question_stems(" ".join(asked)), size)
    assert len(part.encode()) <= size
    if len(text.encode()) > size:
        assert part != text
        inner = part.removeprefix("… ").removesuffix(" …") if part != " …" else ""
        assert inner in text
        assert "…" in part
        assert inner or not text.strip()
