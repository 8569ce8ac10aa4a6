"""RPC's share by the traces of a storm: made of known spans, at known times, with and without CPU times."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contend.context import words as context_words
from contend.context.choose import put
from contend.document.context import AT_LEAST, CARRIED, TRACES
from support import ctrace_files as c
from support.ctrace_files import Made, event
from support.intervals import holds
from support.made_context import costs_run, storms_run

MS = 1_000_000
BEGAN = 10**12
RATIOS = {"ends_cpu": 0.85, "broker_cpu": 0.95, "latency_p50": 0.9}
ROLES = {"API": 0.6, "conductor": 0.37, "broker": 0.03}  # 20 CPU seconds a storm of 20
CALL, FIRST, SERVE = 600, 100, 200  # ms of a storm
CALL_CPU, FIRST_CPU = 480, 80


def trace(place: Path, storms: int, *, timed: bool) -> Path:
    """In each storm a boot of a second with a call, in which the message is serialised, and something served."""
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    made.track(2, c.THREAD, "server", tid=2)
    events: dict[int, list[bytes]] = {1: [], 2: []}

    def put_in(storm: int, track: int, ms: float, kind: int, name: str, cpu_ms: int) -> None:
        events[track].append(event(BEGAN + storm * 10_000 * MS + int(ms * MS), kind, made.string(name)))
        if timed:
            events[track].append(event((storm * 1000 + cpu_ms) * MS, c.CPU))

    boot, call, first = "_do_build_and_run_instance", "rpc call update", "rpc serialise message"
    for storm in range(storms):
        put_in(storm, 1, 50, c.BEGIN, boot, 0)
        put_in(storm, 1, 100, c.BEGIN, call, 10)
        put_in(storm, 1, 150, c.BEGIN, first, 20)
        put_in(storm, 1, 150 + FIRST, c.END, first, 20 + FIRST_CPU)
        put_in(storm, 1, 100 + CALL, c.END, call, 10 + CALL_CPU)
        put_in(storm, 1, 950, c.END, boot, 800)
        put_in(storm, 2, 200, c.BEGIN, "rpc serve update", 0)
        put_in(storm, 2, 200 + SERVE, c.END, "rpc serve update", 150)
        # After the storm: no part of it.
        put_in(storm, 1, 3000, c.BEGIN, call, 800)
        put_in(storm, 1, 3000 + CALL, c.END, call, 800 + CALL_CPU)
    for track, told in events.items():
        made.events(track, told)
    made.end(BEGAN + storms * 10_000 * MS)
    place.mkdir()
    made.save(place)
    return place


@pytest.mark.parametrize("timed", [True, False])
def test_known_spans_give_the_known_share(tmp_path: Path, timed: bool) -> None:
    traces = trace(tmp_path / "traces", 60, timed=timed)
    storm = storms_run(tmp_path, ROLES, traces=str(traces), began_ns=BEGAN, noise=0.01)
    run = costs_run(tmp_path, RATIOS)
    found = put(run, storm.path)
    by_traces = found.shares[0] if timed else found.beside[0]
    by_messages = found.beside[0] if timed else found.shares[0]
    # Without CPU times a call's is the mean of its own time: of the call in a storm and of that after it.
    own = CALL_CPU if timed else CALL - FIRST / 2 + FIRST
    assert (by_traces.how, by_traces.bound) == (TRACES, AT_LEAST if timed else "")
    assert holds(by_traces.estimate, own / 20_000)
    assert by_messages.how == CARRIED
    first = found.beside[1]
    assert holds(first.estimate, (FIRST_CPU if timed else FIRST) / 20_000)
    assert found.path is not None
    assert (found.path.how, found.path.bound) == (TRACES, AT_LEAST), (
        "the boot on its host is not all of the way"
    )
    assert holds(found.path.estimate, CALL / 4_000)
    assert any("CPU times" in note for note in found.notes) != timed
    assert any("critical path of" in note for note in found.notes)
    said = context_words.answer(found)
    assert ("RPC took at least 5." in said) == timed
    assert "one after the other" not in said
    # What they said is kept with the storms.
    shutil.rmtree(traces)
    assert put(run, storm.path).to_json() == found.to_json()


def test_traces_that_are_gone_are_told(tmp_path: Path) -> None:
    storm = storms_run(tmp_path, ROLES, traces=str(tmp_path / "nowhere"), began_ns=BEGAN)
    found = put(costs_run(tmp_path, RATIOS), storm.path)
    assert found.shares[0].how == CARRIED
    assert any("nowhere" in note for note in found.notes)


def test_traces_of_another_time_tell_no_share(tmp_path: Path) -> None:
    traces = trace(tmp_path / "traces", 2, timed=True)
    storm = storms_run(tmp_path, ROLES, traces=str(traces), began_ns=5 * BEGAN)
    found = put(costs_run(tmp_path, RATIOS), storm.path)
    assert found.shares[0].how == CARRIED
    assert any("while there were storms" in note for note in found.notes)
