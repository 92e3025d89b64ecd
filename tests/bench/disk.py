"""What a row costs on disk, with its words and vectors."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.bench.report import Options, Row
from tests.bench.vaults import Prose, bench

CHARACTERS = 1_024


def run(options: Options) -> list[Row]:
    count = 2_000 if options.quick else 20_000
    prose = Prose()
    with bench() as made:
        caller = made.caller()
        made.fill_indexed(caller, [prose.text(CHARACTERS) for _ in range(count)])
        path = made.files.path(caller.vault)
        packed = path.with_name("packed.sqlite3")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM INTO ?", (str(packed),))
            parts = dict(
                connection.execute(
                    "SELECT 'words', SUM(LENGTH(terms) + LENGTH(counts)) FROM passage UNION ALL"
                    " SELECT 'vectors', SUM(LENGTH(vector)) FROM passage UNION ALL"
                    " SELECT 'passages', COUNT(*) FROM passage UNION ALL"
                    " SELECT 'text', SUM(LENGTH(CAST(text AS BLOB))) FROM memory"
                )
            )
        used, least = _size(path), _size(packed)
    each = {name: value / count for name, value in parts.items()}
    return [
        Row(
            f"disk per row of {CHARACTERS:,} characters, {count:,} rows",
            f"{used / count:,.0f} bytes, {least / count:,.0f} after VACUUM",
            f"{each['text']:,.0f} bytes of text",
            f"{used / parts['text']:.2f}×",
        ),
        Row(
            "of which",
            f"vectors {each['vectors']:,.0f} bytes, words {each['words']:,.0f} bytes",
            f"{each['passages']:.1f} passages a row",
        ),
    ]


def _size(path: Path) -> int:
    return path.stat().st_size


TITLE = "Disk"
NOTE = "The vault's file after its write-ahead log was folded in; vectors of 384 numbers, two bytes each."
