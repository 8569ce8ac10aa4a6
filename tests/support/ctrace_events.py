"""A second reader of trace files, as plain as it goes, written from docs/reference/ctrace.md for the recorder's tests."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

BEGIN, END, INSTANT, COUNTER, SWITCH, FLOW_OUT, FLOW_IN, JOB_BEGIN, JOB_END = range(1, 10)
LOCK_WAIT, LOCK_ACQUIRED, LOCK_RELEASED, LOCK_GIVEN_UP, QUEUE_PUT, QUEUE_GOT, LOCK_PASSED = range(16, 23)
LOCK_LIMIT, CONDITION_LOCK = 23, 24
ARG, INT, FLOAT, CPU, RUN_DELAY = range(32, 37)
_LOCKS = range(LOCK_WAIT, CONDITION_LOCK + 1)


class Track(NamedTuple):
    kind: int
    parent: int
    name: str
    tid: int


class Lock(NamedTuple):
    kind: int
    name: str
    site: str


@dataclass
class Event:
    ring: int
    track: int
    ticks: int
    kind: int
    name: str
    """Of the event, or of its lock."""
    id: int
    value: int
    args: dict[str, object] = field(default_factory=dict)


@dataclass
class Trace:
    pid: int
    parent: int
    clock: int
    ticks_per_s: int
    tracks: dict[int, Track]
    locks: dict[int, Lock]
    events: list[Event]
    """By ring, in order."""
    lost: int
    ended: bool
    torn: bool
    syncs: list[tuple[int, int]]

    def of(self, *kinds: int) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def seconds(self, ticks: int) -> float:
        return ticks / self.ticks_per_s

    def spans(self) -> list[tuple[int, str, int, int, int]]:
        """(track, name, begin, end, failed) of every span; AssertionError if they are not balanced."""
        open_: dict[int, list[Event]] = {}
        result = []
        for event in self.events:
            if event.kind == BEGIN:
                open_.setdefault(event.track, []).append(event)
            elif event.kind == END:
                begun = open_[event.track].pop()
                assert begun.name == event.name, (begun, event)
                assert begun.ticks <= event.ticks, (begun, event)
                result.append((event.track, event.name, begun.ticks, event.ticks, event.value))
        left = [event for stack in open_.values() for event in stack]
        assert not left, left
        return result


def _sum(payload: bytes) -> int:
    total = 0xCBF29CE484222325
    padded = payload + bytes(-len(payload) % 8)
    for (word,) in struct.iter_unpack("<Q", padded):
        total = (total ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return total


def read(path: Path) -> Trace:
    data = path.read_bytes()
    magic, version, pid, parent, clock = struct.unpack_from("<8sIIII", data)
    assert (magic, version) == (b"CTRACE\0\0", 1)
    _start, ticks, monotonic, _realtime, rate = struct.unpack_from("<5Q", data, 24)
    trace = Trace(pid, parent, clock, rate, {}, {}, [], 0, False, False, [(ticks, monotonic)])
    strings: dict[int, str] = {0: ""}
    rings: dict[int, list[Event]] = {}
    at = 64
    while at < len(data):
        if at + 16 > len(data):
            trace.torn = True
            break
        kind, size, total = struct.unpack_from("<IIQ", data, at)
        payload = data[at + 16 : at + 16 + size]
        if len(payload) < size or _sum(payload) != total:
            trace.torn = True
            break
        at += 16 + (size + 7) // 8 * 8
        _take(trace, strings, rings, kind, payload)
    trace.events = [event for ring in rings.values() for event in ring]
    for event in trace.events:
        if event.kind in _LOCKS:
            event.name = trace.locks[event.id].name
    return trace


def _take(
    trace: Trace, strings: dict[int, str], rings: dict[int, list[Event]], kind: int, payload: bytes
) -> None:
    assert not trace.ended, "a chunk after the end"
    if kind == 1:
        _events(trace, strings, rings, payload)
    elif kind == 2:
        at = 0
        while at < len(payload):
            number, size = struct.unpack_from("<II", payload, at)
            assert number not in strings, "a string is defined once"
            strings[number] = payload[at + 8 : at + 8 + size].decode()
            at += 8 + (size + 3) // 4 * 4
    elif kind == 3:
        for number, what, parent, name, tid, _ in struct.iter_unpack("<IIIIQQ", payload):
            track = Track(what, parent, strings[name], tid)
            before = trace.tracks.get(number, track)
            assert before._replace(name=track.name) == track, "a track may get another name, and nothing else"
            trace.tracks[number] = track
    elif kind == 4:
        for number, what, name, site, _ in struct.iter_unpack("<IIIIQ", payload):
            known = trace.locks.get(number)
            # When a recording begins while a thread finds out the name, both may tell it.
            again = known and known.kind == what and known.name in ("", strings[name])
            assert not known or again, "defined again with its name only"
            trace.locks[number] = Lock(what, strings[name], strings[site])
    elif kind == 5:
        trace.syncs.append(struct.unpack("<QQ", payload))
    elif kind == 6:
        _ring, _, lost, first, last = struct.unpack("<IIQQQ", payload)
        assert first <= last
        trace.lost += lost
    elif kind == 7:
        trace.ended = True


def _events(trace: Trace, strings: dict[int, str], rings: dict[int, list[Event]], payload: bytes) -> None:
    ring, count = struct.unpack_from("<II", payload)
    assert len(payload) == 8 + 16 * count and ring in trace.tracks
    events = rings.setdefault(ring, [])
    track = events[-1].track if events else ring
    for ticks, word in struct.iter_unpack("<QQ", payload[8:]):
        kind, number, value = word & 255, word >> 8 & 0xFFFFFF, word >> 32
        if kind >= ARG:
            told: object = strings[value] if kind == ARG else ticks
            if kind == INT:
                told = ticks - (ticks >> 63 << 64)
            elif kind == FLOAT:
                told = struct.unpack("<d", struct.pack("<Q", ticks))[0]
            key = {CPU: "cpu", RUN_DELAY: "run delay"}.get(kind) or strings[number]
            events[-1].args[key] = told
            continue
        if kind == SWITCH:
            assert value in trace.tracks
            track = value
        assert not events or events[-1].ticks <= ticks, "events are in the order of their ticks"
        assert kind not in _LOCKS or number in trace.locks, "a lock is defined before it is used"
        name = "" if kind in _LOCKS else strings[number]
        events.append(Event(ring, track, ticks, kind, name, number, value))


def read_all(directory: Path) -> list[Trace]:
    """All traces that have begun: a file is made before its header is in it."""
    return [read(path) for path in sorted(directory.glob("*.ctrace")) if path.stat().st_size]


def run(code: str, directory: Path, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program with `trace` imported and DIRECTORY set."""
    whole = f"import sys\nfrom contend import trace\nDIRECTORY = sys.argv[1]\n{textwrap.dedent(code)}"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", whole, str(directory), *args],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert not check or done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return done


def record(code: str, directory: Path, *args: str) -> Trace:
    """Run a program that records into DIRECTORY by itself; the one file that it leaves."""
    done = run(code, directory, *args)
    traces = read_all(directory)
    assert len(traces) == 1 and not traces[0].torn, done.stderr
    return traces[0]


def every_wait_ends(told: Trace) -> None:
    waiting: dict[tuple[int, int], Event] = {}
    for event in told.of(LOCK_WAIT, LOCK_ACQUIRED, LOCK_GIVEN_UP):
        key = (event.track, event.id)
        if event.kind == LOCK_WAIT:
            assert key not in waiting
            waiting[key] = event
        elif event.kind == LOCK_GIVEN_UP or event.value == 1:
            assert waiting.pop(key).ticks <= event.ticks
        else:
            assert key not in waiting
    assert not waiting
