"""The timelines of a run or a recording as counters of a trace: for ui.perfetto.dev, or chrome://tracing.

Perfetto's protobuf is written by hand: a trace is a list of packets, and counters need three kinds of them. Field
numbers: protos/perfetto/trace/{trace_packet,clock_snapshot}.proto and track_event/*.proto of Perfetto, which never
change for a field once it is published. Timestamps are CLOCK_MONOTONIC, as in everything that contend records.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from contend.errors import BadInput, HostFailed
from contend.report.sample_plots import TITLES
from contend.report.sample_series import SampleLines, read_sample
from contend.store import RunDirectory
from contend.units import NS_PER_S

# More points than a recording can have: every sample is a point of its own.
EVERY_SAMPLE = 1 << 40

_MONOTONIC = 3  # BuiltinClock
_COUNTER = 4  # TrackEvent.Type.TYPE_COUNTER


def export_counters(run: RunDirectory, form: str, target: Path) -> None:
    """Write `target` in the form "perfetto" or "chrome"; whole or not at all. Raises BadInput without timelines."""
    lines = read_sample(run.series, EVERY_SAMPLE)
    if not lines.charts:
        raise BadInput(f"'{run.path}' holds no timelines", hint="was it ended within its first second?")
    data = perfetto(lines, run.id) if form == "perfetto" else chrome(lines, run.id).encode()
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        os.replace(part, target)  # noqa: PTH105 - as everywhere: old or new, never half
    except OSError as error:
        part.unlink(missing_ok=True)
        raise HostFailed(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error


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


def chrome(lines: SampleLines, name: str) -> str:
    """Chrome's JSON: counter events, times in microseconds."""
    events: list[dict[str, object]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"contend {name}"}}
    ]
    for title, line, unit, points in _tracks(lines):
        track = f"{title}: {line} ({unit})"
        events += [
            {"ph": "C", "pid": 1, "name": track, "ts": t / 1000, "args": {"value": value}}
            for t, value in points
        ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def perfetto(lines: SampleLines, name: str) -> bytes:
    """Perfetto's protobuf: a track for each chart, and its lines as counter tracks below it."""
    packets = [_packet(_field(6, _message(_clock(lines.origin_ns), _number(2, _MONOTONIC))))]
    root = 1
    packets.append(_packet(_track(root, f"contend {name}", 0)))
    charts: dict[str, int] = {}
    events: list[tuple[int, bytes]] = []
    for uuid, (title, line, unit, points) in enumerate(_tracks(lines), start=1 << 16):
        if title not in charts:
            charts[title] = root + 1 + len(charts)
            packets.append(_packet(_track(charts[title], title, root)))
        counter = _field(8, _text(6, unit))
        packets.append(_packet(_track(uuid, f"{title}: {line}", charts[title], counter)))
        for t, value in points:
            event = _message(_number(9, _COUNTER), _number(11, uuid), _double(44, value))
            events.append((t, _packet(_number(8, t), _number(58, _MONOTONIC), _field(11, event))))
    events.sort(key=lambda item: item[0])
    return b"".join(packets) + b"".join(packet for _, packet in events)


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
    return _field(field, text.encode("utf-8", "replace"))
