"""Traces and recordings in one file, read by Perfetto's own parser: one clock, counters with their units, whose they
are; and `contend trace --sample`, which makes both."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from contend.cli.export_ import command as export
from contend.errors import BadInput
from contend.report.trace_export import export_traces
from contend.store.traces import notes
from support import ctrace_files as c
from support.ctrace_files import Made, event
from support.made_samples import BEGAN, S, made_sample
from support.trace_processor import Rows, query

FORMS = ("perfetto", "chrome")
TROUBLE = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
BOOT_NS = 1_767_323_045 * S - BEGAN  # of made_sample: its began_utc is 2026-01-02T03:04:05


def burner(pid: int = 102, *, at: int = BEGAN, boot_ns: int = 0) -> Made:
    """A span of 4 s, from the first sample on; the process is one of made_sample's."""
    made = Made(pid, ticks=at, ns=at)
    if boot_ns:
        made._data[48:56] = struct.pack("<Q", boot_ns + at)
    made.track(1, c.THREAD, "main", tid=pid)
    work = made.string("work")
    made.events(1, [event(at, c.BEGIN, work), event(at + 4 * S, c.END, work)])
    made.end(at + 5 * S)
    return made


def asked(sources: list[str | Path], form: str, target: Path, *statements: str) -> list[Rows]:
    export_traces(sources, form, target)
    trouble, *answers = query(target.read_bytes(), TROUBLE, *statements)
    assert trouble == []
    return answers


@pytest.mark.parametrize("form", FORMS)
def test_the_host_and_each_process_are_counters_on_the_clock_of_the_spans(tmp_path: Path, form: str) -> None:
    run = made_sample(tmp_path / "host", 10)
    trace = c.save_all(tmp_path / "t", [burner()])
    host, own, spans, tree = asked(
        [trace, run.path],
        form,
        tmp_path / "out",
        "select t.name, t.unit, min(c.ts), max(c.ts), min(c.value), max(c.value) from counter c join track"
        " k on c.track_id = k.id join counter_track t on t.id = k.id group by 1, 2 order by 1",
        "select t.name, t.unit, c.ts, c.value, p.pid, p.name from counter c join process_counter_track t"
        " on c.track_id = t.id join process p using (upid) where p.pid = 102 order by t.name, c.ts",
        "select name, ts, dur from slice where name = 'work'",
        "select p.name, count(distinct t.name) from track t join track p on t.parent_id = p.id group by 1",
    )
    plain = {str(name).removesuffix(" value"): rest for name, *rest in host}
    units = {
        "CPU time by state: user": "CPUs",
        "Pressure: disk": "% of the time",
        "Run queue: runnable": "threads",
    }
    units |= {"Memory: used": "GiB", "Disk latency: vda": "ms a request", "CPU busy: CPU 0": "%"}
    if form == "chrome":  # which has no units but in names
        plain = {
            name.rpartition(" (")[0]: [name.rpartition(" (")[2][:-1], *rest]
            for name, (_, *rest) in plain.items()
        }
    for name, unit in units.items():
        assert plain[name][0] == unit
        assert BEGAN <= plain[name][1] < plain[name][2] <= BEGAN + 10 * S
    assert (plain["CPU time by state: user"][3], plain["CPU time by state: user"][4]) == (1.0, 2.0)
    assert plain["Pressure: disk"][3:] == [10.0, 10.0]
    assert spans == [("work", BEGAN, 4 * S)]
    found: dict[str, list[tuple[object, object]]] = {}
    for name, _, ts, value, pid, process in own:
        assert (pid, process) == (102, "process 102")
        found.setdefault(str(name).split(" (")[0], []).append((ts, value))
    middles = [BEGAN + n * S + S // 2 for n in range(10)]
    assert found["CPU use"] == [(t, float(n < 5)) for n, t in enumerate(middles)]
    assert found["run delay"] == [(t, 0.5 * (n < 5)) for n, t in enumerate(middles)]
    assert set(found) == {"CPU use", "run delay", "memory"}
    if form == "perfetto":
        assert {unit for name, unit, *_ in own if name == "run delay"} == {"threads waiting"}
        assert dict(tree)["CPU time by program"] == 2  # burn and wait below it, read used none


@pytest.mark.parametrize("form", FORMS)
def test_what_another_machine_recorded_is_beside_it_by_the_time_of_day(tmp_path: Path, form: str) -> None:
    """The host of the recording booted 1,000 s before ours did; and its processes are none of ours."""
    run = made_sample(tmp_path / "host", 10)
    later = BOOT_NS + 1_000 * S
    ours = c.save_all(tmp_path / "t", [burner(at=2 * S, boot_ns=later)])
    theirs = c.save_all(tmp_path / "u", [burner(at=BEGAN, boot_ns=BOOT_NS)])
    spans, counters = asked(
        [ours, theirs, run.path],
        form,
        tmp_path / "out",
        "select s.ts, s.dur, p.pid from slice s join thread_track k on s.track_id = k.id join thread using (utid)"
        " join process p using (upid) order by 1",
        "select p.pid, min(c.ts) from counter c join process_counter_track t on c.track_id = t.id"
        " join process p using (upid) where t.name glob 'CPU use*' group by 1",
    )
    moved = 102 + (1 << 22)
    assert spans == [(BEGAN, 4 * S, 102), (BEGAN + 2 * S, 4 * S, moved)]
    assert counters == [(102, BEGAN + S // 2)], "theirs alone: another process has the pid here"
    told = export_traces([ours, run.path], form, tmp_path / "out")
    assert notes(told) == ["1 file is of another boot or host: put on one clock by the time of day"]


def test_what_is_no_trace_or_has_nothing_to_show_is_said(tmp_path: Path) -> None:
    run = made_sample(tmp_path / "host", 10)
    again = made_sample(tmp_path / "again", 0)
    trace = c.save_all(tmp_path / "t", [burner()])
    for sources in ([run.path, again.path], [trace, tmp_path / "none"], [trace, tmp_path]):
        words = [*map(str, sources), "--to", "perfetto"]
        assert isinstance(CliRunner().invoke(export, words, standalone_mode=False).exception, BadInput)
    words = [str(run.path), str(trace), str(again.path), "--to", "chrome"]
    done = CliRunner().invoke(export, words, standalone_mode=False)
    assert done.exception is None
    assert done.stdout.strip().endswith("t/export.json")
    assert done.stderr == f"note: '{again.path}' holds no timelines\n"
    json.loads((trace / "export.json").read_text(encoding="utf-8"))


BUSY = """
import time
from contend import trace
with trace.span("busy"):
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        sum(range(1000))
raise SystemExit(7)
"""


def test_a_sampled_trace_has_the_host_beside_it(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    words = ["trace", "--sample", "--sample-interval", "100ms", "-o", "t", "--", sys.executable, "busy.py"]
    contend = Path(sys.executable).with_name("contend")
    done = subprocess.run(
        [contend, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 7, done.stderr
    busy, own, host = asked(
        [tmp_path / "t"],
        "perfetto",
        tmp_path / "out",
        "select ts, ts + dur from slice where name = 'busy'",
        "select c.ts, c.value from counter c join process_counter_track t on c.track_id = t.id"
        " where t.name = 'CPU use' order by 1",
        "select count(distinct t.name), min(c.ts), max(c.ts) from counter c join counter_track t on c.track_id = t.id"
        " where t.name glob 'CPU time by state*'",
    )
    ((begin, end),) = busy
    inside = [value for ts, value in own if begin + 100_000_000 < ts < end - 100_000_000]  # type: ignore[operator]
    assert len(inside) >= 5
    # Whatever else runs here, it had a CPU most of the time that it was not waiting for one.
    assert 0.2 < sum(inside) / len(inside) < 1.1  # type: ignore[arg-type]
    ((lines, first, last),) = host
    assert lines >= 2  # type: ignore[operator]
    # A value is of the 100 ms before it, and stands at their end.
    assert first <= begin + 150_000_000  # type: ignore[operator]
    assert last >= end - 200_000_000  # type: ignore[operator]
    told = json.loads((tmp_path / "t/sample/sample.json").read_text())
    assert told["line"].startswith("contend trace --sample --sample-interval 100ms -- ")
