"""Waits of the victim's own: by looks at the system calls of its tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from contend.advice.finding import Evidence
from contend.document import CellResult, Work
from contend.probes.observed import Observed
from contend.studies.causes.cause import LEAST_SHARE, Cause, observed, pair
from contend.studies.causes.lost import Lost
from contend.units import format_value

_WAITS: Mapping[str, tuple[str, tuple[Observed, ...]]] = {
    "file lock": ("waited for a file's lock", (Observed.WAITED_FILE_LOCK,)),
    "fsync": ("waited for what it had written to be on the device", (Observed.WAITED_SYNC,)),
    "writeback": ("waited to write to files", (Observed.WAITED_WRITE,)),
    "disk queue": ("waited for the disk", (Observed.WAITED_READ, Observed.WAITED_COMPLETION)),
    "page faults": ("waited for pages of memory, from files or swap", (Observed.WAITED_PAGE,)),
    "network send": ("waited for room to send", (Observed.WAITED_SEND,)),
    "peers": ("waited for its peers, or other events", (Observed.WAITED_PEER,)),
}
"""By resource, what a victim that is off the CPU waits for, and the evidence of it."""


KERNEL_WORKS = {"fsync", "writeback", "disk queue", "page cache", "page faults", "network send"}
"""Waits for which the kernel computes on the victim's account: to free memory, to write, to send in smaller parts."""


_CERTAIN = 2.0
"""Standard errors of looks by which a wait has to have grown."""


_HARDLY_READ = 10.0
"""Requests a second of the device, alone, with which nothing was read from it to speak of: memory had it."""


_AS_FAST = 1.25
"""Times by which a request of the device takes longer, up to which the device is as fast as alone."""


def own_waits(result: CellResult, lost: Lost) -> Iterator[Cause]:
    """A cause for each wait of the victim's own that has grown by more than looks err."""
    now, before = result.evidence, result.baseline_evidence
    looks = [
        observed(seen, Observed.LOOKS) * len(of.values)
        for seen, of in ((now, result.treatment), (before, result.baseline))
    ]
    again = "page faults" if lost.faults_again else "page cache"
    for resource, (words, kinds) in _WAITS.items():
        share = sum(lost.share_of(kind) for kind in kinds)
        error = math.hypot(*map(_error, (lost.beside, lost.alone), (kinds, kinds), looks)) / lost.time
        if resource == "disk queue" and _from_memory_alone(result, lost):
            resource, words = "page cache", "waited for what it read, which memory had alone"
        is_certain = share > _CERTAIN * error
        share = share if is_certain else 0.0
        if resource == again:
            share += lost.reading
        if share <= 0:
            continue
        evidence = tuple(item for kind in kinds for item in pair(kind, now, before, kind.replace("_", " ")))
        suffix = ""
        if resource == again and lost.reads_again:
            suffix, of_reading = _read_again(result)
            evidence += of_reading
        if resource in ("disk queue", "fsync", "writeback", "page cache"):
            more, of_device = _device(result)
            suffix, evidence = suffix + more, evidence + of_device
        here, wall = sum(observed(now, kind) for kind in kinds), observed(now, Observed.WALL)
        seen = f"{words} {format_value(here, 's')} of {format_value(wall, 's')}{suffix}"
        yield Cause(resource, share, seen, evidence)


def with_waking(cause: Cause, share: float, result: CellResult) -> Cause:
    """One cause of what is waited for, and for a CPU each time that such a wait has ended."""
    whole = replace(cause, share=cause.share + share)
    if share < LEAST_SHARE / 2:
        return whole
    evidence = pair(
        Observed.VOLUNTARY_SWITCHES, result.evidence, result.baseline_evidence, "gave its CPU up to wait"
    )
    return replace(
        whole,
        words=f"{cause.words}; then waited for a CPU each time",
        evidence=cause.evidence + evidence,
    )


def with_kernel(cause: Cause, share: float, result: CellResult) -> Cause:
    """One cause of what is waited for and what the kernel computed more meanwhile."""
    whole = replace(cause, share=cause.share + share)
    if share < LEAST_SHARE / 2:
        return whole
    now, before = result.evidence, result.baseline_evidence
    evidence = pair(Observed.SYSTEM_CPU, now, before, "CPU time in the kernel")
    evidence = tuple(item for item in evidence if item not in cause.evidence)
    used, alone = (format_value(observed(seen, Observed.SYSTEM_CPU), "s") for seen in (now, before))
    words = f"{cause.words}; the kernel computed {used} on its account ({alone} alone)"
    return replace(whole, words=words, evidence=cause.evidence + evidence)


def _from_memory_alone(result: CellResult, lost: Lost) -> bool:
    """It reads from the disk what it did not alone, and that has grown by more than the time of a request."""
    now, before = (side.value(Observed.DISK_AWAIT) for side in (result.evidence, result.baseline_evidence))
    slower = now / before if now and before else 1.0
    if any(Observed.READ_BYTES not in side.seen for side in (lost.beside, lost.alone)):
        requests = result.baseline_evidence.value(Observed.DISK_IOPS)
        return bool(requests is not None and requests < _HARDLY_READ) or bool(now and slower < _AS_FAST)
    alone = observed(lost.alone.seen, Observed.READ_BYTES)
    more = observed(lost.beside.seen, Observed.READ_BYTES) / alone if alone > 0 else math.inf
    return lost.reads_again and more > slower


def _read_again(result: CellResult) -> tuple[str, tuple[Evidence, ...]]:
    """Words and evidence of what was read from devices."""
    now, before = result.evidence, result.baseline_evidence
    evidence: tuple[Evidence, ...] = ()
    for name, what in (
        (Observed.READ_BYTES, "read from devices"),
        (Observed.MAJOR_FAULTS, "major page faults"),
        (Observed.SYSTEM_CPU, "CPU time in the kernel"),
    ):
        evidence += pair(name, now, before, what)
    if Observed.READ_BYTES not in now:
        return "", evidence
    read, alone = (format_value(observed(seen, Observed.READ_BYTES), "B") for seen in (now, before))
    return f"; {read} came from devices ({alone} alone), which takes CPU time, too", evidence


def _error(work: Work, kinds: Sequence[Observed], looks: float) -> float:
    """Standard error of a time per unit of work that is known by so many looks: that of a share, sqrt(p (1 - p) / n)."""
    wall = observed(work.seen, Observed.WALL)
    if not looks or not wall:
        return 0.0
    share = min(1.0, sum(observed(work.seen, kind) for kind in kinds) / wall)
    return wall * math.sqrt(share * (1 - share) / looks)


def _device(result: CellResult) -> tuple[str, tuple[Evidence, ...]]:
    """The time of the disk's requests meanwhile, to stand beside the victim's own waits: words and evidence."""
    now, before = result.evidence, result.baseline_evidence
    if Observed.DISK_AWAIT not in now or Observed.DISK_AWAIT not in before:
        return "", ()
    takes, took = (format_value(observed(e, Observed.DISK_AWAIT) / 1e3, "s") for e in (now, before))
    evidence = pair(Observed.DISK_AWAIT, now, before, "time of a request in the disk's queue and service")
    return f"; a disk request takes {takes} instead of {took}", evidence
