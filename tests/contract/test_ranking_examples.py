"""What a search finds first, by examples small enough to be judged by eye; the same on every index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.domain.memory import Memory, VaultRef
from shared.retrieval.periods import periods
from tests.contract.index_rigs import OPENSEARCH, SQLITE, IndexRig, embed, find
from tests.contract.rows import NOW, Maker


@pytest.fixture(params=[SQLITE, OPENSEARCH])
def rig(request: pytest.FixtureRequest) -> Iterator[IndexRig]:
    made = request.param(request)
    yield made
    made.close()


@pytest.fixture
def vault(rig: IndexRig) -> VaultRef:
    return rig.new_vault()


class Told:
    """Rows of a vault, in the order they are told, a minute apart."""

    def __init__(self, rig: IndexRig, vault: VaultRef, make: Maker) -> None:
        self._rig, self._vault, self._make = rig, vault, make
        self._texts: dict[str, str] = {}

    def tell(self, *texts: str, session: str | None = None, role: str = "user", date_ms: int = NOW) -> None:
        rows = [
            replace(self._make.raw(text, date_ms + place * 60_000, session), role=role)
            for place, text in enumerate(texts)
        ]
        self.write(rows)

    def write(self, rows: Sequence[Memory]) -> None:
        self._rig.write(self._vault, rows)
        self._texts |= {row.id: row.text for row in rows}

    def found(self, query: str, limit: int = 3, vectors: bool = False, now_ms: int = NOW) -> list[str]:
        """The texts of the rows that match, best first."""
        embed(self._rig, self._vault)
        hits = find(self._rig, self._vault, query, limit, vectors=vectors, periods=periods(query, now_ms))
        return [self._texts[hit.memory_id] for hit in hits if hit.matched]


@pytest.fixture
def told(rig: IndexRig, vault: VaultRef, make: Maker) -> Told:
    return Told(rig, vault, make)


def test_a_rare_word_says_more_than_a_common_one(told: Told) -> None:
    told.tell(*(f"the garden in week {week} needs water" for week in range(20, 30)), "an ibex stood on the road")
    assert told.found("was there an ibex in the garden?", limit=1) == ["an ibex stood on the road"]


def test_words_that_only_build_a_sentence_find_nothing(told: Told) -> None:
    told.tell("what did you do when it was over", "copper kettle")
    assert told.found("what was it that you did about the kettle") == ["copper kettle"]


def test_an_answer_is_found_by_its_question(told: Told) -> None:
    told.tell("Lovely weather here.", "When do we have dinner?", "At seven, I think.", "Right then.", session="a")
    told.tell("The dinner plates are blue.", "I like blue.", session="b")
    found = told.found("when is dinner", limit=10)
    assert {"When do we have dinner?", "The dinner plates are blue."} == set(found[:2])
    assert "At seven, I think." in found
    assert "Right then." not in found


def test_the_session_that_is_about_it_comes_before_a_passing_word(told: Told) -> None:
    told.tell("the canoe leaks", "patch the canoe with tar", "the canoe is dry now", session="repair")
    told.tell("we ate", "he sold his canoe", "she laughed", session="gossip")
    assert "he sold his canoe" not in told.found("canoe", limit=3)


def test_who_is_named_is_heard_first(told: Told) -> None:
    told.tell("I adore saffron", role="Mara", session="a")
    told.tell("I adore saffron", role="Oleg", session="b", date_ms=NOW + 1)
    told.tell("saffron is dear", role="Oleg", session="c", date_ms=NOW + 2)
    assert told.found("what does Mara say about saffron", limit=1) == ["I adore saffron"]


def at(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_date_in_the_question_prefers_its_days_and_forbids_no_others(told: Told) -> None:
    for day in ("2025-03-10", "2026-03-10", "2026-08-10"):
        told.tell(f"the boiler was serviced ({day[2:4]}, {day[5:7]})", session=day, date_ms=at(f"{day}T09:00"))
    serviced = "the boiler was serviced ({}, {})".format
    now = at("2026-11-30T10:00")
    assert told.found("boiler service last March", now_ms=now)[0] == serviced(26, "03")
    assert told.found("boiler service in August", now_ms=now)[0] == serviced(26, "08")
    assert told.found("boiler service in 2025", now_ms=now)[0] == serviced(25, "03")
    assert len(told.found("boiler service last March", now_ms=now)) == 3


def test_what_happened_on_a_day_is_found_by_the_day_alone(told: Told) -> None:
    told.tell("we planted the pear tree", session="a", date_ms=at("2026-11-29T15:00"))
    told.tell("we cut the hedge", session="b", date_ms=at("2026-11-20T15:00"))
    assert told.found("what did we do yesterday?", now_ms=at("2026-11-30T10:00"))[0] == "we planted the pear tree"


def test_a_day_in_a_question_about_something_is_no_match_by_itself(told: Told) -> None:
    told.tell("the tram was full", "he bought stamps", "it rained", session="a", date_ms=at("2026-11-30T08:00"))
    told.tell("I never learned to swim", session="b", date_ms=at("2026-05-02T08:00"))
    now = at("2026-11-30T10:00")
    assert told.found("should I swim this afternoon?", now_ms=now) == ["I never learned to swim"]
    assert told.found("how are you today?", now_ms=now) == []


def test_a_slip_of_the_hand_finds_the_word_that_was_meant(told: Told) -> None:
    told.tell("marmalade with ginger", "a violin for sale", "the harbour at night")
    assert told.found("marmelade") == ["marmalade with ginger"]
    assert told.found("vioiln") == ["a violin for sale"]
    assert told.found("harbor") == ["the harbour at night"]


@pytest.mark.parametrize(
    ("slip", "text"),
    [
        ("insuranec", "the insurance is paid"),
        ("restauarnt", "a restaurant by the weir"),
        ("appointemnt", "my appointments are on Monday"),
        ("lisinoprli", "he takes lisinopril"),
        ("kitche", "the kitchen is warm"),
    ],
)
def test_a_slip_near_the_end_of_a_word_is_forgiven_too(told: Told, slip: str, text: str) -> None:
    told.tell(text, "granite steps")
    assert told.found(slip) == [text]


def test_a_word_that_the_vault_holds_is_taken_as_it_is(told: Told) -> None:
    told.tell("the blue plate broke", "the blue plane landed")
    assert told.found("plate") == ["the blue plate broke"]


def test_a_number_is_never_taken_for_another(told: Told) -> None:
    told.tell("invoice INV-20391 is paid", "invoice INV-20319 is open")
    assert told.found("INV-20391", limit=1) == ["invoice INV-20391 is paid"]
    assert told.found("20398") == []


@pytest.mark.parametrize("asked", ["parse_config", "parseConfig", "parse-config", "how do I parse config files"])
def test_a_name_is_found_in_any_spelling(told: Told, asked: str) -> None:
    told.tell("parseConfig raises on tabs", "the parser ran", "a configured lamp")
    assert told.found(asked, limit=1) == ["parseConfig raises on tabs"]


def test_an_identifier_is_found_with_and_without_its_hyphens(told: Told) -> None:
    told.tell("request 271ee043-6f42-4f68-af72-7f06f5a96125 hung", "request e-mail hung")
    assert told.found("271ee0436f424f68af727f06f5a96125")[:1] == ["request 271ee043-6f42-4f68-af72-7f06f5a96125 hung"]
    assert told.found("email")[:1] == ["request e-mail hung"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Zürich", "we moved to Zurich"),
        ("facade", "the façade is wet"),
        ("東京", "東京は雨だった"),
        ("москва", "Завтра поезд в МОСКВА"),
        ("👍", "fine 👍"),
        ("السفر", "موعد السفر يوم الأحد"),
    ],
)
def test_accents_case_and_scripts_do_not_hide_a_word(told: Told, asked: str, text: str) -> None:
    told.tell("an otter", "granite steps", text)
    assert told.found(asked, limit=1) == [text]


def test_of_equals_the_newer_comes_first(told: Told) -> None:
    told.tell("the ferry is late", date_ms=NOW)
    told.tell("the ferry is late!", date_ms=NOW + 86_400_000)
    assert told.found("late", limit=2) == ["the ferry is late!", "the ferry is late"]


def test_nearness_finds_what_words_do_not(told: Told) -> None:
    told.tell("otter otter river", "granite steps", "copper kettle")
    assert told.found("otter river", vectors=True)[0] == "otter otter river"


def test_the_middle_of_a_long_text_is_as_findable_as_its_beginning(told: Told) -> None:
    filler = "The meeting went on about budgets and chairs and the colour of the new doors. " * 12
    told.tell(f"{filler}Ines keeps the spare key under the beehive. {filler}", *(filler for _ in range(3)))
    assert told.found("where is the spare key", limit=1)[0].count("beehive") == 1
