"""Causes of a slowdown: from estimates and evidence to what a slowed victim waited for, and what to do about it.

Direct evidence comes first: time the victim's tasks waited for a CPU, were throttled, lost to the hypervisor,
or its requests waited in the disk's queue. What it explains is stated as a share of the slowdown; the rest is
said to be unexplained. Cache or memory bandwidth is never named without positive evidence: that the same work
took more CPU time is reported as just that.

What the victim waited for when it was off the CPU is its own account, by looks at the system calls of its tasks: a device
that is slower for all explains nothing of a victim that waits for a file's lock. Where nobody could look (a guest, another
user's processes, a run of an earlier version), the growth of the device's requests has to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contend.advice.finding import CauseShare, Evidence, Finding
from contend.document import CellResult, Work
from contend.platforms.quotas import Quota, quota_name
from contend.probes.evidence import Observations, Observed
from contend.stats.estimate import Estimate
from contend.units import format_value

# A cause below this share of the slowdown is not worth a sentence.
LEAST_SHARE = 0.10


@dataclass(frozen=True)
class Cause:
    """One cause of a slowdown: the share of the victim's lost time that it explains, and the evidence."""

    resource: str
    share: float  # of the slowdown, 0–1
    words: str
    evidence: tuple[Evidence, ...]
    clause: bool = False  # the words have a subject of their own; else it is the victim

    @property
    def as_clause(self) -> str:
        """The words as a clause with a subject.

        >>> Cause("run queue", 0.5, "waited for the CPU", ()).as_clause
        'it waited for the CPU'
        >>> Cause("hypervisor", 0.5, "its CPU was taken", (), clause=True).as_clause
        'its CPU was taken'
        """
        return self.words if self.clause else f"it {self.words}"


def caused(
    causes: Sequence[Cause],
    *,
    kind: str,
    subject: str,
    sentence: str,
    estimate: Estimate,
    advice: str,
    verify: str,
) -> Finding:
    """A finding, not yet numbered, whose resource, share and evidence are those of its causes, the largest first."""
    return Finding(
        id="",
        kind=kind,
        subject=subject,
        resource=causes[0].resource if causes else "unexplained",
        sentence=sentence,
        share=min(1.0, sum(c.share for c in causes)) if causes else None,
        estimate=estimate,
        evidence=tuple(e for c in causes for e in c.evidence),
        advice=advice,
        verify=verify,
        causes=shares(causes),
    )


def shares(causes: Sequence[Cause]) -> tuple[CauseShare, ...]:
    """Causes as a finding has them."""
    return tuple(CauseShare(cause.resource, cause.share) for cause in causes)


def explain(result: CellResult) -> list[Cause]:
    """Causes of a slowdown with their shares, largest first; shares are capped so that they never sum to more than one.

    Everything is per unit of work, whose time is that of the whole run of fixed work, or of a part of a timed one. Of a
    waiting time that was w alone and is w' of a unit that took M and takes M', (w' - w) / (M' - M) is explained.
    """
    now, before = result.evidence, result.baseline_evidence
    if result.estimate.value <= 1 or not observed(now, Observed.WALL) or not observed(before, Observed.WALL):
        return []
    lost = _Lost.of(result)
    if lost is None:
        return []
    causes: list[Cause] = []
    waits = Observed.OWN_PSI_CPU if Observed.OWN_PSI_CPU in now else Observed.RUN_DELAY
    throttled = lost.share(lambda seen: _held(seen, waits))
    waited = lost.share(lambda seen: max(0.0, observed(seen, waits) - _held(seen, waits)))
    held = _held(now, waits)
    if throttled > 0:
        causes.append(_throttled(throttled, held, result))
    if waited > 0:
        words = ""
        if result.quotas_unknown:
            words = f"; whether a CPU quota held it back is unknown: {result.quotas_unknown}"
        elif throttled <= 0 and Observed.THROTTLED in now:
            words = "; not throttled"
        also = (Observed.RUN_DELAY, Observed.INVOLUNTARY_SWITCHES)
        causes.append(
            _timed(
                "run queue",
                waited,
                waits,
                "waited for the CPU",
                now,
                before,
                words,
                also,
                seconds=observed(now, waits) - held,
            )
        )
    steal = lost.share_of(Observed.STEAL)
    if steal > 0:
        taken = _timed(
            "hypervisor", steal, Observed.STEAL, "its CPU was taken by the hypervisor", now, before
        )
        causes.append(replace(taken, clause=True))
    if Observed.LOOKS in now and Observed.LOOKS in before:
        causes += _waits(result, lost)
    elif (disk := _disk(result)) is not None:
        causes.append(disk)
    if Observed.CPU in now and Observed.CPU in before:
        dearer = lost.share_of(Observed.CPU) - lost.reading
        alone = observed(lost.alone.seen, Observed.CPU)
        lead = max(causes, key=lambda cause: cause.share, default=None)
        # No more than the wait itself: beside a small one, work that grew has a cause that nobody saw.
        if (
            lead is not None
            and lead.resource in _KERNEL_WORKS
            and lost.is_kernel_s
            and 0 < dearer <= lead.share
        ):
            causes[causes.index(lead)] = _with_kernel(lead, dearer, result)
        elif dearer > 0 and alone > 0:
            causes += _dearer(dearer, dearer * lost.time / alone, lost, result)
    return _capped(causes)


_SMALLER = 0.8
"""Part of the cache that is left, by which somebody else has taken the rest."""
_NEEDS_MEMORY = 0.5e9
"""Bytes per second of CPU time: work that moves fewer hardly waits for memory. Of lines of 64 bytes, one in 128 ns."""


def _dearer(share: float, more: float, lost: _Lost, result: CellResult) -> Iterator[Cause]:
    """Yield what the same work took more CPU time for, as far as anybody counted: for the other thread of a core, no
    longer than that was busy (a thread has at least half of its core); the rest for a smaller cache, or slower memory.
    """
    now, before = result.evidence, result.baseline_evidence
    evidence = _pair(Observed.CPU, now, before, "CPU time of the victim")
    threads = min(share, lost.share_of(Observed.SIBLINGS_BUSY))
    if threads >= LEAST_SHARE:
        busy, alone = (format_value(observed(seen, Observed.SIBLINGS_BUSY), "s") for seen in (now, before))
        words = (
            f"the same work took {percent(more)} more CPU time, while the other threads of its cores were busy for"
            f" {busy} ({alone} alone)"
        )
        of_threads = _pair(Observed.SIBLINGS_BUSY, now, before, "CPU time on the other threads of its cores")
        yield Cause("threads of one core", threads, words, evidence + of_threads, clause=True)
        share -= threads
    if share <= 0:
        return
    resource, why = "dearer execution", ", which no counter here can attribute"
    of_memory: tuple[Evidence, ...] = ()
    if Observed.MEMORY_TRAFFIC in now and Observed.MEMORY_TRAFFIC in before:
        held, had = (observed(seen, Observed.CACHE_HELD) for seen in (now, before))
        moved, alone_moved = (
            observed(seen, Observed.MEMORY_TRAFFIC) for seen in (lost.beside.seen, lost.alone.seen)
        )
        if held < _SMALLER * had and moved > _MORE * alone_moved:
            resource = "cache"
            sizes = [format_value(size, "B") for size in (held, had)]
            why = f": it had {sizes[0]} of the last-level caches ({sizes[1]} alone), and had to get more from memory"
        elif _is_slower_memory(moved, alone_moved, result):
            resource = "memory bandwidth"
            rate = observed(now, Observed.OTHERS_MEMORY_TRAFFIC) / observed(now, Observed.WALL)
            why = f": it needs memory, and its neighbours moved {format_value(rate, 'B/s')} meanwhile"
        of_memory = tuple(
            item
            for name, what in (
                (Observed.CACHE_HELD, "of the last-level caches"),
                (Observed.MEMORY_TRAFFIC, "moved to and from memory"),
                (Observed.OTHERS_MEMORY_TRAFFIC, "moved to and from memory by neighbours"),
            )
            for item in _pair(name, now, before, what)
        )
    words = f"the same work took {percent(more)} more CPU time{why}"
    yield Cause(resource, share, words, evidence + of_memory, clause=True)


def _is_slower_memory(moved: float, alone: float, result: CellResult) -> bool:
    """The victim moves as much as alone for the same work, and neighbours at least as much a second as it did alone."""
    now, before = result.evidence, result.baseline_evidence
    others = observed(now, Observed.OTHERS_MEMORY_TRAFFIC)
    own = observed(before, Observed.MEMORY_TRAFFIC)
    used, wall, took = (
        observed(before, Observed.CPU),
        observed(now, Observed.WALL),
        observed(before, Observed.WALL),
    )
    if not used or not wall or not took:
        return False
    return moved <= _MORE * alone and own >= _NEEDS_MEMORY * used and others / wall >= own / took


@dataclass(frozen=True, slots=True)
class _Lost:
    """Times that a unit of work took, beside the neighbour and alone."""

    beside: Work
    alone: Work

    @classmethod
    def of(cls, result: CellResult) -> _Lost | None:
        """Means over trials; of a run whose trials are not at hand medians have to do. None where no time was lost."""
        worked = result.worked
        if worked is None:
            sides = ((result.estimate.value, result.evidence), (1.0, result.baseline_evidence))
            worked = tuple(_per_unit(time, seen) for time, seen in sides)  # type: ignore[assignment]
        assert worked is not None
        return cls(*worked) if worked[0].time > worked[1].time else None

    @property
    def time(self) -> float:
        return self.beside.time - self.alone.time

    def share(self, of: Callable[[Observations], float]) -> float:
        """Part of the time lost that the growth of this time explains."""
        return (of(self.beside.seen) - of(self.alone.seen)) / self.time

    def share_of(self, name: Observed) -> float:
        return self.share(lambda seen: observed(seen, name))

    def grows(self, name: Observed, least: float) -> bool:
        """There is more of it, by a fifth and by so much a second."""
        here, alone = observed(self.beside.seen, name), observed(self.alone.seen, name)
        return here >= _MORE * alone and here - alone >= least * self.beside.time

    @property
    def is_kernel_s(self) -> bool:
        """At least half of the CPU time that the work took more is the kernel's."""
        return 2 * self.share_of(Observed.SYSTEM_CPU) >= self.share_of(Observed.CPU) > 0

    @property
    def reading(self) -> float:
        """Part of the time lost in which it computed to read what memory had alone: the growth of its CPU time, but no more
        than reading takes, once for each time that it gave its CPU up.
        """
        if not self.reads_again:
            return 0.0
        waits, cpu = (self.share_of(name) for name in (Observed.VOLUNTARY_SWITCHES, Observed.CPU))
        return max(0.0, min(cpu, waits * _READ_CPU_S))

    @property
    def reads_again(self) -> bool:
        """It reads from devices what memory had alone."""
        return self.grows(Observed.READ_BYTES, _READ_BYTES_PER_S) or self.faults_again

    @property
    def faults_again(self) -> bool:
        return self.grows(Observed.MAJOR_FAULTS, _FAULTS_PER_S)


def _per_unit(time: float, seen: Observations) -> Work:
    """A unit of work by medians."""
    counted = observed(seen, Observed.MEASURED) or observed(seen, Observed.WALL)
    return Work(
        time, Observations({name: (value * time / counted, unit) for name, (value, unit) in seen.items()})
    )


_READ_CPU_S = 40e-6
"""Most that a request of a device costs its caller: system call, request, two switches, and caches that are cold then."""
_MORE = 1.2
_READ_BYTES_PER_S = 1e6
_FAULTS_PER_S = 100.0
"""Least that is read again a second, and faults for it: below that it takes no time to speak of."""

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

_KERNEL_WORKS = {"fsync", "writeback", "disk queue", "page cache", "page faults", "network send"}
"""Waits for which the kernel computes on the victim's account: to free memory, to write, to send in smaller parts."""

_CERTAIN = 2.0
"""Standard errors of looks by which a wait has to have grown."""
_HARDLY_READ = 10.0
"""Requests a second of the device, alone, with which nothing was read from it to speak of: memory had it."""
_AS_FAST = 1.25
"""Times by which a request of the device takes longer, up to which the device is as fast as alone."""


def _waits(result: CellResult, lost: _Lost) -> Iterator[Cause]:
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
        evidence = tuple(item for kind in kinds for item in _pair(kind, now, before, kind.replace("_", " ")))
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


def _with_kernel(cause: Cause, share: float, result: CellResult) -> Cause:
    """One cause of what is waited for and what the kernel computed more meanwhile."""
    now, before = result.evidence, result.baseline_evidence
    evidence = _pair(Observed.SYSTEM_CPU, now, before, "CPU time in the kernel")
    evidence = tuple(item for item in evidence if item not in cause.evidence)
    used, alone = (format_value(observed(seen, Observed.SYSTEM_CPU), "s") for seen in (now, before))
    words = f"{cause.words}; the kernel computed {used} on its account ({alone} alone)"
    return replace(cause, share=cause.share + share, words=words, evidence=cause.evidence + evidence)


def _from_memory_alone(result: CellResult, lost: _Lost) -> bool:
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
        evidence += _pair(name, now, before, what)
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
    evidence = _pair(Observed.DISK_AWAIT, now, before, "time of a request in the disk's queue and service")
    return f"; a disk request takes {takes} instead of {took}", evidence


def _timed(
    resource: str,
    share: float,
    name: Observed,
    words: str,
    now: Observations,
    before: Observations,
    suffix: str = "",
    also: tuple[Observed, ...] = (),
    seconds: float | None = None,
) -> Cause:
    """seconds: of `name` that are of this cause; None: all of it."""
    lost, wall = observed(now, name) if seconds is None else seconds, observed(now, Observed.WALL)
    seen = f"{words} {format_value(lost, 's')} of {format_value(wall, 's')}{suffix}"
    evidence = _pair(name, now, before, words)
    for other in also:
        if other in now and other != name:
            evidence += _pair(other, now, before, other.replace("_", " "))
    return Cause(resource, share, seen, evidence)


def _held(seen: Observations, waits: Observed) -> float:
    """Seconds of the waiting that were a quota's: the kernel counts throttled tasks as waiting (run delay and PSI both).

    A pressure counts time in which any task waited, and so does HELD; the run delay adds up the waits of all tasks, and
    meanwhile all that were ready waited. The quota may be of a group that others are in too: never more than the victim
    waited. A run of an earlier version has nothing but throttled time, a sum over CPUs.
    """
    held = seen.value(Observed.HELD)
    if held is None:
        held = observed(seen, Observed.THROTTLED)
    elif waits is Observed.RUN_DELAY and waits in seen and observed(seen, Observed.WALL):
        ready = (observed(seen, Observed.CPU) + observed(seen, waits)) / observed(seen, Observed.WALL)
        held *= max(1.0, ready)
    return min(held, observed(seen, waits)) if waits in seen else held


def _throttled(share: float, held_s: float, result: CellResult) -> Cause:
    words = "was throttled by its CPU quota"  # a run of an earlier version does not say which
    if result.quotas:
        words = f"was limited by {_quota_words(result.quotas[0])} for"
    now, before = result.evidence, result.baseline_evidence
    cause = _timed("throttling", share, Observed.THROTTLED, words, now, before, seconds=held_s)
    named = tuple(
        Evidence(f"throttled by {quota_name(quota)}", quota.throttled_s, "s", "quotas, median of the cell")
        for quota in result.quotas
        if quota.throttled_s > 0
    )
    return replace(cause, evidence=cause.evidence + named)


def _quota_words(quota: Quota) -> str:
    """
    >>> _quota_words(Quota("/sys/fs/cgroup/cpu/box", 0.5, "above", 1.0, 10))
    'the CPU quota of 0.5 CPUs in /sys/fs/cgroup/cpu/box'
    >>> _quota_words(Quota("/sys/fs/cgroup/box", 2.0, "own", 1.0, 10))
    'its own CPU quota of 2 CPUs in /sys/fs/cgroup/box'
    """
    return f"{'the' if quota.whose == 'above' else 'its own'} {quota_name(quota)}"


def _disk(result: CellResult) -> Cause | None:
    """The disk's queue: requests wait longer in it than alone. Busy time is no evidence on a device with many queues."""
    now, before = result.evidence, result.baseline_evidence
    if (
        not observed(now, Observed.DISK_AWAIT)
        or not observed(before, Observed.DISK_AWAIT)
        or observed(before, Observed.DISK_IOPS) < 1
    ):
        return None
    if not (observed(before, Observed.OWN_PSI_IO) > 0 or _uses_disk(result)):
        return None
    # A victim whose requests each take longer by this factor does so much less with the same number in flight.
    growth = (observed(now, Observed.DISK_AWAIT) / observed(before, Observed.DISK_AWAIT) - 1) / (
        result.estimate.value - 1
    )
    if growth <= 0:
        return None
    takes, took = (format_value(observed(e, Observed.DISK_AWAIT) / 1e3, "s") for e in (now, before))
    rate, alone = (format_value(observed(e, Observed.DISK_IOPS), "IOPS") for e in (now, before))
    words = f"a disk request takes {takes} instead of {took} at {rate} in all ({alone} alone)"
    evidence = _pair(Observed.DISK_AWAIT, now, before, "time of a request in the disk's queue and service")
    evidence += _pair(Observed.DISK_IOPS, now, before, "requests a second of the whole device") + _pair(
        Observed.DISK_QUEUE, now, before, "mean requests in the queue"
    )
    return Cause("disk queue", growth, words, evidence, clause=True)


def _uses_disk(result: CellResult) -> bool:
    """True if the victim itself keeps the disk busy when alone: at least one request in flight, on average."""
    return observed(result.baseline_evidence, Observed.DISK_QUEUE) >= 0.5


def _capped(causes: list[Cause]) -> list[Cause]:
    """Shares clipped in the order of directness (the order found), then sorted; small ones dropped."""
    left, kept = 1.0, []
    for cause in causes:
        share = min(max(cause.share, 0.0), left)
        left -= share
        if share >= LEAST_SHARE:
            words = f"{cause.words} ({percent(share)} of the slowdown)"
            kept.append(replace(cause, share=share, words=words))
    return sorted(kept, key=lambda c: -c.share)


def _pair(name: Observed, now: Observations, before: Observations, what: str) -> tuple[Evidence, ...]:
    """The same quantity beside the neighbour and alone."""
    both = []
    for evidence, where in ((now, "beside"), (before, "alone")):
        if name in evidence:
            value, unit = evidence[name]
            both.append(Evidence(f"{what}, {where}", value, unit, f"evidence {name}, median of the cell"))
    return tuple(both)


def percent(share: float) -> str:
    """
    >>> percent(0.987)
    '99 %'
    """
    return f"{share * 100:.0f} %"


def observed(evidence: Observations, name: Observed) -> float:
    return evidence.value(name) or 0.0


# What to do, and the command that checks it
