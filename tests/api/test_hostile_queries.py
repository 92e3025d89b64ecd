"""Queries that are no questions: never an error, always the same order, and nothing of them is read as syntax."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client

SEARCH, PREPARE, DATES = "/v1/memory/search", "/v1/memory/prepare", "/v1/memory/date-search"
INGEST = "/v1/memory/ingest"
LONGEST = 100_000

ROWS = (
    "the violin stood in the harbour",
    "a violin and a saffron lantern",
    "saffron, nothing else",
    "שלום עולם",
    "東京は夜です",
    "👩‍👩‍👧‍👦 at the weir",
    "é e\u0301 E",
    "the the the",
)

HOSTILE = {
    "one letter": "a",
    "one digit": "7",
    "one sign": "?",
    "only stop words": "the of and a to in",
    "only punctuation": "?!.,;:-_()[]{}<>/\\|@#$%&=+~^*'\"`",
    "only underscores and dots": "__..__ . _",
    "FTS5 operators": 'violin AND (saffron OR NOT lantern) NEAR(violin saffron, 2) "violin saffron" ^violin + violin*',
    "FTS5 columns": "content : violin {content role} : violin - {role} : x",
    "FTS5 unbalanced": '"violin (saffron NEAR( AND OR NOT',
    "only FTS5 operators": "AND OR NOT NEAR",
    "Lucene operators": "+violin -saffron violin~2 sa?fron l*ern violin^4 [a TO z] {a TO *} /vi.*n/ \\",
    "Lucene fields": "content:* _exists_:content role:user vault:* NOT _id:x",
    "Solr local parameters": "{!func}violin {!lucene df=content}saffron _query_:x",
    "a query as JSON": '{"match_all": {}}, "script": {"source": "doc[\'content\'].value"}',
    "a script": "doc['vector'].size(); System.exit(0); params.q",
    "a template": "{{#toJson}}violin{{/toJson}} ${violin} #{violin} %s %(x)s {0}",
    "SQL": "'; DROP TABLE memory; -- \" OR 1=1 UNION SELECT * FROM key /*",
    "single quotes": "'''''' 'violin'",
    "double quotes": '"""""" "violin',
    "emoji": "🎻👩‍👩‍👧‍👦🇩🇪👋🏽1️⃣",
    "right to left": "שלום \u202eעולם\u202c مرحبا بالعالم",
    "languages without spaces": "東京は夜です한국어ไทยภาษา中文",
    "only combining marks": "\u0301\u0301\u0308\u20dd",
    "only joiners": "\u200d\u200c\u2060\ufeff",
    "controls": "\x01\x02\x1b[31m\x7f\x80violin",
    "non-characters": "\ufffe\uffff\U0010ffff\ufdd0",
    "white space of all kinds": "\u2003violin\u3000\u2028saffron\x85",
    "digits of all kinds": "½ ٣ ५ ¾ Ⅷ ②",
}
LONG = {
    "one long word": "x" * LONGEST,
    "one long number": "9" * LONGEST,
    "many equal words": ("violin " * LONGEST)[:LONGEST],
    "many words": " ".join(f"w{number}" for number in range(LONGEST))[:LONGEST],
    "many characters without spaces": "".join(chr(0x4E00 + number % 20_000) for number in range(LONGEST // 5)),
    "many quotes": '"' * (LONGEST // 10),
    "many parentheses": "(" * (LONGEST // 10),
    "many stars": "*" * (LONGEST // 10),
    "many emoji": "🎻" * (LONGEST // 10),
    "many marks on one letter": "e" + "\u0301" * (LONGEST - 1),
    "many dots and names": ("a.b_c." * LONGEST)[:LONGEST],
    "many apostrophes": ("x's" * LONGEST)[:LONGEST],
    "many dates": ("last March 2024-05-06 " * LONGEST)[:LONGEST],
}


def tell(client: Client) -> None:
    """Rows of two instants, several of them equal."""
    messages = [
        {"role": "user", "content": text, "timestamp": 1_700_000_000_000 + number % 2}
        for number, text in enumerate((*ROWS, *["equal"] * 4))
    ]
    assert client.post(INGEST, {"messages": messages}).status == 202


def rows(client: Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post(path, body)
    assert answer.status == 200, answer.body[:300]
    found = answer.json["memories"]
    assert isinstance(found, list)
    return found


SLOW = pytest.mark.slow


@pytest.mark.parametrize("queries", [pytest.param(HOSTILE, id="short"), pytest.param(LONG, id="long", marks=SLOW)])
def test_any_query_has_an_answer_and_one_order(queries: dict[str, str], client: Client) -> None:
    tell(client)
    for name, query in queries.items():
        assert 1 <= len(query) <= LONGEST
        dated = {"from": "2023-01-01", "query": query, "max_tokens": 200_000}
        for path, body in ((SEARCH, {"query": query, "limit": 500}), (DATES, dated)):
            found = rows(client, path, body)
            # All of them: what matches, then the nearest others.
            assert len(found) == len(ROWS) + 4, name
            # Of equal ones the newest first, then by id.
            in_order = sorted(found, key=lambda row: row["id"])
            in_order.sort(key=lambda row: (row["score"], row["date"]), reverse=True)
            assert [row["id"] for row in found] == [row["id"] for row in in_order], name
            assert all(0 <= row["score"] <= 1 for row in found), name
            if path == SEARCH or len(query) < LONGEST // 10:
                assert rows(client, path, body) == found, name
        assert client.post(PREPARE, {"messages": [{"role": "user", "content": query}]}).status == 200, name


OPERATORS = (
    ("violin NOT harbour", {ROWS[0], ROWS[1]}),
    ("-violin", {ROWS[0], ROWS[1]}),
    ('"harbour violin"', {ROWS[0], ROWS[1]}),
    ("violin AND saffron", {ROWS[0], ROWS[1], ROWS[2]}),
    ("violin^0 saffron^0", {ROWS[0], ROWS[1], ROWS[2]}),
    ("lan*", set[str]()),
    ("l?n", set[str]()),
    ("/lan.*/", set[str]()),
    ("vxlxn~", set[str]()),
    ("content:*", set[str]()),
    ("[a TO z]", set[str]()),
    ("{!match_all}", set[str]()),
    ("*", set[str]()),
    ("*:*", set[str]()),
)


def test_operators_are_words_or_nothing(client: Client) -> None:
    """What matches is what holds a word of the query; `prepare` shows nothing else."""
    client.ingest(*ROWS)
    for query, expected in OPERATORS:
        context = client.post(PREPARE, {"messages": [{"role": "user", "content": query}]}).json["context"]
        assert {text for text in ROWS if text in context} == expected, query


@pytest.mark.parametrize("path", [SEARCH, DATES])
def test_a_query_that_is_too_long_is_refused(path: str, client: Client) -> None:
    answer = client.post(path, {"query": "x" * (LONGEST + 1), **({"from": "2023-01-01"} if path == DATES else {})})
    assert (answer.status, answer.fields) == (400, ["query"])
