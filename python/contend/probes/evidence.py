"""Events around one trial, from counters read before and after it.

Every figure is a difference of cumulative counters over the trial's window, so nothing can be missed between
samples, except where `Observed` says so. What this machine cannot tell is absent, never zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from contend.probes.stolen import Ran, stolen_s

if TYPE_CHECKING:
    from contend.platforms.base import Exit, Usage
    from contend.probes.snapshot import CpuTimes, DiskCounters, Snapshot

Quantity = tuple[float, str]  # a value and its unit


class Observed(StrEnum):
    """Every piece of evidence a trial's row can hold: its name in the row, its unit, and what it means.

    Whoever writes or reads evidence does so by a member, so that a misspelt name is an error and not an absent value.

    >>> Observed.OWN_PSI_IO == "own_psi_io", Observed.OWN_PSI_IO.unit
    (True, 's')
    >>> Observed("own_io")
    Traceback (most recent call last):
    ValueError: 'own_io' is not a valid Observed
    """

    unit: str
    meaning: str

    # The last two are of the declaration; who asks by a name gives that alone.
    def __new__(cls, name: str, unit: str = "", meaning: str = "") -> Observed:
        made = str.__new__(cls, name)
        made._value_ = name
        made.unit, made.meaning = unit, meaning
        return made

    WALL = "wall", "s", "victim's process, or the window where the victim is a server"
    MEASURED = "measured", "s", "the part of it that the metric counts over, where the workload states it"
    REQUESTS = (
        "requests",
        "count",
        "of a service that was asked at a stated rate: those answered; `measured` is the sum of their latencies then",
    )
    STARTUP = "startup", "s", "what the platform took before the commands ran; no part of their time"
    CPU = "cpu", "s", "CPU time of the victim's party"
    SYSTEM_CPU = "system_cpu", "s", "the part of it in the kernel"
    READ_BYTES = "read_bytes", "B", "read from devices for it, because memory did not have it"
    MAJOR_FAULTS = (
        "major_faults",
        "count",
        "pages that it touched and that had to be read, from a file or from swap",
    )
    WALL_PER_CPU = "wall_per_cpu", "ratio", "about 1.0 for an undisturbed single-threaded victim"
    RUN_DELAY = (
        "run_delay",
        "s",
        "time its tasks were runnable without a CPU, summed (precision: `TaskWatch`)",
    )
    RUN_DELAY_COVERAGE = (
        "run_delay_coverage",
        "fraction",
        "share of its CPU time the watch saw; run_delay misses the rest",
    )
    VOLUNTARY_SWITCHES = "voluntary_switches", "count", "of the victim's process and its waited-for children"
    INVOLUNTARY_SWITCHES = "involuntary_switches", "count", "of the same: it lost its CPU before it wanted to"
    THROTTLED = (
        "throttled",
        "s",
        "time CPU quotas kept its processes from CPUs, summed over CPUs (see `probes.quotas`)",
    )
    HELD = "held", "s", "time in which quotas kept its processes from CPUs, however many at once (`held_s`)"
    THROTTLED_PERIODS = "throttled_periods", "count", "how many times"
    STEAL = "steal", "s", "time the hypervisor kept the victim's CPUs, whoever was on them, summed over them"
    STOLEN_LEAST = (
        "stolen_least",
        "s",
        "time in which that kept the victim from running: the least, by how long whoever ran where (`stolen_s`)",
    )
    STOLEN_MOST = "stolen_most", "s", "the same: the most"
    PSI_CPU = "psi_cpu", "s", "time in which some task of the whole host waited for a CPU"
    PSI_IO = "psi_io", "s", "the same for I/O"
    PSI_MEMORY = "psi_memory", "s", "the same for memory"
    OWN_PSI_CPU = "own_psi_cpu", "s", "time in which some task of the victim's cgroup waited for a CPU"
    OWN_PSI_IO = "own_psi_io", "s", "the same for I/O"
    DISK_BUSY = (
        "disk_busy",
        "fraction",
        "of the window with a request in flight: 1.0 is no saturation on a parallel device",
    )
    DISK_QUEUE = "disk_queue", "requests", "mean number in flight or waiting"
    DISK_AWAIT = "disk_await", "ms", "mean time of a request, waiting included"
    DISK_IOPS = "disk_iops", "IOPS", "reads and writes, all parties"
    DISK_BYTES_PER_S = "disk_bytes_per_s", "B/s", "reads and writes, all parties"
    LOOKS = (
        "looks",
        "count",
        "how often it was looked at what the victim's tasks wait for, by their system calls",
    )
    WAITED_FILE_LOCK = (
        "waited_file_lock",
        "s",
        "time in which some task of the victim waited for a lock of a file, by the share of these looks",
    )
    WAITED_SYNC = "waited_sync", "s", "the same for what it had written to be on the device (fsync)"
    WAITED_READ = (
        "waited_read",
        "s",
        "the same for a file to be read; of this, pages, writes and fsync, what looks missed of `own_psi_io` is added",
    )
    WAITED_WRITE = (
        "waited_write",
        "s",
        "the same for a file to be written, or a name in a file system to be changed",
    )
    WAITED_COMPLETION = "waited_completion", "s", "the same for asynchronous input or output to be done"
    WAITED_PEER = "waited_peer", "s", "the same for the other end of a socket, or for any of several things"
    WAITED_SEND = "waited_send", "s", "the same for room to send in"
    WAITED_PAGE = "waited_page", "s", "the same for a page of memory, from a file or from swap"
    SIBLINGS_BUSY = (
        "siblings_busy",
        "s",
        "CPU time on the other hardware threads of the victim's cores, by anybody",
    )
    CACHE_HELD = "cache_held", "B", "of the last-level caches, by the victim's tasks at its end (resctrl)"
    MEMORY_TRAFFIC = (
        "memory_traffic",
        "B",
        "between last-level caches and memory, by the victim's tasks (resctrl)",
    )
    OTHERS_MEMORY_TRAFFIC = "others_memory_traffic", "B", "the same by the other parties that contend started"
    FOREIGN_CPU = (
        "foreign_cpu",
        "s",
        "CPU time on the victim's CPUs by nobody we started: a lower bound, in ticks",
    )
    FREQUENCY = "frequency", "MHz", "mean over the victim's CPUs, before and after"
    SAMPLES = "samples", "count", "of an imported run: how many values its tool took"


Evidence = dict[Observed, Quantity]  # of one trial


def put(evidence: Evidence, name: Observed, value: float) -> None:
    """Write one quantity, in the unit of its name."""
    checked = _checked(name)
    evidence[checked] = (value, checked.unit)


def _checked(name: object) -> Observed:
    if not isinstance(name, Observed):
        raise TypeError(f"evidence is asked for by a member of Observed, not by {name!r}")
    return name


class Observations(Mapping[Observed, Quantity]):
    """Evidence of a trial or a cell, read by member of `Observed` only: any other key raises TypeError.

    Rows of other versions of contend may hold names that this one does not know: they stay in `flat`. neighbours: by name,
    what each burnt meanwhile.

    >>> seen = Observations({"wall": (2.0, "s"), "of_later": (1.0, "s")})
    >>> seen.value(Observed.WALL), seen.value(Observed.CPU), list(seen), list(seen.flat)
    (2.0, None, [<Observed.WALL: 'wall'>], ['wall', 'of_later'])
    >>> seen["wall"]
    Traceback (most recent call last):
    TypeError: evidence is asked for by a member of Observed, not by 'wall'
    """

    __slots__ = ("_all", "neighbours")

    def __init__(
        self,
        of: Mapping[str, Quantity] | Mapping[Observed, Quantity] | None = None,
        neighbours: Mapping[str, Quantity] | None = None,
    ) -> None:
        self._all: dict[str, Quantity] = {str(name): quantity for name, quantity in (of or {}).items()}
        self.neighbours: Mapping[str, Quantity] = neighbours or {}

    @classmethod
    def of_row(cls, row: Mapping[str, object]) -> Observations:
        """The evidence of a trial's row."""
        items = row.get("evidence")
        readings = items if isinstance(items, Sequence) else ()
        return cls({str(item["name"]): (float(item["value"]), str(item["unit"])) for item in readings})

    def __getitem__(self, name: Observed) -> Quantity:
        return self._all[_checked(name)]

    def __contains__(self, name: object) -> bool:
        return _checked(name) in self._all

    def __iter__(self) -> Iterator[Observed]:
        return (_NAMES[name] for name in self._all if name in _NAMES)

    def __len__(self) -> int:
        return sum(name in _NAMES for name in self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observations) and self.flat == other.flat

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Observations({self._all!r}, {self.neighbours!r})"

    def value(self, name: Observed) -> float | None:
        """Value in `name.unit`; None where it was not seen."""
        return self._all[name][0] if name in self else None

    @property
    def flat(self) -> Mapping[str, Quantity]:
        """All evidence, as documents have it."""
        burnt = {f"neighbour {name}": quantity for name, quantity in self.neighbours.items()}
        return {**self._all, **burnt}

    @property
    def apart(self) -> Mapping[str, Quantity]:
        """Observations without what neighbours burnt."""
        return self._all


_NAMES = {str(name): name for name in Observed}


@dataclass(frozen=True, slots=True)
class Started:
    """CPU time that processes which contend started used during the window, and the CPUs they could use (None: any)."""

    cpu_ns: int
    cpus: tuple[int, ...] | None = None


_PRESSURES = {"cpu": Observed.PSI_CPU, "io": Observed.PSI_IO, "memory": Observed.PSI_MEMORY}


def difference(
    before: Snapshot,
    after: Snapshot,
    usage_before: Usage,
    usage_after: Usage,
    exit: Exit | None,
    taskwatch: Mapping[str, int] | None,
    cpus: Sequence[int] | None,
    *,
    device: str | None = None,
    others: Sequence[Started] | None = None,
    siblings: Sequence[int] = (),
    traffic_of_others: int | None = None,
) -> Evidence:
    """The evidence of one trial as {name: (value, unit)}; names and meanings are `Observed`'s.

    `exit` is the victim's own process, None where the victim is a server that goes on. `taskwatch` is what
    `TaskWatch.stop` or `read` gave. `cpus` are those the victim may use, None for all. `device` is the disk
    the victim works on, by `device_of`; None takes the one the snapshots hold, if it is one. `others` are all
    other parties, load generators and contend itself included; None (cannot be told) leaves foreign_cpu out. `siblings`
    are the other hardware threads of the victim's cores; `traffic_of_others`: bytes that they moved to and from memory.
    """
    window_ns = after.t_ns - before.t_ns
    result: Evidence = {}
    wall_ns = window_ns if exit is None else exit.wall_ns
    put(result, Observed.WALL, wall_ns / 1e9)
    cpu_ns = _change(usage_before.cpu_ns, usage_after.cpu_ns)
    if cpu_ns is None and exit is not None:
        cpu_ns = exit.cpu_ns
    if cpu_ns is not None:
        put(result, Observed.CPU, cpu_ns / 1e9)
        if cpu_ns > 0:
            put(result, Observed.WALL_PER_CPU, wall_ns / cpu_ns)
    _read(result, usage_before, usage_after, exit)
    if taskwatch is not None:
        put(result, Observed.RUN_DELAY, taskwatch["run_delay_ns"] / 1e9)
        if cpu_ns:
            put(result, Observed.RUN_DELAY_COVERAGE, taskwatch["cpu_ns"] / cpu_ns)
        _waits(result, taskwatch)
    if exit is not None and exit.max_rss_bytes:  # 0: the platform does not tell (a container's command)
        put(result, Observed.VOLUNTARY_SWITCHES, exit.voluntary_switches)
        put(result, Observed.INVOLUNTARY_SWITCHES, exit.involuntary_switches)
    _usage(result, usage_before, usage_after)
    for resource, total in after.psi_ns.items():
        if resource in before.psi_ns and resource in _PRESSURES:
            put(result, _PRESSURES[resource], (total - before.psi_ns[resource]) / 1e9)
    wanted = set(before.cpus) if cpus is None else set(cpus)
    # A CPU taken offline or brought online meanwhile has no difference.
    present = sorted(wanted & set(before.cpus) & set(after.cpus))
    if present:
        add_stolen(result, before, after, present)
        if others is not None and cpu_ns is not None:
            put(result, Observed.FOREIGN_CPU, _foreign_ns(before, after, present, cpu_ns, others) / 1e9)
    if taskwatch is not None:
        _waited_off(result, taskwatch, _interrupts_s(before, after, present))
    _no_less_than_pressure(result)
    threads = [cpu for cpu in siblings if cpu in before.cpus and cpu in after.cpus]
    if threads:
        busy = sum(_busy_ns(after.cpus[cpu]) - _busy_ns(before.cpus[cpu]) for cpu in threads)
        put(result, Observed.SIBLINGS_BUSY, max(0, busy) / 1e9)
    _memory(result, usage_before, usage_after, traffic_of_others)
    if device is None and len(after.disks) == 1:
        device = next(iter(after.disks))
    if device is not None and device in before.disks and device in after.disks and window_ns > 0:
        _disk(result, before.disks[device], after.disks[device], window_ns)
    frequencies = [s.frequency_mhz[c] for s in (before, after) for c in present if c in s.frequency_mhz]
    if frequencies:
        put(result, Observed.FREQUENCY, sum(frequencies) / len(frequencies))
    return result


def _read(result: Evidence, before: Usage, after: Usage, exit: Exit | None) -> None:
    """CPU time in the kernel, and what had to be read from devices."""
    system_ns = _change(before.system_ns, after.system_ns)
    if system_ns is None and exit is not None:
        system_ns = exit.system_ns
    if system_ns is not None:
        put(result, Observed.SYSTEM_CPU, system_ns / 1e9)
    read = _change(before.read_bytes, after.read_bytes)
    if exit is not None and exit.read_bytes is not None:
        read = max(exit.read_bytes, read or 0)  # a group's is not counted by every kernel
    if read is not None:
        put(result, Observed.READ_BYTES, read)
    if exit is not None and exit.major_faults is not None:
        put(result, Observed.MAJOR_FAULTS, exit.major_faults)


WAITS: Mapping[str, Observed] = {
    "file_lock": Observed.WAITED_FILE_LOCK,
    "sync": Observed.WAITED_SYNC,
    "read": Observed.WAITED_READ,
    "write": Observed.WAITED_WRITE,
    "completion": Observed.WAITED_COMPLETION,
    "peer": Observed.WAITED_PEER,
    "send": Observed.WAITED_SEND,
    "page": Observed.WAITED_PAGE,
}
"""By the name that `TaskWatch` has for a kind of wait."""

FOLLOWED = "evidence.json"
"""Name of the file in which a workload has the evidence of a victim that is none of its own processes."""

_OF_HOST = (
    Observed.STEAL,
    Observed.PSI_CPU,
    Observed.PSI_IO,
    Observed.PSI_MEMORY,
    Observed.DISK_BUSY,
    Observed.DISK_QUEUE,
    Observed.DISK_AWAIT,
    Observed.DISK_IOPS,
    Observed.DISK_BYTES_PER_S,
    Observed.FREQUENCY,
)


def of_tasks(taskwatch: Mapping[str, int], wall_s: float) -> Evidence:
    """Evidence of tasks that nothing else is known of, by what `TaskWatch` counted in that time."""
    result: Evidence = {}
    put(result, Observed.WALL, wall_s)
    put(result, Observed.CPU, taskwatch["cpu_ns"] / 1e9)
    put(result, Observed.RUN_DELAY, taskwatch["run_delay_ns"] / 1e9)
    _waits(result, taskwatch)
    return result


def followed(path: Path, of_trial: Evidence) -> Evidence:
    """Evidence of a victim that a workload followed, from its file, and of the host from the trial's. Raises ValueError
    for a file that is none."""
    result: Evidence = {name: quantity for name, quantity in of_trial.items() if name in _OF_HOST}
    # The trial's own bounds are of who followed it.
    if Observed.STEAL in result:
        put(result, Observed.STOLEN_LEAST, 0.0)
        put(result, Observed.STOLEN_MOST, result[Observed.STEAL][0])
    for name, value in json.loads(path.read_text(encoding="utf-8")).items():
        put(result, Observed(name), float(value))
    return result


LEAST_LOOKS = 10
"""Fewer say little of what a trial waited for: of ten, one is a tenth of its time."""


def _waits(result: Evidence, taskwatch: Mapping[str, int]) -> None:
    """Absent where nobody could look, or too seldom."""
    if taskwatch.get("looks", 0) < LEAST_LOOKS or not taskwatch["looked_ns"]:
        return
    put(result, Observed.LOOKS, taskwatch["looks"])
    # The time before the first look and after the last one passed like the rest.
    for name, observed in WAITS.items():
        put(
            result,
            observed,
            result[Observed.WALL][0] * taskwatch[f"waited_{name}_ns"] / taskwatch["looked_ns"],
        )


def held_s(seen: Observations, cpus: int) -> float | None:
    """Seconds of the window in which quotas held the victim back on `cpus` CPUs; None where it is not known.

    The kernel adds throttled time up over the CPUs that a group was throttled on (tg_unthrottle_up, kernel/sched/fair.c):
    two threads that are held for 50 ms are throttled for 100 ms. A group is throttled on as many CPUs as it wants: that is
    how many of its threads ran or were ready, on average over the window, or, of one that often sleeps, over the time in
    which any waited; and never more than it may use.

    >>> seen = Observations({"wall": (1, "s"), "throttled": (0.9, "s"), "cpu": (1.0, "s"), "run_delay": (1.0, "s")})
    >>> held_s(seen, 2), held_s(seen, 1)
    (0.45, 0.9)
    """
    throttled, wall = seen.value(Observed.THROTTLED), seen.value(Observed.WALL)
    if throttled is None or not wall:
        return None
    used, delay = seen.value(Observed.CPU) or 0.0, seen.value(Observed.RUN_DELAY) or 0.0
    waited = seen.value(Observed.OWN_PSI_CPU) or 0.0
    wanted = max((used + delay) / wall, (used + throttled) / wall, delay / waited if waited > 0 else 0.0, 1.0)
    return throttled / min(wanted, max(cpus, 1))


def add_stolen(result: Evidence, before: Snapshot, after: Snapshot, cpus: Iterable[int]) -> None:
    """Add what the hypervisor took of these CPUs, and, where WALL and CPU are known, what the victim lost by it."""
    ran = [
        Ran(
            (_tasks_ns(after.cpus[cpu]) - _tasks_ns(before.cpus[cpu])) / 1e9,
            max(0, after.cpus[cpu].steal - before.cpus[cpu].steal) / 1e9,
        )
        for cpu in cpus
    ]
    put(result, Observed.STEAL, sum(cpu.stolen_s for cpu in ran))
    if Observed.CPU in result:
        least, most = stolen_s(ran, result[Observed.CPU][0], result[Observed.WALL][0])
        put(result, Observed.STOLEN_LEAST, least)
        put(result, Observed.STOLEN_MOST, most)


_SERIAL = 0.02
"""Part of the looks, up to which several tasks of a party may do something at once: a shell and what it starts."""
_UNSEEN = 0.2
"""Part of the time, up to which tasks may have computed that nobody looked at, since they were new."""
_MOST_MISSED = 2.0
"""Times that the waits are as long as the looks have it, at most: what is longer is of a kind that looks do not know."""


def _waited_off(result: Evidence, taskwatch: Mapping[str, int], interrupts_s: float) -> None:
    """Correct waits by what the kernel counts. Looks are a sample, and miss short waits; of a party of which one task at a
    time has something to do, the rest of the time in which that ran or could have is what it waited.

    Of the rest, what the hypervisor took and what interrupts took of the victim's CPUs (`interrupts_s`: of whoever was on
    them) is known within bounds only, and so is the time in which there was nobody to look at, as while a container starts:
    within these bounds the looks are believed.
    """
    known = (Observed.LOOKS, Observed.CPU, Observed.RUN_DELAY)
    if any(name not in result for name in known) or "ran_ns" not in taskwatch:
        return
    wall, cpu, delay = (result[name][0] for name in (Observed.WALL, Observed.CPU, Observed.RUN_DELAY))
    watched, looked_ns = taskwatch["cpu_ns"] / 1e9, taskwatch["looked_ns"]
    unseen = max(0.0, cpu - watched)
    if taskwatch["at_once_ns"] > _SERIAL * looked_ns or unseen > _UNSEEN * wall or not watched:
        return
    # While a task computed that nobody looked at, the others were seen to do nothing.
    waits = sum(result[name][0] for name in WAITS.values())
    seen = max(waits, wall * (1 - taskwatch["ran_ns"] / looked_ns) - unseen)
    if waits <= 0:
        return
    stolen = [result.get(name, (0.0, "s"))[0] for name in (Observed.STOLEN_LEAST, Observed.STOLEN_MOST)]
    most = wall - cpu - delay - stolen[0]
    nobody = max(0.0, wall - looked_ns / 1e9 - unseen)
    least = most - (stolen[1] - stolen[0]) - interrupts_s - delay * unseen / watched - nobody
    off = max(0.0, min(max(seen, least), most))
    for name in WAITS.values():
        put(result, name, result[name][0] * min(off / seen, _MOST_MISSED))


def _interrupts_s(before: Snapshot, after: Snapshot, cpus: Iterable[int]) -> float:
    """Seconds of interrupts on these CPUs that are in nobody's CPU time: none where the kernel tells time by ticks, at which
    it finds no interrupt but its own (CONFIG_IRQ_TIME_ACCOUNTING is off); then they are in that of whom they interrupt.
    """
    if not any(cpu.irq for cpu in after.cpus.values()):
        return 0.0
    both = ((before.cpus[cpu], after.cpus[cpu]) for cpu in cpus)
    return sum(max(0, now.irq + now.softirq - then.irq - then.softirq) for then, now in both) / 1e9


_ON_DISK = (Observed.WAITED_READ, Observed.WAITED_PAGE, Observed.WAITED_WRITE, Observed.WAITED_SYNC)
"""Waits that the kernel counts as I/O, wholly or in part."""


def _no_less_than_pressure(result: Evidence) -> None:
    """Waits for a fast device are over before a look can tell them. The kernel counts the time in which some task of the
    group waited for I/O: kinds that were seen share what looks have missed of it, up to as much as was seen. More is a wait
    of a kind that looks do not know."""
    seen = [(name, result[name][0]) for name in _ON_DISK if name in result]
    total, pressure = sum(value for _, value in seen), result.get(Observed.OWN_PSI_IO, (0.0, "s"))[0]
    if 0 < total < pressure:
        for name, value in seen:
            put(result, name, value * min(2.0, pressure / total))


def _memory(result: Evidence, before: Usage, after: Usage, of_others: int | None) -> None:
    """Add what a processor that counts by group says of caches and memory."""
    moved = _change(before.memory_traffic_bytes, after.memory_traffic_bytes)
    if after.cache_bytes is not None:
        put(result, Observed.CACHE_HELD, after.cache_bytes)
    if moved is not None:
        put(result, Observed.MEMORY_TRAFFIC, moved)
    if of_others is not None:
        put(result, Observed.OTHERS_MEMORY_TRAFFIC, of_others)


def _tasks_ns(cpu: CpuTimes) -> int:
    return cpu.user + cpu.nice + cpu.system


def _busy_ns(cpu: CpuTimes) -> int:
    return _tasks_ns(cpu) + cpu.irq + cpu.softirq


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _usage(result: Evidence, before: Usage, after: Usage) -> None:
    for name, field in (
        (Observed.THROTTLED, "throttled_ns"),
        (Observed.OWN_PSI_CPU, "cpu_pressure_ns"),
        (Observed.OWN_PSI_IO, "io_pressure_ns"),
    ):
        change = _change(getattr(before, field), getattr(after, field))
        if change is not None:
            put(result, name, change / 1e9)
    periods = _change(before.nr_throttled, after.nr_throttled)
    if periods is not None:
        put(result, Observed.THROTTLED_PERIODS, periods)


def _foreign_ns(
    before: Snapshot, after: Snapshot, cpus: Sequence[int], victim_ns: int, others: Sequence[Started]
) -> int:
    """CPU time on `cpus`, ns, that no process of contend's run accounts for.

    One that could also run elsewhere is taken to have run here: better to miss a stranger
    than to invent one. Interrupts are left out: they are the kernel's work for someone, mostly the run.
    """
    busy = sum(_tasks_ns(after.cpus[cpu]) - _tasks_ns(before.cpus[cpu]) for cpu in cpus)
    here = set(cpus)
    own_ns = sum(process.cpu_ns for process in others if process.cpus is None or here & set(process.cpus))
    return max(0, busy - victim_ns - own_ns)


def _disk(result: Evidence, before: DiskCounters, after: DiskCounters, window_ns: int) -> None:
    requests = after.reads - before.reads + after.writes - before.writes
    moved = after.read_bytes - before.read_bytes + after.write_bytes - before.write_bytes
    waited_ns = after.read_ns - before.read_ns + after.write_ns - before.write_ns
    put(result, Observed.DISK_BUSY, min(1.0, (after.busy_ns - before.busy_ns) / window_ns))
    # Little's law: the time all requests spent in the device and its queue, per unit of time.
    put(result, Observed.DISK_QUEUE, (after.queue_ns - before.queue_ns) / window_ns)
    put(result, Observed.DISK_IOPS, requests * 1e9 / window_ns)
    put(result, Observed.DISK_BYTES_PER_S, moved * 1e9 / window_ns)
    if requests > 0:
        put(result, Observed.DISK_AWAIT, waited_ns / requests / 1e6)
