"""What happened around one trial, from counters read before and after it.

Every figure is a difference of cumulative counters over the trial's window, so nothing can be missed between
samples, except where a line below says so. What this machine cannot tell is absent, never zero.

wall                  s         victim's process, or the window where the victim is a server
cpu                   s         CPU time of the victim's party
wall_per_cpu          ratio     about 1.0 for an undisturbed single-threaded victim
run_delay             s         time its tasks were runnable without a CPU, summed (precision: `TaskWatch`)
run_delay_coverage    fraction  share of the party's CPU time the watch saw; run_delay misses the rest
voluntary_switches, involuntary_switches   count   of the victim's process and its waited-for children
throttled             s         time its cgroup was denied CPUs by its quota
throttled_periods     count     how many times
steal                 s         time the hypervisor kept the victim's CPUs, summed over them
psi_cpu, psi_io, psi_memory                s       time in which some task of the whole host waited
own_psi_cpu, own_psi_io                    s       the same for the victim's cgroup alone
disk_busy             fraction  of the window with a request in flight: 1.0 is no saturation on a device that
                                serves many at once
disk_queue            requests  mean number in flight or waiting
disk_await            ms        mean time of a request, waiting included
disk_iops, disk_bytes_per_s     IOPS, B/s          reads and writes, all parties
foreign_cpu           s         CPU time on the victim's CPUs by nobody we started: a lower bound, in ticks
frequency             MHz       mean over the victim's CPUs, before and after
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contend.platforms.base import Exit, Usage
    from contend.probes.snapshot import DiskCounters, Snapshot

Evidence = dict[str, tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Started:
    """CPU time that a party we started used during the window, and the CPUs it could use (None: any)."""

    cpu_ns: int
    cpus: tuple[int, ...] | None = None


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
) -> Evidence:
    """The evidence of one trial as {name: (value, unit)}; names and meanings stand at the top of this module.

    `exit` is the victim's own process, None where the victim is a server that goes on. `taskwatch` is what
    `TaskWatch.stop` or `read` gave. `cpus` are those the victim may use, None for all. `device` is the disk
    the victim works on, by `device_of`; None takes the one the snapshots hold, if it is one. `others` are all
    other parties, load generators and contend itself included; None (cannot be told) leaves foreign_cpu out.
    """
    window_ns = after.t_ns - before.t_ns
    result: Evidence = {}
    wall_ns = window_ns if exit is None else exit.wall_ns
    result["wall"] = (wall_ns / 1e9, "s")
    cpu_ns = _change(usage_before.cpu_ns, usage_after.cpu_ns)
    if cpu_ns is None and exit is not None:
        cpu_ns = exit.cpu_ns
    if cpu_ns is not None:
        result["cpu"] = (cpu_ns / 1e9, "s")
        if cpu_ns > 0:
            result["wall_per_cpu"] = (wall_ns / cpu_ns, "ratio")
    if taskwatch is not None:
        result["run_delay"] = (taskwatch["run_delay_ns"] / 1e9, "s")
        if cpu_ns:
            result["run_delay_coverage"] = (taskwatch["cpu_ns"] / cpu_ns, "fraction")
    if exit is not None and exit.max_rss_bytes:  # 0: the platform does not tell (a container's command)
        result["voluntary_switches"] = (exit.voluntary_switches, "count")
        result["involuntary_switches"] = (exit.involuntary_switches, "count")
    _usage(result, usage_before, usage_after)
    for resource, total in after.psi_ns.items():
        if resource in before.psi_ns:
            result[f"psi_{resource}"] = ((total - before.psi_ns[resource]) / 1e9, "s")
    wanted = set(before.cpus) if cpus is None else set(cpus)
    # A CPU taken offline or brought online meanwhile has no difference.
    present = sorted(wanted & set(before.cpus) & set(after.cpus))
    if present:
        steal = sum(after.cpus[c].steal - before.cpus[c].steal for c in present)
        result["steal"] = (max(0, steal) / 1e9, "s")
        if others is not None and cpu_ns is not None:
            result["foreign_cpu"] = (_foreign_ns(before, after, present, cpu_ns, others) / 1e9, "s")
    if device is None and len(after.disks) == 1:
        device = next(iter(after.disks))
    if device is not None and device in before.disks and device in after.disks and window_ns > 0:
        _disk(result, before.disks[device], after.disks[device], window_ns)
    frequencies = [s.frequency_mhz[c] for s in (before, after) for c in present if c in s.frequency_mhz]
    if frequencies:
        result["frequency"] = (sum(frequencies) / len(frequencies), "MHz")
    return result


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _usage(result: Evidence, before: Usage, after: Usage) -> None:
    for name, field in (
        ("throttled", "throttled_ns"),
        ("own_psi_cpu", "cpu_pressure_ns"),
        ("own_psi_io", "io_pressure_ns"),
    ):
        change = _change(getattr(before, field), getattr(after, field))
        if change is not None:
            result[name] = (change / 1e9, "s")
    periods = _change(before.nr_throttled, after.nr_throttled)
    if periods is not None:
        result["throttled_periods"] = (periods, "count")


def _foreign_ns(
    before: Snapshot, after: Snapshot, cpus: Sequence[int], victim_ns: int, others: Sequence[Started]
) -> int:
    """CPU time on `cpus` that no party of ours accounts for.

    A party that could also run elsewhere is taken to have run here: better to miss a stranger
    than to invent one. Interrupts are left out: they are the kernel's work for someone, mostly the parties.
    """
    busy = 0
    for cpu in cpus:
        old, new = before.cpus[cpu], after.cpus[cpu]
        busy += new.user + new.nice + new.system - old.user - old.nice - old.system
    here = set(cpus)
    ours = sum(party.cpu_ns for party in others if party.cpus is None or here & set(party.cpus))
    return max(0, busy - victim_ns - ours)


def _disk(result: Evidence, before: DiskCounters, after: DiskCounters, window_ns: int) -> None:
    requests = after.reads - before.reads + after.writes - before.writes
    moved = after.read_bytes - before.read_bytes + after.write_bytes - before.write_bytes
    waited_ns = after.read_ns - before.read_ns + after.write_ns - before.write_ns
    result["disk_busy"] = (min(1.0, (after.busy_ns - before.busy_ns) / window_ns), "fraction")
    # Little's law: the time all requests spent in the device and its queue, per unit of time.
    result["disk_queue"] = ((after.queue_ns - before.queue_ns) / window_ns, "requests")
    result["disk_iops"] = (requests * 1e9 / window_ns, "IOPS")
    result["disk_bytes_per_s"] = (moved * 1e9 / window_ns, "B/s")
    if requests > 0:
        result["disk_await"] = (waited_ns / requests / 1e6, "ms")
