"""What every remote embedding model needs: texts cut to its limits, calls side by side, answers that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# Remote models refuse a text without any letter, and one of white space alone means nothing to them.
BLANK = "."


def shortened(text: str, most_bytes: int) -> str:
    """The longest beginning of at most `most_bytes` UTF-8 bytes, so of at most as many tokens; never blank."""
    kept = text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")
    return kept if kept.strip() else BLANK


def batches(texts: Sequence[str], most: int, most_bytes: int) -> Iterator[list[str]]:
    """Cut a list, in order, into lists of at most `most` texts and `most_bytes`; a text over that stands alone."""
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8", "replace"))
        if batch and (len(batch) >= most or size + length > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def side_by_side(
    embed: Callable[[list[str]], Floats], parts: Sequence[list[str]], dimension: int, at_once: int
) -> Floats:
    """The vectors of all parts, in order. The first part that fails fails all, and none is begun after that."""
    if not parts:
        return np.zeros((0, dimension), np.float32)
    if len(parts) == 1:
        return embed(parts[0])
    failed = Event()

    def unless_failed(part: list[str]) -> Floats:
        if failed.is_set():
            return np.zeros((0, dimension), np.float32)
        try:
            return embed(part)
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(min(at_once, len(parts))) as pool:
        futures = [pool.submit(unless_failed, part) for part in parts]
        for future in as_completed(futures):
            future.result()
        return np.concatenate([future.result() for future in futures])


def unit_vectors(rows: object, count: int, dimension: int) -> Floats:
    """Rows of numbers as vectors of unit length, shape ``(count, dimension)``.

    Raises `ValueError`, which says what is wrong, for anything but `count` rows of `dimension` finite numbers that are
    not all zero.
    """
    if not isinstance(rows, list) or len(rows) != count:
        raise ValueError(f"{len(rows) if isinstance(rows, list) else 'no'} vectors for {count} texts")
    for row in rows:
        if not isinstance(row, list) or not all(type(number) in (int, float) for number in row):
            raise ValueError("a vector that is no list of numbers")
        if len(row) != dimension:
            raise ValueError(f"a vector of {len(row)} numbers in place of {dimension}")
    try:
        vectors = np.array(rows, np.float64).reshape(count, dimension)
    except OverflowError:
        raise ValueError("a vector of numbers beyond all bounds") from None
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise ValueError("a vector without a direction")
    unit: Floats = (vectors / lengths).astype(np.float32)
    return unit
