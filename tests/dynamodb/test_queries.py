"""Queries of the table and of its local indexes, on the table in memory and on ministack."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb.rig import Rig, code, n, names, s, values

VALIDATION = "ValidationException"
MEBIBYTE = 1024 * 1024


def keys(answer: Any) -> list[str]:
    return [item["sk"]["S"] for item in answer["Items"]]


@pytest.fixture
def rows(rig: Rig) -> Rig:
    """a to f, written out of order; b, d and f are in the pool, d and f at the same place of it."""
    for name in "dafbec":
        place = ord(name) - ord("a")
        more = {"pool": s(f"1#{min(place, 3)}")} if place % 2 else {}
        rig.put(name, k=n(place), i=n(place % 3), cf=n(9), t=s("not projected"), when=s(f"1#{place // 2}"), **more)
    rig.put("a", pk="W", pool=s("1#0"), when=s("1#0"))
    return rig


@pytest.mark.parametrize(
    ("condition", "given", "found"),
    [
        ("", {}, "abcdef"),
        ("sk = :a", {"a": "c"}, "c"),
        ("sk > :a", {"a": "c"}, "def"),
        ("sk >= :a", {"a": "c"}, "cdef"),
        ("sk < :a", {"a": "c"}, "ab"),
        ("sk <= :a", {"a": "c"}, "abc"),
        ("sk BETWEEN :a AND :b", {"a": "b", "b": "d"}, "bcd"),
        ("sk BETWEEN :a AND :b", {"a": "bb", "b": "bc"}, ""),
        ("begins_with(sk, :a)", {"a": "e"}, "e"),
        ("begins_with(sk, :a)", {"a": "ee"}, ""),
    ],
)
def test_conditions_on_the_sort_key(rows: Rig, condition: str, given: dict[str, Any], found: str) -> None:
    assert keys(rows.query(condition=condition, given=values(**given))) == list(found)
    backwards = rows.query(condition=condition, given=values(**given), ScanIndexForward=False)
    assert keys(backwards) == list(found)[::-1]


def test_sort_keys_are_in_the_order_of_their_bytes(rig: Rig) -> None:
    texts = ["Z", "a", "a!", "a\x00", "aa", "é", "￿", "𝄞", "10", "9"]
    for text in texts:
        rig.put(text)
    assert keys(rig.query()) == sorted(texts, key=str.encode)
    prefix = rig.query(condition="begins_with(sk, :a)", given=values(a="a"))
    assert keys(prefix) == ["a", "a\x00", "a!", "aa"]


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        ("sk = :a", {"a": 1}),
        ("sk = :a", {"a": ""}),
        ("begins_with(sk, :a)", {"a": ""}),
        ("sk BETWEEN :a AND :b", {"a": "d", "b": "b"}),
        ("t = :a", {"a": "x"}),
        ("sk > :a AND sk < :b", {"a": "a", "b": "c"}),
    ],
)
def test_key_conditions_that_do_not_fit_are_refused(rows: Rig, condition: str, given: dict[str, Any]) -> None:
    assert code(lambda: rows.query(condition=condition, given=values(**given))) == VALIDATION


def test_a_partition_is_named(rows: Rig) -> None:
    def query() -> Any:
        return rows.client.query(
            TableName=rows.name, KeyConditionExpression="sk = :a", ExpressionAttributeValues=values(a="a")
        )

    assert code(query) == VALIDATION


def test_what_indexes_hold(rows: Rig) -> None:
    key = {"pk": s("V"), "sk": s("b")}
    pool = rows.query(IndexName="pool")["Items"]
    assert pool[0] == {**key, "pool": s("1#1"), "k": n(1), "i": n(1)}
    timeline = rows.query(IndexName="timeline")["Items"]
    assert timeline[1] == {**key, "when": s("1#0"), "i": n(1), "cf": n(9)}
    assert rows.query(IndexName="session")["Items"] == []
    rows.put("z", turn=s("t"), k=n(1))
    assert rows.query(IndexName="session")["Items"] == [{"pk": s("V"), "sk": s("z"), "turn": s("t")}]
    assert code(lambda: rows.query(IndexName="nothing")) == VALIDATION


def test_indexes_are_sparse_and_ordered_then_by_the_tables_sort_key(rows: Rig) -> None:
    assert keys(rows.query(IndexName="pool")) == ["b", "d", "f"]
    assert keys(rows.query(IndexName="pool", ScanIndexForward=False)) == ["f", "d", "b"]
    assert keys(rows.query(IndexName="timeline")) == list("abcdef")


@pytest.mark.parametrize(
    ("condition", "given", "found"),
    [
        ("#when = :a", {"a": "1#1"}, "cd"),
        ("#when > :a", {"a": "1#0"}, "cdef"),
        ("#when <= :a", {"a": "1#1"}, "abcd"),
        ("#when BETWEEN :a AND :b", {"a": "1#1", "b": "1#2"}, "cdef"),
        ("begins_with(#when, :a)", {"a": "1#"}, "abcdef"),
        ("begins_with(#when, :a)", {"a": "2#"}, ""),
    ],
)
def test_conditions_on_an_indexs_key(rows: Rig, condition: str, given: dict[str, Any], found: str) -> None:
    more = {"IndexName": "timeline", "ExpressionAttributeNames": names("when")}
    assert keys(rows.query(condition=condition, given=values(**given), **more)) == list(found)
    backwards = rows.query(condition=condition, given=values(**given), ScanIndexForward=False, **more)
    assert keys(backwards) == list(found)[::-1]


def test_indexes_follow_every_write(rows: Rig) -> None:
    more = {"ExpressionAttributeNames": names("pool")}
    rows.update("b", "REMOVE #pool", **more)
    rows.update("c", "SET #pool = :a", ExpressionAttributeValues=values(a="1#9"), **more)
    rows.update("d", "SET #pool = :a", ExpressionAttributeValues=values(a="0#0"), **more)
    assert keys(rows.query(IndexName="pool")) == ["d", "f", "c"]
    rows.client.delete_item(**rows.place("f"))
    rows.put("c")
    assert keys(rows.query(IndexName="pool")) == ["d"]


def test_pages_of_a_limit(rows: Rig) -> None:
    page = rows.query(Limit=2)
    assert keys(page) == ["a", "b"]
    assert page["LastEvaluatedKey"] == {"pk": s("V"), "sk": s("b")}
    assert [keys(page) for page in rows.pages(Limit=4)] == [list("abcd"), list("ef")]
    # A page that ends with the last row does not know it.
    assert [keys(page) for page in rows.pages(Limit=3)] == [list("abc"), list("def"), []]
    assert [keys(page) for page in rows.pages(Limit=4, ScanIndexForward=False)] == [list("fedc"), list("ba")]


def test_pages_of_an_index(rows: Rig) -> None:
    page = rows.query(IndexName="pool", Limit=2)
    assert page["LastEvaluatedKey"] == {"pk": s("V"), "sk": s("d"), "pool": s("1#3")}
    assert [keys(page) for page in rows.pages(IndexName="pool", Limit=1)] == [["b"], ["d"], ["f"], []]
    backwards = rows.pages(IndexName="pool", Limit=2, ScanIndexForward=False)
    assert [keys(page) for page in backwards] == [["f", "d"], ["b"]]


def test_a_page_begins_after_a_row_that_is_gone(rows: Rig) -> None:
    start: dict[str, Any] = {"ExclusiveStartKey": {"pk": s("V"), "sk": s("bb")}}
    assert keys(rows.query(**start)) == list("cdef")
    assert keys(rows.query(ScanIndexForward=False, **start)) == ["b", "a"]
    start = {"ExclusiveStartKey": {"pk": s("V"), "sk": s("e"), "pool": s("1#3")}}
    assert keys(rows.query(IndexName="pool", **start)) == ["f"]


@pytest.mark.parametrize(
    "start",
    [{"pk": s("V")}, {"pk": s("V"), "sk": n(1)}, {"pk": s("W"), "sk": s("a")}, {"pk": s("V"), "sk": s("a"), "x": n(1)}],
)
def test_starting_keys_that_do_not_fit_are_refused(memory: Rig, start: dict[str, Any]) -> None:
    assert code(lambda: memory.query(ExclusiveStartKey=start)) == VALIDATION


def test_an_indexs_starting_key_holds_both_keys(rows: Rig) -> None:
    start = {"pk": s("V"), "sk": s("a")}
    assert code(lambda: rows.query(IndexName="pool", ExclusiveStartKey=start)) == VALIDATION


def test_a_filter_comes_after_the_limit(rows: Rig) -> None:
    more = {"FilterExpression": "i = :i", "given": values(i=2)}
    page = rows.query(Limit=2, **more)
    assert (page["Items"], page["Count"], page["ScannedCount"]) == ([], 0, 2)
    assert [keys(page) for page in rows.pages(Limit=2, **more)] == [[], ["c"], ["f"], []]
    assert keys(rows.query(IndexName="pool", **more)) == ["f"]


def test_a_filter_of_an_index_sees_the_table_keys(rows: Rig) -> None:
    more = {"FilterExpression": "sk > :b AND k < :k", "given": values(b="b", k=5)}
    assert keys(rows.query(IndexName="pool", **more)) == ["d"]


def test_counts(rows: Rig) -> None:
    answer = rows.query(Select="COUNT", FilterExpression="i = :i", given=values(i=2))
    assert (answer["Count"], answer["ScannedCount"]) == (2, 6)
    assert "Items" not in answer


def test_projections(rows: Rig) -> None:
    rows.put("z", m={"M": {"a": n(1), "b": n(2)}})
    last = {"condition": "sk = :a", "given": values(a="z")}
    assert rows.query(ProjectionExpression="m.a, none1", **last)["Items"] == [{"m": {"M": {"a": n(1)}}}]
    assert rows.query(ProjectionExpression="none1", **last)["Items"] == [{}]
    both = rows.query(ProjectionExpression="m.a, m.b, sk", **last)["Items"]
    assert both == [{"sk": s("z"), "m": {"M": {"a": n(1), "b": n(2)}}}]
    assert rows.query(IndexName="pool", ProjectionExpression="sk, k", Limit=1)["Items"] == [{"sk": s("b"), "k": n(1)}]
    assert code(lambda: rows.query(ProjectionExpression="m, m.a")) == VALIDATION
    assert code(lambda: rows.query(ProjectionExpression="Text")) == VALIDATION


def test_a_page_holds_at_most_a_mebibyte(rig: Rig) -> None:
    for number in range(7):
        rig.put(f"{number}", t=s("x" * 300_000), turn=s("t"))
    pages = list(rig.pages())
    assert [key for page in pages for key in keys(page)] == [f"{number}" for number in range(7)]
    assert all(page["Count"] <= MEBIBYTE // 300_000 + 1 for page in pages)
    assert len(pages) > 1
    # An index's page is measured by what the index holds.
    assert rig.query(IndexName="session")["Count"] == 7
