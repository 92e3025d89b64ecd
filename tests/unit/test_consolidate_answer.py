"""What is read from a model's answer, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.consolidate.answer import HiddenIds, Unusable, read

SOURCE = "01a231d8-aa52-704f-86e3-476ab6f932a9"
BATCH = "cb_3a80b63aa5570cb64e133b30162a6101"
HIDDEN = HiddenIds.of(BATCH, [SOURCE])

texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1).filter(
    lambda text: not text.isspace() and text.strip() != ""
)
entries = st.lists(st.tuples(texts, st.integers(1, 10)), min_size=1, max_size=100)
# What may stand around an answer: nothing in it opens an array of objects.
prose = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="{<"), max_size=50)


def written(pairs: list[tuple[str, int]], indent: int | None = None, ascii_only: bool = True) -> str:
    return json.dumps(
        [{"text": text, "importance": importance} for text, importance in pairs],
        indent=indent,
        ensure_ascii=ascii_only,
    )


def problems(answer: str) -> tuple[str, ...]:
    with pytest.raises(Unusable) as refused:
        read(answer, HIDDEN)
    return refused.value.problems


@given(entries, st.sampled_from([None, 0, 2]), st.booleans(), prose, prose)
def test_entries_are_found_in_whatever_stands_around_them(
    pairs: list[tuple[str, int]], indent: int | None, ascii_only: bool, before: str, after: str
) -> None:
    array = written(pairs, indent, ascii_only)

    for answer in (array, f"{before}\n{array}\n{after}", f"{before}\n```json\n{array}\n```\n{after}"):
        assert read(answer, HIDDEN) == pairs


@given(st.text())
def test_any_text_is_read_or_refused(answer: str) -> None:
    with suppress(Unusable):
        assert read(answer, HIDDEN)


@given(entries, st.data())
def test_an_answer_that_was_cut_off_is_refused(pairs: list[tuple[str, int]], data: st.DataObject) -> None:
    array = written(pairs)
    length = data.draw(st.integers(0, len(array) - 1))

    with pytest.raises(Unusable):
        read(array[:length], HIDDEN)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["text", "importance", "x"]) | st.text(), inner),
    max_leaves=8,
)


@given(st.lists(json_values))
def test_what_is_read_could_be_committed(value: list[object]) -> None:
    try:
        found = read(json.dumps(value), HIDDEN)
    except Unusable:
        return
    assert 1 <= len(found) <= 100
    for text, importance in found:
        assert 1 <= len(text) <= 8000
        assert text.strip()
        assert type(importance) is int
        assert 1 <= importance <= 10


def test_thoughts_before_the_answer_are_left_out() -> None:
    thought = '<think>\nPerhaps [{"text": "a draft", "importance": 2}] and then [{"text": …\n</think>\n'

    assert read(thought + '[{"text": "The answer.", "importance": 5}]', HIDDEN) == [("The answer.", 5)]


def test_brackets_in_prose_and_in_texts_open_nothing() -> None:
    answer = 'See [1] and []: [{"text": "He wrote [{\\"a\\": 1}] and ```.", "importance": 5}] [end]'

    assert read(answer, HIDDEN) == [('He wrote [{"a": 1}] and ```.', 5)]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "there is no JSON array of objects in it"),
        ("I would rather not.", "there is no JSON array of objects in it"),
        ("[]", "there is no JSON array of objects in it"),
        ('{"text": "x", "importance": 5}', "there is no JSON array of objects in it"),
        ('["x"]', "there is no JSON array of objects in it"),
        ('[{"text": "a", "importance": 1}] or [{"text": "b", "importance": 2}]', "there are 2 JSON arrays in it"),
        ('[{"text": "a", "importance": 1}, {"text": "b"', "the JSON array is broken or was cut off"),
        ('[{"text": "a\nb", "importance": 1}]', "the JSON array is broken or was cut off (Invalid control character"),
        ('[{"a": ' * 100_000, "the JSON array is nested too deeply"),
        ('[{"text": "a", "importance": ' + "9" * 5_000 + "}]", "the JSON array is broken"),
        (written([("a", 5)] * 101), "the array holds 101 entries; 1 to 100 are allowed"),
        ('[{"text": "a"}]', "entry 1: must be an object with text and importance"),
        ('[{"text": "a", "importance": 1}, 7]', "entry 2: must be an object with text and importance"),
        ('[{"text": "a", "importance": 1, "id": 7}]', "entry 1: holds other fields than text and importance"),
        ('[{"text": "a", "importance": 0}]', "entry 1: importance must be an integer 1 to 10"),
        ('[{"text": "a", "importance": 11}]', "entry 1: importance must be an integer 1 to 10"),
        ('[{"text": "a", "importance": 5.0}]', "entry 1: importance must be an integer 1 to 10"),
        ('[{"text": "a", "importance": true}]', "entry 1: importance must be an integer 1 to 10"),
        ('[{"text": "a", "importance": "5"}]', "entry 1: importance must be an integer 1 to 10"),
        ('[{"text": 7, "importance": 5}]', "entry 1: text must be a string"),
        ('[{"text": " \\n", "importance": 5}]', "entry 1: text must hold text, not only white space"),
        ('[{"text": "a\\u0000", "importance": 5}]', "entry 1: text contains a NUL character"),
        ('[{"text": "\\ud800", "importance": 5}]', "entry 1: text contains a lone surrogate"),
        (written([("x" * 9_000, 5)]), "entry 1: text has 9000 characters; at most 8000 are allowed"),
    ],
)
def test_what_is_wrong_is_named(answer: str, problem: str) -> None:
    (found,) = problems(answer)

    assert found.startswith(problem)


def test_every_wrong_entry_is_named() -> None:
    found = problems('[{"text": "", "importance": 0}, {"text": "fine", "importance": 3}, {"text": "x"}]')

    assert found == (
        "entry 1: text must hold text, not only white space",
        "entry 1: importance must be an integer 1 to 10",
        "entry 3: must be an object with text and importance",
    )


@pytest.mark.parametrize(
    "text",
    [
        f"As {SOURCE} says.",
        SOURCE.upper(),
        SOURCE.replace("-", ""),
        "0" + SOURCE.replace("-", "") + "f",
        f"00000000{SOURCE}",
        f"from {BATCH}",
        BATCH.upper(),
    ],
)
def test_ids_of_the_batch_are_refused_and_not_repeated(text: str) -> None:
    (problem,) = problems(written([("fine", 3), (text, 3)]))

    assert problem.startswith("entry 2: text holds an identifier")
    assert SOURCE not in problem
    assert BATCH not in problem


def test_other_ids_are_text() -> None:
    text = "Order 11111111-2222-3333-4444-555555555555 was shipped, see cb_1."

    assert read(written([(text, 3)]), HIDDEN) == [(text, 3)]


def test_nothing_of_the_answer_is_quoted() -> None:
    answers = [
        '[{"text": "sesame", "importance": 99, "sesame": 1}]',
        '[{"sesame": "sesame"}]',
        'sesame [{"text": "sesame", sesame}]',
        "sesame",
        written([("sesame" * 2_000, 5)]),
    ]

    assert not any("sesame" in problem for answer in answers for problem in problems(answer))
