"""What a word that the vault does not hold may have meant."""

from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval.spelling import corrected, doubted, spellings

WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


def distance(one: str, other: str) -> int:
    """Optimal string alignment, by the textbook's table."""
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if not i or not j:
                rows[i][j] = i + j
                continue
            change = int(one[i - 1] != other[j - 1])
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change)
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(WORD)
def test_every_spelling_is_one_slip_away(word: str) -> None:
    assert {distance(word, other) for other in spellings(word)} == {1}


@given(WORD, st.data())
def test_every_slip_is_among_them(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("aqz"))
    swapped = word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]
    for slip in (word[:place] + word[place + 1 :], word[:place] + letter + word[place:],
                 word[:place] + letter + word[place + 1 :], swapped):  # fmt: skip
        assert slip == word or slip in spellings(word)


def test_numbers_short_words_and_other_scripts_are_not_doubted() -> None:
    assert doubted(["allerg", "boat", "inv20391", "20391", "grüße", "коробка", "x" * 30]) == ["allerg"]


def test_the_longest_are_doubted_first() -> None:
    assert doubted(["kettle", "violins", "marmalade", "harbour"]) == ["marmalade", "harbour", "violins"]


def test_what_is_meant_joins_the_terms_once_and_in_order() -> None:
    assert corrected(["kettel", "blue"], {"kettel": {"kettle", "blue"}}) == ("blue", "kettel", "kettle")


def test_one_word_stands_for_five_at_most() -> None:
    said = {"worda": {f"word{letter}" for letter in "bcdefgh"}}
    assert corrected(["worda"], said) == ("worda", "wordb", "wordc", "wordd", "worde", "wordf")
