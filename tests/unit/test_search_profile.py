"""The bench that takes a search apart knows every stage by the name it has in the code."""

from __future__ import annotations

import pytest

from tests.bench.search_profile import REST, STAGES, Stopwatch, profiled
from tests.bench.vaults import Prose, bench


def test_every_stage_is_met() -> None:
    with bench() as made:
        prose, caller = Prose(vocabulary=2_000), made.caller()
        made.fill_indexed(caller, [prose.text(200) for _ in range(60)])
        (watch,) = profiled(made, caller, [prose.question()])
    assert set(watch.calls) == {*(stage for stage, _ in STAGES), REST}
    assert watch.calls["ranking"] == watch.calls["word scores"] == watch.calls[REST] == 1


def test_a_stage_inside_another_stops_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([10.0, 12.0, 15.0, 19.0])
    monkeypatch.setattr("tests.bench.search_profile.process_time", lambda: next(ticks))
    watch = Stopwatch()
    with watch.stage("outer"), watch.stage("inner"):
        pass
    assert watch.seconds == {"outer": 2.0 + 4.0, "inner": 3.0}
