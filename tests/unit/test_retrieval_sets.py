"""The retrieval sets of the benches: the same everywhere, and with answers that are where they are said to be."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from shared.retrieval.tokens import tokens
from tests.bench.retrieval import manuals, probes
from tests.bench.retrieval.corpus import Corpus, Line, Question
from tests.bench.retrieval.probes.assembling import DAY_MS, Ask, Draw, Part, assemble
from tests.bench.retrieval.probes.dates import TOPICS
from tests.bench.retrieval.probes.numbers import near
from tests.bench.retrieval.probes.words import DAYS, MONTHS

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["zero", "one", "two", "three", "four", "five"]
STOP_WORDS = {
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "did", "do", "does", "far", "for", "from", "go", "had",
    "has", "have", "her", "him", "how", "i", "if", "in", "is", "it", "its", "last", "long", "many", "me", "mine",
    "much", "my", "no", "not", "nothing", "now", "of", "off", "on", "one", "only", "or", "our", "out", "over", "she",
    "so", "than", "that", "the", "them", "their", "they", "this", "to", "up", "us", "was", "we", "were", "what",
    "when", "where", "which", "who", "why", "will", "with", "you", "your", "every",
}  # fmt: skip

# Hashes the sets of a fresh process; what it prints must not depend on how that process hashes strings.
PRINTED = (
    "import hashlib; from tests.bench.retrieval import probes;"
    "print(hashlib.sha256(repr([(c.name, c.lines, [(q.text, sorted(q.relevant), q.category, q.asked_ms)"
    " for q in c.questions]) for c in probes.corpora()]).encode()).hexdigest())"
)


@cache
def sets() -> tuple[Corpus, ...]:
    return (*probes.corpora(), *manuals.corpora())


def generated() -> tuple[Corpus, ...]:
    return sets()[: len(probes.VAULTS)]


def asked(category: str) -> Iterator[tuple[Corpus, Question, list[Line], list[Line]]]:
    """Questions of a category, the rows that answer each and the other rows of its vault."""
    for corpus in generated():
        for question in corpus.questions:
            if question.category == category:
                right = [line for line in corpus.lines if line.id in question.relevant]
                yield corpus, question, right, [line for line in corpus.lines if line.id not in question.relevant]


@cache
def stems(text: str) -> frozenset[str]:
    return frozenset(tokens(text))


@cache
def known_words(vault: int) -> frozenset[str]:
    return frozenset(word for line in generated()[vault].lines for word in re.findall(r"[a-z]+", line.text.lower()))


def day_of(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


def test_every_process_draws_the_same() -> None:
    seen = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-c", PRINTED], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        seen.add(run.stdout.strip())
    assert len(seen) == 1
    assert len(seen.pop()) == hashlib.sha256().digest_size * 2


def test_ids_are_canonical_and_ascend_with_the_dates() -> None:
    for corpus in sets():
        ids = [line.id for line in corpus.lines]
        assert ids == sorted(set(ids))
        assert [str(UUID(name)) for name in ids] == ids
        dates = [line.date_ms for line in corpus.lines]
        assert dates == sorted(dates)


def test_vaults_are_of_the_announced_size() -> None:
    assert len({corpus.name for corpus in sets()}) == len(sets())
    for corpus in generated():
        assert 400 <= len(corpus.lines) <= 1_500
        assert len({line.role for line in corpus.lines}) == 2
        assert 0.01 <= sum(line.session is None for line in corpus.lines) / len(corpus.lines) <= 0.2


def test_a_question_has_answers_and_comes_after_them() -> None:
    for corpus in sets():
        dates = {line.id: line.date_ms for line in corpus.lines}
        for question in corpus.questions:
            assert question.relevant
            assert question.relevant <= dates.keys()
            assert max(dates.values()) < question.asked_ms


def test_every_category_is_asked_often() -> None:
    counts = Counter(question.category for corpus in sets() for question in corpus.questions)
    assert set(counts) == {*probes.CATEGORIES, manuals.CATEGORY}
    assert min(counts[category] for category in probes.CATEGORIES) >= 30
    assert counts[manuals.CATEGORY] >= 50


def test_no_question_is_told_or_asked_twice() -> None:
    for corpus in sets():
        texts = [question.text.casefold() for question in corpus.questions]
        assert len(set(texts)) == len(texts)
        told = "\n".join(line.text.casefold() for line in corpus.lines)
        assert [text for text in texts if text in told] == []


def test_documents_are_long_and_answer_in_their_depth() -> None:
    for _, question, right, others in asked("long"):
        (line,) = right
        assert 1_800 <= len(line.text) <= 9_000, question.text
        project = next(word for word in re.findall(r"\w+", question.text)[1:] if f" {word}" in line.text.split("\n")[0])
        assert sum(project in other.text for other in others) >= 8


def words(text: str) -> list[str]:
    """Pieces of identifiers as a person reads them: at marks, and where a small letter meets a capital."""
    return re.findall(r"[a-z]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


def joined(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def test_code_answers_hold_the_identifier_however_it_is_spelled() -> None:
    spelled_otherwise = 0
    for _, question, right, _ in asked("code"):
        (line,) = right
        rest = re.sub(
            r"^(Where is|Show me the|What does|What was the definition of|What is|Which value has the|Who failed with"
            r"|How do I pass the|What did|What happened to)\b",
            "",
            question.text,
        )
        if " in the configuration" in rest:
            pieces = [word for word in words(rest) if word not in ("of", "the", "in", "configuration")]
            assert set(pieces) <= set(words(line.text)), question.text
        else:
            name = re.sub(r"\b(defined|function|return|again|set to|flag on the command line|change)\b", "", rest)
            assert joined(name) in joined(line.text), question.text
        spelled_otherwise += not any(
            len(part) > 5 and part in line.text for part in re.findall(r"[\w.-]+", question.text)
        )
    assert spelled_otherwise >= 10


def test_near_numbers_differ_in_one_place() -> None:
    draw = Draw("near")
    for number in ("20391", "4100", "77777"):
        for _ in range(50):
            other = near(draw, number)
            places = [place for place, pair in enumerate(zip(number, other, strict=True)) if pair[0] != pair[1]]
            assert len(places) == 1 or (len(places) == 2 and places[1] == places[0] + 1)
            assert sorted(other) == sorted(number) or len(places) == 1


def test_numbers_have_near_misses() -> None:
    papers = 0
    for _, question, right, others in asked("numbers"):
        number = re.search(r"(?<![\d.])\d{5}(?![\d.])", question.text)
        if number is None or not re.search(r"\b[A-Z]+-\d{5}\b", right[0].text):
            continue
        papers += 1
        assert all(number[0] in line.text for line in right)
        assert not any(re.search(rf"\b[A-Z]+-{number[0]}\b", line.text) for line in others)
        digits = sorted(number[0])
        alike = {found for line in others for found in re.findall(r"\b[A-Z]+-(\d{5})\b", line.text)}
        assert (
            sum(
                sorted(found) == digits or sum(a != b for a, b in zip(found, number[0], strict=True)) == 1
                for found in alike
            )
            >= 3
        )
    assert papers >= 10


def test_typing_errors_are_in_words_that_the_answer_has() -> None:
    vaults = [corpus.name for corpus in generated()]
    for corpus, question, right, _ in asked("typos"):
        assert len(right) == 1
        known = known_words(vaults.index(corpus.name))
        asking = {
            "does",
            "did",
            "which",
            "dislike",
            "borrowed",
            "plans",
            "stop",
            "doing",
            "whom",
            "win",
            "have",
            "lessons",
        }
        wrong = [word for word in re.findall(r"[a-z]+", question.text.lower()) if word not in known | asking]
        assert len(wrong) <= 2, question.text


def test_languages_are_nine_with_their_scripts() -> None:
    scripts = {
        "Latin": "[ßäöüéèçñąćęłńóśźż]", "Cyrillic": "[а-я]", "Han": "[\u4e00-\u9fff]", "Kana": "[\u3040-\u30ff]",
        "Arabic": "[\u0600-\u06ff]", "Devanagari": "[\u0900-\u097f]",
    }  # fmt: skip
    texts = [line.text for _, _, right, _ in asked("languages") for line in right]
    for script, letters in scripts.items():
        assert sum(re.search(letters, text.lower()) is not None for text in texts) >= 8, script
    assert len({language for vault in probes.VAULTS for language in vault.languages}) == 9
    assert sum(question.text.isascii() for _, question, _, _ in asked("languages")) >= 10


def test_duplicates_stand_beside_exact_repeats_of_wrong_rows() -> None:
    for _, question, right, others in asked("duplicates"):
        assert len({line.text for line in right}) == 1
        opening = set(tokens(question.text)) - STOP_WORDS
        repeats = Counter(line.text for line in others)
        near_misses = [text for text, count in repeats.items() if count >= 2 and opening & stems(text)]
        assert len(near_misses) >= 2, question.text


def within(phrase: str, now: date) -> Callable[[date], bool]:
    """Which days a phrase means, read word by word and independently of how the set draws them."""
    lowered = phrase.lower()
    numbers = [int(number) for number in re.findall(r"\d+", lowered)]
    year = next((number for number in numbers if number > 1900), 0)
    names = [MONTHS.index(word) + 1 for word in re.findall(r"[A-Z][a-z]+", phrase) if word in MONTHS]
    back = [now - timedelta(days=count) for count in range(1, 1200)]
    if re.search(r"\d{4}-\d\d-\d\d", lowered):
        return lambda day: day.isoformat() in lowered
    if "christmas" in lowered:
        return lambda day: day.year == year and day.month == 12 and day.day >= 20
    if "spring" in lowered or "autumn" in lowered:
        season = (3, 4, 5) if "spring" in lowered else (9, 10, 11)
        return lambda day: day.year == year and day.month in season
    if "early" in lowered:
        return lambda day: (day.year, day.month) == (year, names[0]) and day.day <= 10
    if "between" in lowered:
        return lambda day: day.year == year and names[0] <= day.month <= names[1]
    if names and year and len(numbers) == 2:
        return lambda day: (day.year, day.month, day.day) == (year, names[0], min(numbers))
    if names and year:
        return lambda day: (day.year, day.month) == (year, names[0])
    if year:
        return lambda day: day.year == year
    if names:
        latest = next(day for day in back if day.month == names[0] and (day.year, day.month) != (now.year, now.month))
        return lambda day: (day.year, day.month) == (latest.year, latest.month)
    if "summer" in lowered:
        latest = next(day for day in back if (day.month, day.day) == (8, 31))
        return lambda day: day.year == latest.year and day.month in (6, 7, 8)
    if "last year" in lowered:
        return lambda day: day.year == now.year - 1
    if "last week" in lowered:
        sunday = next(day for day in back if day.weekday() == 6)
        return lambda day: sunday - timedelta(days=6) <= day <= sunday
    if "yesterday" in lowered:
        return lambda day: day == back[0]
    for weekday, word in enumerate(DAYS):
        if word in phrase:
            return lambda day: day == next(each for each in back if each.weekday() == weekday)
    amount = re.search(r"(\w+) (day|week|month|year)s? ago", lowered)
    assert amount is not None, phrase
    count = int(amount[1]) if amount[1].isdigit() else 1 if amount[1] == "a" else SMALL.index(amount[1])
    length, reach = {"day": (1, 0), "week": (7, 2), "month": (30.4, 7), "year": (365, 12)}[amount[2]]
    return lambda day: abs((now - day).days - count * length) <= reach


def test_dates_tell_the_right_rows_from_others_on_the_topic() -> None:
    for _, question, right, others in asked("dates"):
        (topic,) = (topic for topic in TOPICS if re.search(rf"\b{topic}\b", question.text))
        phrase = re.sub(rf"\b{topic}\b", "", question.text)
        meant = within(phrase, day_of(question.asked_ms))
        assert all(topic in line.text and meant(day_of(line.date_ms)) for line in right), question.text
        same = [line for line in others if re.search(rf"\b{topic}\b", line.text)]
        assert len(same) >= 2
        assert [line.text for line in same if meant(day_of(line.date_ms))] == [], question.text
        assert not any(re.search(r"\b(19|20)\d\d\b", line.text) for line in (*right, *same))


def test_paraphrases_share_no_content_word_with_their_answer() -> None:
    ignored = {stem for word in STOP_WORDS for stem in tokens(word)}
    for _, question, right, others in asked("paraphrase"):
        (line,) = right
        content = set(tokens(question.text)) - ignored
        assert content & stems(line.text) == set(), question.text
        assert max(len(content & stems(other.text)) for other in others) >= min(2, len(content)), question.text


def test_chat_answers_follow_a_turn_of_the_other_speaker_in_their_session() -> None:
    for corpus, _, right, _ in asked("chat"):
        (line,) = right
        before = [other for other in corpus.lines if other.session == line.session and other.id < line.id][-1]
        assert line.session is not None
        assert before.role != line.role
        assert line.date_ms - before.date_ms < DAY_MS / 24


def test_a_question_about_an_unknown_mark_is_refused() -> None:
    part = Part()
    part.tell("theme", "The kettle is on.", "kettle")
    vault = probes.VAULTS[0]
    (line,) = assemble(vault, [part]).lines
    assert (line.text, line.role in vault.speakers) == ("The kettle is on.", True)
    part.asks.append(Ask("Is the kettle on?", "pot", "chat"))
    with pytest.raises(KeyError, match="pot"):
        assemble(vault, [part])


def test_manuals_name_the_topics_that_are_absent() -> None:
    topics = {topic: f"{topic} is explained here." for _, topic in manuals.QUESTIONS}
    full = manuals.corpus(topics)
    assert len(full.questions) == len(manuals.QUESTIONS)
    del topics["yield"], topics["assert"]
    with pytest.raises(LookupError, match="no topic assert, yield"):
        manuals.corpus(topics)


def test_manuals_count_a_topic_that_repeats_the_answer_whole() -> None:
    answer = "A paragraph that is long enough to count, with\nits lines broken in one way [1]."
    topics = {
        topic: f"{topic}\n\n{topic} explained at some length, so that no other topic holds its paragraph."
        for _, topic in manuals.QUESTIONS
    }
    topics["break"] = f"Short\n*****\n\n{answer}"
    topics["compound"] += "\n\n" + answer.replace("\n", " ").replace("[1]", "[7]")
    corpus = manuals.corpus(topics)
    names = {line.id: name for line, name in zip(corpus.lines, sorted(topics), strict=True)}
    relevant = {question.text: {names[each] for each in question.relevant} for question in corpus.questions}
    assert relevant["How do I leave a loop early?"] == {"break", "compound"}
    assert relevant["How do I skip the rest of one round of a loop?"] == {"continue"}
