"""A recording in the formats of others, read back by their rules."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from contend.errors import BadInput
from contend.report.counters import export_counters
from contend.report.sample_export import export_sample
from contend.store.directory import RunDirectory
from support.made_samples import BEGAN, S, made_sample

SAMPLE = re.compile(r'^([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)$')
SUFFIX = {"counter": ("_total", "_created"), "info": ("_info",), "gauge": ("",)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return made_sample(tmp_path_factory.mktemp("made") / "run")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_table_is_a_file(run: RunDirectory, tmp_path: Path, form: str) -> None:
    place = export_sample(run, form, tmp_path / "out")
    assert {p.name for p in place.iterdir()} == {
        f"{table}.{form}" for table in ("host", "cpu", "disk", "net", "process", "process_use")
    }
    (count,) = duckdb.sql(
        f"select count(*) from '{place}/process_use.{form}' where name like 'read%'"
    ).fetchall()
    assert count == (31,)


def test_openmetrics_keeps_to_the_rules(run: RunDirectory, tmp_path: Path) -> None:
    text = export_sample(run, "openmetrics", tmp_path / "a.txt").read_text(encoding="utf-8")
    assert text.endswith("\n# EOF\n")
    families: dict[str, dict[str, str]] = {}
    values: dict[str, float] = {}
    current = ""
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            assert name == current or name not in families, "families are not interleaved"
            current = name
            assert keyword not in families.setdefault(name, {})
            families[name][keyword] = rest
            continue
        match = SAMPLE.match(line)
        assert match, line
        kind = families[current]["TYPE"]
        assert match[1] in [current + suffix for suffix in SUFFIX[kind]], line
        assert match[1] + (match[2] or "") not in values, "one series, one sample"
        values[match[1] + (match[2] or "")] = float(match[3])
    for name, said in families.items():
        assert "UNIT" not in said or name.endswith("_" + said["UNIT"])
        assert not name.endswith(("_total", "_created", "_info"))
    assert values['contend_cpu_seconds_total{cpu="0",state="user"}'] == 30
    assert values['contend_disk_reads_total{device="vda"}'] == 3000
    assert values['contend_program_run_delay_seconds_total{program="wait"}'] == 7.5
    assert values['contend_program_cpu_seconds_total{program="read<&>\'\\"",mode="user"}'] == 0


def test_stacks_are_folded_as_flame_graphs_read_them(run: RunDirectory, tmp_path: Path) -> None:
    """Of everybody, in microseconds: 30 s of half a second each."""
    place = export_sample(made_sample(tmp_path / "run", stacks=True), "folded", tmp_path / "out.folded")
    lines = [line.rpartition(" ") for line in place.read_text(encoding="utf-8").splitlines()]
    first = {stack.split(";")[0]: int(count) for stack, _, count in reversed(lines)}
    assert first == {"read<&>'\"": 15_000_000, "wait": 7_500_000, "idle": 30_000_000}
    assert all(stack.endswith(";schedule_[k]") for stack, _, _ in lines)
    with pytest.raises(BadInput, match="no stacks"):
        export_sample(run, "folded", tmp_path / "none")


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", data[at : at + 8])[0]
            at += 8
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, data[at : at + length]
            at += length


def test_perfetto_has_every_line_as_a_counter_on_our_clock(run: RunDirectory, tmp_path: Path) -> None:
    """Read with Perfetto's own trace processor too, by hand: the field numbers are what that accepts."""
    export_counters(run, "perfetto", tmp_path / "trace")
    names: dict[int, str] = {}
    points: dict[str, list[tuple[int, float]]] = {}
    clocks = []
    for number, packet in fields((tmp_path / "trace").read_bytes()):
        assert number == 1
        found = dict(fields(packet))
        if 6 in found:
            clocks.append(dict(fields(dict(fields(found[6]))[1])))
        elif 60 in found:
            track = dict(fields(found[60]))
            names[track[1]] = track[2].decode()
            assert track.get(5, 0) in {0, *names}, "a parent comes before its child"
        else:
            event = dict(fields(found[11]))
            assert (event[9], found[58]) == (4, 3)
            points.setdefault(names[event[11]], []).append((found[8], event[44]))
    assert clocks == [{1: 3, 2: BEGAN}]
    burn = points["CPU time by program: burn"]
    assert len(burn) == 30
    assert {value for _, value in burn} == {1.0}
    assert burn[0][0] == BEGAN + S // 2, "in the middle of its interval"
    assert points["Disk latency: vda"][-1] == (BEGAN + 30 * S, 1.0)


@pytest.fixture
def trials(tmp_path: Path) -> RunDirectory:
    """A run of two trials that follow each other at once, and one of another boot that overlaps the second."""
    place = made_sample(tmp_path / "trials")
    for number, (start, end) in enumerate(((2, 5), (5, 9), (7, 8))):
        place.append(
            {"trial": number, "cell": f"cell {number}", "phase": "counted", "block": 0, "status": "ok",
             "factors": {"victim": "a<b", "neighbour": "none"}, "metrics": [], "evidence": [], "flags": [],
             "started_ns": BEGAN + start * S, "ended_ns": BEGAN + end * S}
        )  # fmt: skip
    place.close()
    return place


def test_perfetto_has_the_trials_as_slices_that_nest_nowhere(trials: RunDirectory, tmp_path: Path) -> None:
    export_counters(trials, "perfetto", tmp_path / "trace")
    names: dict[int, str] = {}
    open_since: dict[str, tuple[str, int]] = {}
    slices: list[tuple[str, str, int, int]] = []
    said: dict[str, str] = {}
    for _, packet in fields((tmp_path / "trace").read_bytes()):
        found = dict(fields(packet))
        if 60 in found:
            track = dict(fields(found[60]))
            names[track[1]] = track[2].decode()
        elif 11 in found:
            event = dict(fields(found[11]))
            track_name, t = names[event[11]], (found[8] - BEGAN) // S
            if event[9] == 1:
                assert track_name not in open_since
                open_since[track_name] = event[23].decode(), t
                notes = (dict(fields(data)) for number, data in fields(found[11]) if number == 4)
                said |= {note[10].decode(): note[6].decode() for note in notes}
            elif event[9] == 2:
                slices.append((track_name, *open_since.pop(track_name), t))
    assert sorted(slices) == [
        ("trials", "cell 0", 2, 5),
        ("trials", "cell 1", 5, 9),
        ("trials 2", "cell 2", 7, 8),
    ]
    assert open_since == {}
    assert (said["victim"], said["neighbour"], said["trial"]) == ("a<b", "none", "2")


def test_chrome_has_the_trials_too(trials: RunDirectory, tmp_path: Path) -> None:
    export_counters(trials, "chrome", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [
        (e["tid"], e["name"], e["ts"] * 1000 - BEGAN, e["dur"] * 1000) for e in events if e["ph"] == "X"
    ]
    assert slices == [(1, "cell 0", 2 * S, 3 * S), (1, "cell 1", 5 * S, 4 * S), (2, "cell 2", 7 * S, S)]
    labels = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert labels == {1: "trials", 2: "trials 2"}


def test_chrome_has_the_same_counters(run: RunDirectory, tmp_path: Path) -> None:
    export_counters(run, "chrome", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    burn = [e for e in events if e["name"] == "CPU time by program: burn (CPUs)"]
    assert {e["ph"] for e in burn} == {"C"}
    assert [e["args"]["value"] for e in burn] == [1.0] * 30
    assert burn[0]["ts"] == (BEGAN + S // 2) / 1000


def test_what_a_recording_cannot_be_is_said(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="junit"):
        export_sample(run, "junit", tmp_path / "x")
    empty = made_sample(tmp_path / "empty", 1)
    for path in empty.series.iterdir():
        path.unlink()
    with pytest.raises(BadInput, match="no timelines"):
        export_counters(empty, "perfetto", tmp_path / "x")
    assert not (tmp_path / "x").exists()
