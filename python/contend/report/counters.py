"""A run or a recording as a trace, for ui.perfetto.dev or chrome://tracing: timelines as counters, trials as slices.

Perfetto's protobuf is written by hand: a trace is a list of packets, and this one needs three kinds of them. Field
numbers: protos/perfetto/trace/{trace_packet,clock_snapshot}.proto and track_event/*.proto of Perfetto, which never
change for a field once it is published. Timestamps are CLOCK_MONOTONIC, as in everything that contend records.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from contend.errors import BadInput, HostFailed
from contend.files import write
from contend.report.sample_plots import TITLES
from contend.report.sample_series import SampleLines, read_sample
from contend.store.directory import RunDirectory
from contend.store.series import series_or
from contend.text.masking import mask
from contend.units import NS_PER_S

# More points than a recording can have: every sample is a point of its own.
EVERY_SAMPLE = 1 << 40

_MONOTONIC = 3  # BuiltinClock
_BEGIN, _END, _COUNTER = 1, 2, 4  # TrackEvent.Type
_EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering: by the rank that each child has; else by name
_TRIALS = 1 << 8  # the first track of trials, after the root
_COUNTERS, _OWN = 1 << 16, 1 << 24  # and of counters


class Own(NamedTuple):
    """Counters of one traced process: the resources it used. `pid` and `track` are those of the trace."""

    pid: int
    track: int
    name: str
    unit: str
    points: list[tuple[int, float]]


class Trial(NamedTuple):
    """A trial as a slice of the trace: `lane` is the first track that was free, `labels` are its facts."""

    start_ns: int
    end_ns: int
    name: str
    labels: Mapping[str, str]
    lane: int


def export_counters(run: RunDirectory, form: str, target: Path) -> None:
    """Write the run to `target` as "perfetto" or "chrome", whole or not at all. Raises BadInput where there is nothing to
    show."""
    lines = series_or(run.series, SampleLines(), lambda: read_sample(run.series, EVERY_SAMPLE))
    trials = read_trials(run)
    if not lines.charts and not trials:
        raise BadInput(f"'{run.path}' holds no timelines", hint="was it ended within its first second?")
    data = perfetto(lines, run.id, trials) if form == "perfetto" else chrome(lines, run.id, trials).encode()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, data)
    except OSError as error:
        raise HostFailed(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error


def read_trials(run: RunDirectory) -> list[Trial]:
    """Trials of the run in the order of their starts. They overlap only where a clock began again, as after a reboot."""
    timed = [
        row for row in run.rows() if row.get("started_ns") is not None and row.get("ended_ns") is not None
    ]
    trials: list[Trial] = []
    free_ns: list[int] = []  # when each lane is, again
    for row in sorted(timed, key=lambda row: int(row["started_ns"])):
        start, end = int(row["started_ns"]), int(row["ended_ns"])
        lane = next((n for n, t in enumerate(free_ns) if t <= start), len(free_ns))
        free_ns[lane : lane + 1] = [end]
        factors = {str(k): str(v) for k, v in row.get("factors", {}).items()}
        labels = {
            key: str(row[key])
            for key in ("trial", "phase", "block", "status", "error")
            if row.get(key) not in (None, "")
        }
        trials.append(Trial(start, end, str(row.get("cell", "trial")), labels | factors, lane))
    return trials


def _tracks(lines: SampleLines) -> Iterator[tuple[str, str, str, list[tuple[int, float]]]]:
    """Chart, line, unit and points (ns, value) of every counter."""
    for chart, steps in lines.charts.items():
        title, unit = TITLES[chart]
        by_line: dict[str, list[tuple[int, float]]] = {}
        for step in steps:
            by_line.setdefault(step.line, []).append((lines.origin_ns + round(step.t * NS_PER_S), step.mean))
        for line, points in by_line.items():
            yield title, line, unit, points
    by_core: dict[int, list[tuple[int, float]]] = {}
    for start, _, core, busy in lines.cores:
        by_core.setdefault(core, []).append((lines.origin_ns + round(start * NS_PER_S), 100 * busy))
    for core, points in by_core.items():
        yield "CPU busy", f"CPU {core}", "%", points


def chrome(lines: SampleLines, name: str, trials: Sequence[Trial] = ()) -> str:
    """Chrome's JSON: complete and counter events, times in microseconds."""
    events = [each | {"name": mask(str(each["name"]))} for each in chrome_events(lines, name, trials)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def chrome_events(
    lines: SampleLines, name: str, trials: Sequence[Trial] = (), own: Sequence[Own] = (), pid: int = 1
) -> Iterator[dict[str, object]]:
    """Chrome events of the host, under process `pid`, and of traced processes."""
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": f"contend {name}"}}
    for lane in range(1 + max((t.lane for t in trials), default=-1)):
        label = {"name": _lane(lane)}
        yield {"ph": "M", "pid": pid, "tid": lane + 1, "name": "thread_name", "args": label}
    for t in trials:
        yield {
            "ph": "X", "pid": pid, "tid": t.lane + 1, "cat": "trial", "name": t.name, "args": t.labels,
            "ts": t.start_ns / 1000, "dur": (t.end_ns - t.start_ns) / 1000,
        }  # fmt: skip
    for title, line, unit, points in _tracks(lines):
        track = f"{title}: {line} ({unit})"
        for t_ns, value in points:
            yield {"ph": "C", "pid": pid, "name": track, "ts": t_ns / 1000, "args": {"value": value}}
    for counter in own:
        track = f"{counter.name} ({counter.unit})"
        for t_ns, value in counter.points:
            yield {"ph": "C", "pid": counter.pid, "name": track, "ts": t_ns / 1000, "args": {"value": value}}


def _lane(number: int) -> str:
    return f"trials {number + 1}" if number else "trials"


def perfetto(
    lines: SampleLines, name: str, trials: Sequence[Trial] = (), own: Sequence[Own] = (), root: int = 1
) -> bytes:
    """Perfetto's protobuf: a track of trials, and one for each chart with its lines as counter tracks below it.

    A trace of Perfetto's may go on with it: then `root`, its first uuid, is above all that the trace has.
    """
    began_ns = lines.origin_ns if lines.charts else trials[0].start_ns
    # Readings of a clock never go back: a trace that this goes on with has its own, which may be later.
    packets = [_packet(_field(6, _message(_clock(began_ns), _number(2, _MONOTONIC))))] if root == 1 else []
    packets.append(_packet(_track(root, f"contend {name}", 0, _number(11, _EXPLICIT))))
    charts: dict[str, int] = {}
    events: list[tuple[int, bytes]] = []
    lanes = range(1 + max((t.lane for t in trials), default=-1))
    packets += [
        _packet(_track(root + _TRIALS + lane, _lane(lane), root, _number(12, lane))) for lane in lanes
    ]
    for trial in trials:
        events += _slice(trial, root)
    for uuid, (title, line, unit, points) in enumerate(_tracks(lines), start=root + _COUNTERS):
        if title not in charts:
            charts[title] = root + 1 + len(charts)
            rank = _number(12, len(lanes) + len(charts))
            packets.append(_packet(_track(charts[title], title, root, rank)))
        counter = _field(8, _text(6, unit))
        packets.append(_packet(_track(uuid, f"{title}: {line}", charts[title], counter)))
        events += _points(uuid, points)
    for uuid, one in enumerate(own, start=root + _OWN):
        packets.append(_packet(_track(uuid, one.name, one.track, _field(8, _text(6, one.unit)))))
        events += _points(uuid, one.points)
    events.sort(key=lambda item: item[0])
    return b"".join(packets) + b"".join(packet for _, packet in events)


def _points(uuid: int, points: Sequence[tuple[int, float]]) -> Iterator[tuple[int, bytes]]:
    for t, value in points:
        event = _message(_number(9, _COUNTER), _number(11, uuid), _double(44, value))
        yield t, _packet(_number(8, t), _number(58, _MONOTONIC), _field(11, event))


def _slice(trial: Trial, root: int) -> Iterator[tuple[int, bytes]]:
    """Its begin and its end."""
    track = _number(11, root + _TRIALS + trial.lane)
    annotations = [_field(4, _message(_text(10, key), _text(6, text))) for key, text in trial.labels.items()]
    begin = _message(_number(9, _BEGIN), track, _text(22, "trial"), _text(23, trial.name), *annotations)
    end = _message(_number(9, _END), track)
    for t, event in ((trial.start_ns, begin), (trial.end_ns, end)):
        yield t, _packet(_number(8, t), _number(58, _MONOTONIC), _field(11, event))


def _clock(t_ns: int) -> bytes:
    """That clocks were as they were at the first sample: Perfetto wants one reading of the clock it is to use."""
    return _field(1, _message(_number(1, _MONOTONIC), _number(2, t_ns)))


def _track(uuid: int, name: str, parent: int, *more: bytes) -> bytes:
    above = (_number(5, parent),) if parent else ()
    return _field(60, _message(_number(1, uuid), _text(2, name), *above, *more))


def _packet(*fields: bytes) -> bytes:
    """A packet of the trace, all of one sequence."""
    return _field(1, _message(*fields, _number(10, 1)))


# Protobuf's wire format: https://protobuf.dev/programming-guides/encoding/


def _message(*fields: bytes) -> bytes:
    return b"".join(fields)


def _varint(value: int) -> bytes:
    """
    >>> _varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _field(field, mask(text).encode("utf-8", "replace"))
