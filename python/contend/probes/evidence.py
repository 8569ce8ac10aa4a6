"""Events around one trial, from counters read before and after it.

Every figure is a difference of cumulative counters over the trial's window, so nothing can be missed between
samples, except where `Observed` says so. What this machine cannot tell is absent, never zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contend.probes.observed import Evidence, Observations, Observed, put
from contend.probes.stolen import Ran, stolen_s
from contend.probes.waits import add_waits, correct_by_pressure, correct_by_time_off

if TYPE_CHECKING:
    from contend.platforms.base import Exit, Usage
    from contend.probes.snapshot import CpuTimes, DiskCounters, Snapshot


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
        add_waits(result, taskwatch)
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
        correct_by_time_off(result, taskwatch, _interrupts_s(before, after, present))
    correct_by_pressure(result)
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
    add_waits(result, taskwatch)
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


def _interrupts_s(before: Snapshot, after: Snapshot, cpus: Iterable[int]) -> float:
    """Seconds of interrupts on these CPUs that are in nobody's CPU time: none where the kernel tells time by ticks, at which
    it finds no interrupt but its own (CONFIG_IRQ_TIME_ACCOUNTING is off); then they are in that of whom they interrupt.
    """
    if not any(cpu.irq for cpu in after.cpus.values()):
        return 0.0
    both = ((before.cpus[cpu], after.cpus[cpu]) for cpu in cpus)
    return sum(max(0, now.irq + now.softirq - then.irq - then.softirq) for then, now in both) / 1e9


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
