"""The part of RPC in the storms by the services' own traces: of the CPU time, and of a boot's way to ACTIVE.

A span's cost is the mean of those of its name over the whole trace, times how many began in a storm. With the threads' CPU
times on record (`contend trace --cpu-times`) it is CPU time, else the time in spans that neither waits nor is suspended, of
which CPU time is a part. RPC is what oslo.messaging does for a call, a cast or a reply, to the message in the socket, and
what reading a message takes to make it plain: `rpc serve` is the service's own work and no part of it. What the library's
threads do beside (reading sockets, acknowledging, heartbeats) is in no span, so it is at least that.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from contend import _native
from contend.contention.events import read
from contend.context.storm import Boots, window
from contend.errors import BadInput, ContendError, HostFailed
from contend.store.directory import RunDirectory
from contend.store.file_shapes import InTracesFile
from contend.store.trace_summary import summarise
from contend.studies.storm.beside import BOOTS

Floats = npt.NDArray[np.float64]
FILE = "rpc-in-traces.json"
SCHEMA_VERSION = 1
_FIRST = r"rpc (?:de)?serialise message$"  # JSON in JSON: what the envelope adds
_OUTERMOST = re.compile(r"rpc (?:call|cast) |rpc send reply$|rpc deserialise (?:message|envelope)$")
_ALL = re.compile(r"rpc (?:call|cast) |rpc send reply$|rpc (?:de)?serialise (?:message|envelope)$")
_SUSPENDED = 0.01  # of their time: with greenlets a thread's CPU time is others' too


@dataclass(frozen=True)
class InTraces:
    """One value a storm. ends: parts of the CPU time of all roles. first: of it, the serialisation that the envelope adds.
    timed: by CPU times. path: part of the time to ACTIVE that is on the way of RPCs; None where the traces tell no boot's
    way, with `why`. whole: of all of that way, from the request on, not of the boot on its host only. jobs: what was taken
    for boots."""

    ends: Floats
    first: Floats
    timed: bool
    path: Floats | None
    whole: bool
    jobs: str
    why: str


def in_traces(of: Boots) -> InTraces:
    """Read the shares from the traces, or load them if they were read before; kept in the storms' run, since a test bed's
    traces go with it.

    Raises ContendError where there are no traces of these storms, or no RPC in them.
    """
    storms = [list(window(document)) for document in of.documents]
    run = RunDirectory(of.directory)
    with suppress(BadInput):  # not there, or not of this version: it is read anew
        saved = run.shaped(FILE, InTracesFile)
        values = [saved[name] for name in ("ends", "first", "path") if saved[name] is not None]
        if saved["storms_ns"] == storms and all(len(value) == len(storms) for value in values):
            path = None if saved["path"] is None else np.array(saved["path"])
            ends, first = np.array(saved["ends"]), np.array(saved["first"])
            return InTraces(ends, first, saved["timed"], path, saved["whole"], saved["jobs"], saved["why"])
    traced = _read(of)
    saved = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(traced).items()
    }
    with suppress(HostFailed):  # another's run, or a full disk
        run.write_json(FILE, {"schema_version": SCHEMA_VERSION, "storms_ns": storms, **saved})
    return traced


def _read(of: Boots) -> InTraces:
    spans = [span for span in summarise(of.traces).spans if span.count and _ALL.match(span.name)]
    if not spans:
        raise BadInput(f"no RPC is on record in {of.traces}")
    total, suspended = sum(s.total_ns for s in spans), sum(s.suspended_ns for s in spans)
    timed = any(span.cpu_ns for span in spans) and suspended <= _SUSPENDED * total
    wanted = _OUTERMOST if timed else _ALL
    each = {s.name: (s.cpu_ns if timed else s.self_ns) / s.count for s in spans}
    order = sorted(range(len(of.documents)), key=lambda at: window(of.documents[at]))
    table = _native.ctrace_windows([of.traces], [window(of.documents[at]) for at in order])
    ends, first = np.zeros(len(order)), np.zeros(len(order))
    columns = (np.frombuffer(table[key], dtype="<u8").tolist() for key in ("window", "count"))
    for at, count, name in zip(*columns, table["name"], strict=True):
        ends[order[at]] += count * each[name] if name in each and wanted.match(name) else 0.0
        first[order[at]] += count * each[name] if name in each and re.match(_FIRST, name) else 0.0
    whole = of.cpu_s * np.array([float(document["served"]) for document in of.documents]) * 1e9
    if not ends.all():
        raise BadInput(f"no RPC is on record in {of.traces} while there were storms")
    try:
        path, followed, jobs = _path(of)
    except ContendError as error:
        return InTraces(ends / whole, first / whole, timed, None, False, "", error.message)
    return InTraces(ends / whole, first / whole, timed, path, followed, jobs, "")


def _path(of: Boots) -> tuple[Floats, bool, str]:
    """Time in RPCs, and in no work of a service's, on the critical paths of the boots of each storm; whether they are
    followed from the request on; and what they are."""
    events = read(Path(of.traces))
    if events.how != "followed":
        for pattern in BOOTS:
            try:
                events = read(Path(of.traces), pattern)
                break
            except BadInput:
                continue
        else:
            raise BadInput("no boot is on record in the traces")
    jobs = {
        int(job): int(begin)
        for job, begin in zip(events.jobs["job"].tolist(), events.jobs["begin_ns"].tolist(), strict=True)
    }
    in_rpc: dict[int, int] = dict.fromkeys(jobs, 0)
    way = events.critical
    for job, kind, part, ns in zip(
        *(way[key].tolist() for key in ("job", "kind", "part", "ns")), strict=True
    ):
        if (
            job in in_rpc
            and kind not in ("lock", "pool")
            and part.startswith("rpc ")
            and not part.startswith("rpc serve ")
        ):
            in_rpc[job] += ns
    shares = []
    for document in of.documents:
        began, ended = window(document)
        mine = [in_rpc[job] for job, begin in jobs.items() if began <= begin < ended]
        if not mine:
            raise BadInput("the traces hold no boot of a storm")
        shares.append(sum(mine) / len(mine) / 1e9 / float(document["median_s"]))
    return np.array(shares), events.how == "followed", events.chosen
