"""Words: what is found by what."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval.function_words import FUNCTION_WORDS, asks_only_when, content_words
from shared.retrieval.tokens import MAX_TOKEN, asked_stems, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Running runs, ran!", ["run", "run", "ran"]),
        ("Anna's cats", ["anna", "cat"]),
        ("Anna’s cats", ["anna", "cat"]),
        ("foo_bar", ["foo", "bar", "foobar"]),
        ("mk_123", ["mk", "123", "mk123"]),
        ("v1.2.", ["v1", "2", "v1.2"]),
        ("os.path_of", ["os", "path", "of", "os.path_of"]),
        ("fooBar", ["foobar", "foo", "bar"]),
        ("parseHTTPAnswer2 x", ["parsehttpanswer2", "x", "pars", "http", "answer"]),
        ("iPhone", ["iphon", "phone"]),
        ("a set-up", ["a", "set", "up", "setup"]),
        ("INV-20391", ["inv", "20391", "inv20391"]),
        ("E-Mail für dich", ["e", "mail", "fur", "dich", "email"]),
        ("1 - 2, --flag -x", ["1", "2", "flag", "x"]),
        ("Café CAFE\u0301 cafe", ["cafe", "cafe", "cafe"]),
        ("STRASSE Straße", ["strass", "strass"]),
        ("ｆｕｌｌ", ["full"]),
        ("東京 x", ["東", "京", "東京", "x"]),
        ("ok 👍", ["ok", "👍"]),
        ("❤️", ["❤"]),
        ("???", ["?", "?", "?"]),
        ("", []),
        (" \n\u2003", []),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(st.text())
def test_any_text_has_words_unless_it_is_invisible(text: str) -> None:
    found = tokens(text)
    assert found == tokens(text)
    assert all(found)
    if any(unicodedata.category(character)[0] in "LNSPM" for character in text):
        assert found


@given(st.text(st.characters(codec="utf-8")))
def test_words_can_be_stored_and_stay_short(text: str) -> None:
    for token in tokens(text):
        token.encode("utf-8")
        assert len(token) <= MAX_TOKEN


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("what did we do yesterday?", True),
        ("What happened last March", True),
        ("anything from the week of 3 May 2024", True),
        ("May 2024", True),
        ("in the summer of 2023", True),
        ("how are you today", False),
        ("write an essay of 2026 words", False),
        ("what did we eat yesterday", False),
        ("is a pool party a good idea this afternoon", False),
        ("what is a violin", False),
    ],
)
def test_a_question_for_a_period_alone_is_told_from_one_about_something(text: str, only: bool) -> None:
    assert asks_only_when(frozenset(tokens(text))) is only


def test_a_question_is_its_different_words_in_order_up_to_a_limit() -> None:
    assert asked_stems("red Blue red, blues green") == ("red", "blue", "green")
    assert asked_stems(" ".join(f"w{number}" for number in range(5_000))) == tuple(f"w{n}" for n in range(2_000))


@pytest.mark.parametrize("joined", ["load_user_page", "loadUserPage", "load-user-page", "LoadUserPage"])
def test_a_joined_name_is_found_by_its_parts_and_in_any_other_spelling(joined: str) -> None:
    assert set(tokens(joined)) == {"load", "user", "page", "loaduserpag"}


@pytest.mark.parametrize("text", ["aA" * 50_000, "a-" * 50_000, "a_" * 50_000, "a" * 100_000 + "B", "-" * 100_000])
def test_long_runs_are_cut_in_linear_time(text: str) -> None:
    """Quadratic work on these would take minutes."""
    assert all(len(token) <= MAX_TOKEN for token in tokens(text))


@given(st.lists(st.text("abcdefghij", min_size=1, max_size=12), min_size=1))
def test_case_accents_and_neighbours_do_not_matter(words: list[str]) -> None:
    plain = tokens(" ".join(words))
    assert tokens(" - ".join(words).upper()) == plain
    assert tokens(" ".join(word[0] + "\u0301" + word[1:] for word in words)) == plain
    assert plain == [stem for word in words for stem in tokens(word)]


def test_surrogates_do_not_raise() -> None:
    assert tokens("a\ud800b") == ["a", "b"]
    assert tokens("\ud800") == []


def test_content_words() -> None:
    asked = frozenset(tokens("What did the painter say about rivers?"))
    assert content_words(asked) == set(tokens("painter say rivers"))
    only = frozenset(tokens("what was that"))
    assert content_words(only) == only
    assert set(tokens("the of and")) <= FUNCTION_WORDS
