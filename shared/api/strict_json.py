"""JSON as it must be: no value that two readers could read differently, nothing that cannot be stored verbatim."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from shared.domain.errors import InvalidRequest, TooLarge
from shared.domain.text import storable_problem

MAX_RAW_BYTES = 5 * 1024 * 1024
MAX_COMPACT_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
# Beyond any request's needs; a bound on the work that a hostile body can cause.
MAX_CONTAINERS = 100_000
MAX_INTEGER = 2**63 - 1
BYTE_ORDER_MARK = "\ufeff"

# Written again, JSON can only grow through its numbers, and by less than four times (1e15 is 1000000000000000.0).
_SURELY_COMPACT_BYTES = MAX_COMPACT_BYTES // 4


class _Refused(ValueError):
    """Why a text is not acceptable JSON."""


def check_raw_size(raw: bytes) -> None:
    """Raises `TooLarge` above 5 MiB."""
    if len(raw) > MAX_RAW_BYTES:
        raise too_large_raw()


def too_large_raw() -> TooLarge:
    return TooLarge(
        f"The request body is larger than {MAX_RAW_BYTES:,} bytes (5 MiB).",
        hint="Split the file or the list into several requests.",
    )


def decode(raw: bytes, where: str = "body") -> str:
    """UTF-8 text without its byte order mark. Raises `InvalidRequest` naming the first bad byte."""
    try:
        return raw.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise InvalidRequest.field(where, f"is not UTF-8 at byte {error.start}", "Send the text as UTF-8.") from None


def parse_object(text: str, where: str = "") -> dict[str, object]:
    """One JSON object. Raises as `parse`, and for anything that is no object."""
    value = parse(text, where, wanted=dict)
    assert isinstance(value, dict)
    return value


def parse(text: str, where: str = "", wanted: type[object] = object, storable: bool = True) -> object:
    """One JSON value. `where` begins the field names of errors; the whole is called ``body`` without it.

    Raises `InvalidRequest` for malformed JSON, duplicate keys, NaN and infinities, integers outside 64 bits, nesting
    deeper than `MAX_DEPTH`, more than `MAX_CONTAINERS` lists and objects, for a value that is not `wanted`, and, unless
    it need not be `storable`, for lone surrogates and NUL.
    """
    whole = where or "body"
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidRequest.field(whole, problem, "Send one JSON object.") from None
    except RecursionError:
        raise InvalidRequest.field(whole, f"is nested deeper than {MAX_DEPTH} levels") from None
    except _Refused as error:
        raise InvalidRequest.field(whole, str(error)) from None
    except ValueError:
        raise InvalidRequest.field(whole, "holds a number with too many digits") from None
    if not isinstance(value, wanted):
        raise InvalidRequest.field(whole, "must be a JSON object")
    check(value, where, texts=storable and "\\u" in text)
    found: object = value
    return found


def check(value: object, where: str = "", texts: bool = True) -> None:
    """Refuse what `parse` refuses in a value that was parsed; lone surrogates and NUL only where `texts` are looked at.

    Raises `InvalidRequest` naming the place.
    """
    for path, problem in _problems(value, escaped=texts):
        raise InvalidRequest.field(".".join([*([where] if where else []), *path]) or where or "body", problem)


def must_be_measured(raw_size: int) -> bool:
    """Whether a body of that size could exceed 4 MiB when it is written again."""
    return raw_size > _SURELY_COMPACT_BYTES


def compact_size(value: object) -> int:
    """Bytes of the value as compact UTF-8 JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def check_compact_size(size: int) -> None:
    """Raises `TooLarge` above 4 MiB."""
    if size > MAX_COMPACT_BYTES:
        raise TooLarge(
            f"The request holds more than {MAX_COMPACT_BYTES:,} bytes (4 MiB) of JSON, written compactly in UTF-8.",
            hint="Split the file or the list into several requests; send UTF-8 instead of \\uXXXX escapes.",
        )


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"names the key {_shown(key)} twice in one object")
            seen.add(key)
    return found


def _no_constant(name: str) -> object:
    raise _Refused(f"holds {name}, which is not JSON")


def _shown(key: str) -> str:
    return json.dumps(key[:40])


def _problems(value: object, escaped: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong inside, with the path to it.

    Iterative, since depth is what it checks; a path is only made for what lies deeper or is wrong, since a body may
    hold millions of numbers. Without escapes in it (`escaped`) no text can hold what cannot be stored.
    """
    stack: list[tuple[object, tuple[str, ...]]] = [(value, ())]
    met = 0
    while stack:
        node, path = stack.pop()
        if len(path) >= MAX_DEPTH:
            yield path[:3], f"is nested deeper than {MAX_DEPTH} levels"
        named: Iterable[tuple[object, object]] = ()
        if isinstance(node, dict):
            named = node.items()
            for key in node if escaped else ():
                problem = storable_problem(key)
                if problem is not None:
                    yield path, f"has a key that {problem}"
        elif isinstance(node, list):
            named = enumerate(node)
        for name, item in named:
            if isinstance(item, dict | list):
                met += 1
                if met > MAX_CONTAINERS:
                    yield (), f"holds more than {MAX_CONTAINERS:,} lists and objects"
                    return
                stack.append((item, (*path, _short(name))))
            else:
                problem = _scalar_problem(item, escaped)
                if problem is not None:
                    yield (*path, _short(name)), problem


def _scalar_problem(value: object, escaped: bool) -> str | None:
    if isinstance(value, str):
        return storable_problem(value) if escaped else None
    if isinstance(value, float):
        return None if math.isfinite(value) else "is too large for a number"
    if isinstance(value, int):
        return None if -MAX_INTEGER - 1 <= value <= MAX_INTEGER else "is outside the range of 64 bits"
    return None


def _short(name: object) -> str:
    return str(name)[:40]
