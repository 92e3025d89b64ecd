"""What says what already: small examples, and rules that hold for any rows."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.memory import Covers, Memory
from shared.domain.times import DAY_MS
from shared.retrieval.repeats import WHOLE_BYTES, Scored, best_first, same_words, without_repeats


def raw(
    id: str, text: str, score: float = 0.5, *, day: int = 0, role: str = "user", source_of: str | None = None
) -> Scored:
    return Scored(Memory(id, 1, text, role, day * DAY_MS, 1, 0, consolidated_by=source_of), score)


def reflection(
    id: str,
    text: str,
    score: float = 0.5,
    *,
    tier: int = 2,
    made_by: str = "b",
    source_of: str | None = None,
    day: int = 9,
) -> Scored:
    memory = Memory(
        id, tier, text, "assistant", day * DAY_MS, 1, 0, importance=5, covers=Covers(0, day * DAY_MS), origin=made_by,
        consolidated_by=source_of,
    )  # fmt: skip
    return Scored(memory, score)


def left(*rows: Scored) -> list[str]:
    return [row.memory.id for row in without_repeats(rows)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We meet on Friday.", "we  meet\non FRIDAY"),
        ("Buy the milk!", "Please buy milk"),
        ("„Na klar“, sagte sie.", "na klar sagte sie"),
        ("The", "the"),
        ("(see above)", "see above"),
        ("Is it the dog? I am not sure.", "Is it a dog? i am not sure"),
        ("  Buy milk", "Buy milk"),
        ("if x:\n  a()\n\n  b()", "if x:\n  a()\n  b()"),
    ],
)
def test_the_same_words(one: str, other: str) -> None:
    assert same_words(one) == same_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We meet on Friday?", "We meet on Friday."),
        ("We meet on Friday", "We met on Friday"),
        ("Turn it on", "Turn it off"),
        ("I like tea", "I do not like tea"),
        ("Anna pays Bob", "Bob pays Anna"),
        ("It costs 3.5", "It costs 35"),
        ("It is -5 outside", "It is 5 outside"),
        ("It costs $5", "It costs €5"),
        ("I use C++", "I use C"),
        ("see you :)", "see you :("),
        ("Año nuevo", "Ano nuevo"),
        ("He is here", "She is here"),
        ("We go by plan A", "We go by plan"),
        ("Take vitamin A daily", "Take vitamin daily"),
        ("take vitamin a.", "take vitamin."),
        ("take vitamin a and c", "take vitamin and c"),
        ("Hepatitis A", "Hepatitis"),
        ("The board is 6' long", 'The board is 6" long'),
        ("A turn of 6'", "A turn of 6''"),
        ("It yields 5 MW", "It yields 5 mW"),
        ("It yields 5MW", "It yields 5mW"),
        ("A file of 5 Mb", "A file of 5 MB"),
        ("five MW", "five mW"),
        ("Ask US", "Ask us"),
        ("In Maßen trinken", "In Massen trinken"),
        ("if x:\n    a()\nb()", "if x:\n    a()\n    b()"),
        ("    a:\n  b: 1", "  a:\n  b: 1"),
    ],
)
def test_other_words(one: str, other: str) -> None:
    assert same_words(one) != same_words(other)
    assert left(raw("a", one), raw("b", other)) == ["a", "b"]


def test_of_the_same_words_the_newest_row_stands_for_all_in_the_best_ones_place() -> None:
    rows = [raw("a", "Buy milk", 0.9, day=1), raw("b", "Eggs", 0.8), raw("c", "buy milk!", 0.7, day=3)]
    milk, eggs = without_repeats(rows)
    assert (milk.memory.id, milk.score, milk.said) == ("c", 0.9, Covers(DAY_MS, DAY_MS))
    assert eggs == rows[1]


def test_raw_rows_of_two_roles_stand_beside_each_other() -> None:
    assert left(raw("a", "Done.", role="user"), raw("b", "Done.", role="assistant")) == ["a", "b"]


def test_of_the_same_words_the_highest_tier_stands_for_all() -> None:
    rows = [raw("a", "Buy milk", 0.9, role="user", day=2), raw("b", "Buy milk", role="tool", day=4)]
    (kept,) = without_repeats([*rows, reflection("c", "Buy milk.", 0.2)])
    assert (kept.memory.id, kept.score, kept.said) == ("c", 0.9, Covers(2 * DAY_MS, 4 * DAY_MS))
    assert left(reflection("c", "Buy milk."), reflection("d", "buy milk", tier=3, made_by="other")) == ["d"]
    assert left(reflection("c", "Buy milk."), reflection("d", "buy milk", day=8)) == ["c"]


MOVED = "Anna moved the weekly meeting with the harbour office to Thursday."


@pytest.mark.parametrize(
    "source",
    [
        "Yes, Thursday.",
        "I moved the weekly meeting with the harbour office to Thursday",
        "so i am moving the weekly harbour meeting to thursday",
        # Five content words, four of them said.
        "moved the weekly meeting with the harbour people",
    ],
)
def test_a_source_that_its_reflection_says_is_left_out(source: str) -> None:
    (kept,) = without_repeats([raw("a", source, 0.9, day=3, source_of="b"), reflection("r", MOVED, 0.4)])
    assert (kept.memory.id, kept.score, kept.said) == ("r", 0.9, Covers(3 * DAY_MS, 3 * DAY_MS))
    assert left(raw("a", source, source_of="another batch"), reflection("r", MOVED)) == ["r", "a"]
    assert left(raw("a", source), reflection("r", MOVED)) == ["r", "a"]


@pytest.mark.parametrize(
    "source",
    [
        "The weekly meeting with the harbour office moved, not to Thursday.",
        "The weekly meeting with the harbour office isn't moved to Thursday.",
        "Moved the weekly meeting with the harbour office to Thursday at 10.",
        "Moved the weekly meeting with the harbour office to Thursday at ten.",
        "Bob moved the weekly meeting with the harbour office to Thursday.",
        "moved the weekly meeting since Friday is full of other things",
    ],
)
def test_numbers_names_negations_and_news_are_something_added(source: str) -> None:
    assert left(raw("a", source, source_of="b"), reflection("r", MOVED)) == ["r", "a"]


@pytest.mark.parametrize(
    ("source", "above"),
    [
        ("Anna calls the harbour office at 5 am", "Anna calls the harbour office at 5 pm."),
        ("Anna calls the harbour office at five am", "Anna calls the harbour office at five pm."),
        ("Anna takes the pills before dinner", "Anna takes the pills after dinner."),
        ("Anna turned the heating on", "Anna turned the heating off on a whim."),
        ("The price went up by 50", "The price went down by 50."),
        ("The price is over 50", "The price is under 50."),
        ("Anna runs 5 km daily", "Anna runs 5 miles daily."),
        ("The lamp costs 50 $", "The lamp costs 50 €."),
        ("The lamp costs $50", "The lamp costs €50."),
        ("Anna moved 5 MB", "Anna moved 5 Mb."),
        ("the board is 6' long", 'The board is 6" long.'),
        ("Anna cancelled her birthday dinner with Bob", "Anna has her birthday dinner with Bob."),
        ("Anna cancelled her birthday dinner with Bob", "Anna did not cancel her birthday dinner with Bob."),
        ("Anna stopped the weekly harbour office meeting", "Anna has the weekly harbour office meeting."),
        ("Anna eats everything except nuts", "Anna eats everything, nuts."),
        ("moved the weekly harbour meeting to friday", "Moved the weekly harbour meeting to Thursday."),
        ("Bob lent Anna money", "Anna lent Bob money."),
        ("bob lent anna money", "Anna lent Bob money."),
        ("5 for tea and 3 for milk", "3 for tea and 5 for milk."),
    ],
)
def test_a_reflection_that_says_otherwise_leaves_its_source(source: str, above: str) -> None:
    assert left(raw("a", source, source_of="b"), reflection("r", above)) == ["r", "a"]
    assert left(raw("a", source, source_of="b"), reflection("r", source + ", as planned.")) == ["r"]


def test_a_reflection_that_negates_says_something_else_than_a_source_that_does_not() -> None:
    assert left(raw("a", "i like tea", source_of="b"), reflection("r", "Does not like tea.")) == ["r", "a"]
    assert left(raw("a", "i don't like tea", source_of="b"), reflection("r", "Does not like tea.")) == ["r"]
    assert left(raw("a", "no, not tea", source_of="b"), reflection("r", "Does not like tea.")) == ["r", "a"]


def test_a_reflection_that_may_be_shown_in_part_stands_for_nothing() -> None:
    fitting = MOVED.ljust(WHOLE_BYTES, ".")
    source = raw("a", "yes, thursday", source_of="b")
    assert left(source, reflection("r", fitting)) == ["r"]
    assert left(source, reflection("r", fitting + ".")) == ["r", "a"]
    # A second line is shown behind two spaces.
    assert left(source, reflection("r", fitting[:-4] + "\n.")) == ["r"]
    assert left(source, reflection("r", fitting[:-3] + "\n.")) == ["r", "a"]


def test_lineage_goes_up_two_tiers_where_the_row_between_is_seen() -> None:
    source = raw("a", "thursday", 0.9, source_of="b")
    between = reflection("r", "Thursday suits the harbour office.", 0.3, source_of="c")
    top = reflection("t", "The harbour office is always suited by a Thursday.", 0.2, tier=3, made_by="c")
    assert left(source, between, top) == ["t"]
    assert without_repeats([source, between, top])[0].score == 0.9
    assert left(source, top) == ["a", "t"]
    talk = reflection("r", "It was about tea and the weather.", 0.3, source_of="c")
    assert left(source, talk, top) == ["t", "r"]


def test_a_source_of_a_reflection_that_is_left_out_itself_stays_unless_what_stands_says_it() -> None:
    source = raw("a", "biscuits, tea", source_of="b")
    between = reflection("r", "Tea and biscuits with the harbour office and the old crew again.", source_of="c")
    top = reflection("t", "The harbour office and the old crew have tea again.", tier=3, made_by="c")
    assert left(source, between, top) == ["t", "a"]


TEXTS = st.sampled_from(["Buy milk", "buy milk!", "Buy eggs", "We buy milk and eggs", "Do not buy milk", "milk", ":)"])
BATCHES = st.sampled_from([None, "b1", "b2", "b3"])
ROWS = st.lists(
    st.builds(
        lambda tier, text, role, day, score, origin, batch: (
            raw("", text, score, day=day, role=role, source_of=batch)
            if tier == 1
            else reflection("", text, score, tier=tier, made_by=origin or "b0", source_of=batch, day=day)
        ),
        st.sampled_from([1, 1, 2, 3]),
        TEXTS,
        st.sampled_from(["user", "tool"]),
        st.integers(0, 3),
        st.sampled_from([0.1, 0.5, 0.9]),
        BATCHES,
        BATCHES,
    ),
    max_size=8,
).map(lambda rows: [Scored(_named(row.memory, number), row.score) for number, row in enumerate(rows)])


def _named(memory: Memory, number: int) -> Memory:
    fields = {name: getattr(memory, name) for name in memory.__slots__}
    return Memory(**fields | {"id": f"{number:02}"})


@given(ROWS, st.randoms(use_true_random=False))
def test_any_rows(rows: list[Scored], random: Random) -> None:
    kept = without_repeats(rows)
    shuffled = random.sample(rows, len(rows))
    assert without_repeats(shuffled) == kept == best_first(kept)
    assert bool(kept) == bool(rows)
    assert {row.memory for row in kept} <= {row.memory for row in rows}
    # Whoever stands for the best row is as good.
    assert max((row.score for row in kept), default=0) == max((row.score for row in rows), default=0)
    # Every word that can be looked up is still there.
    words = {word for row in rows for word in same_words(row.memory.text)}
    assert words == {word for row in kept for word in same_words(row.memory.text)}
    raws = [(row.memory.role, same_words(row.memory.text)) for row in kept if row.memory.tier == 1]
    assert len(raws) == len(set(raws))
    assert without_repeats(kept) == kept
