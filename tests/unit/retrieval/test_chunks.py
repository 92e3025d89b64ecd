"""Passages: nothing is lost, cuts fall where a reader would cut."""

from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval.chunks import TARGET, chunks, embedded_text

LONG = st.lists(
    st.one_of(st.text(), st.sampled_from([". ", "! ", "\n", "\r\n", "。", "a" * 300, "word ", '." ', "🙂" * 90]))
).map("".join)


@given(LONG)
def test_nothing_is_lost(text: str) -> None:
    passages = chunks(text)
    assert "".join(passages) == text
    assert passages
    assert all(len(passage) <= TARGET for passage in passages)
    assert all(passages) or text == ""


@given(LONG.filter(lambda text: len(text) <= TARGET))
def test_a_short_text_is_one_passage(text: str) -> None:
    assert chunks(text) == [text]


def test_cuts_fall_at_sentence_ends() -> None:
    sentence = "The river rose over the old bridge during the night. "
    passages = chunks(sentence * 20)
    assert all(passage.endswith("night. ") for passage in passages)
    assert len(passages[0]) == TARGET // len(sentence) * len(sentence)


def test_cuts_fall_at_line_ends() -> None:
    line = "a list entry without any full stop\n"
    assert all(passage.endswith("\n") for passage in chunks(line * 40))


def test_a_long_sentence_is_cut_between_words() -> None:
    passages = chunks("word " * 300)
    assert all(passage.endswith(" ") for passage in passages)


def test_an_endless_run_is_cut_hard() -> None:
    assert [len(passage) for passage in chunks("x" * 1000)] == [TARGET, TARGET, 1000 - 2 * TARGET]


def test_embedded_text() -> None:
    assert embedded_text("Ann", 1_683_504_000_000, "hello") == "Ann (8 May 2023): hello"
    assert embedded_text("Ann", 10**18, "hello") == "Ann: hello"
