"""CPUs: cores without idle time while tasks wait, time that the hypervisor took, and single busy threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import Array, Flags, Floats, Grid, by_key, distinct, first_of_each
from contend.contention.alibi.processes import PROCESS, PROGRAM, THREAD, coded
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean

_BUSY = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns")
_INTERRUPTS = ("irq_ns", "softirq_ns")
_REST = ("idle_ns", "iowait_ns")
MOST_PROCESSES = 20


@dataclass(frozen=True)
class Cores:
    """Shares of each bin by CPU (rows) and bin (columns): busy of what the hypervisor left, stolen, in interrupts.

    waited: share of each bin in which some task waited for a CPU; source: where that comes from, "" unknown.
    """

    numbers: tuple[int, ...]
    busy: Floats
    used: Floats  # CPUs' worth of busy time, by bin
    stolen: Floats
    interrupts: Floats
    waited: Floats
    source: str

    @property
    def full(self) -> Flags:
        full: Flags = self.busy >= limits.BUSY
        return full

    @property
    def all_full(self) -> Flags:
        """Bins in which every core was busy."""
        full = self.full
        all_full: Flags = np.all(full | np.isnan(self.busy), axis=0) & np.any(full, axis=0)
        return all_full


def cores(recording: Recording, grid: Grid) -> Cores | None:
    """Read each CPU's shares of every bin; None where CPUs were not recorded."""
    table = recording.get("cpu")
    if table is None or not len(table["t_ns"]):
        return None
    numbers, busy, used, stolen, interrupts = [], [], [], [], []
    names = [name for name in (*_BUSY, *_REST, "steal_ns") if name in table]
    for cpu, rows in by_key(table["cpu"]):
        counters = np.stack([table[name][rows] for name in names])
        grown = dict(zip(names, grid.grown(table["t_ns"][rows], counters), strict=True))
        of_own = sum(grown[name] for name in _BUSY if name in grown)
        given = of_own + sum(grown[name] for name in _REST if name in grown)
        steal = grown.get("steal_ns", np.zeros(grid.bins))
        with np.errstate(invalid="ignore", divide="ignore"):
            # A core that was stolen from throughout had no time of its own left.
            busy.append(np.where(given > 0, of_own / given, np.where(steal > 0, 1.0, np.nan)))
            stolen.append(steal / (given + steal))
            interrupts.append(sum(grown[name] for name in _INTERRUPTS if name in grown) / given)
        used.append(np.nan_to_num(of_own / grid.widths))
        numbers.append(int(cpu))
    waited, source = _waited(recording, grid, len(numbers))
    return Cores(
        tuple(numbers),
        np.array(busy),
        np.sum(used, axis=0),
        np.array(stolen),
        np.array(interrupts),
        waited,
        source,
    )


def _waited(recording: Recording, grid: Grid, cpus: int) -> tuple[Floats, str]:
    """Share of each bin in which some task was runnable without a CPU, and its source, the best there is."""
    host, delays = recording.get("host") or {}, recording.get("delays")
    if "psi_cpu_some_ns" in host:
        return (
            grid.grown(host["t_ns"], host["psi_cpu_some_ns"]) / grid.widths,
            "table host, psi_cpu_some_ns",
        )
    if delays is not None:
        spent = grid.summed(delays["t_ns"], delays["run_delay_ns"]) / grid.widths
        return np.minimum(spent, 1.0), "table process_use, run_delay_ns"
    if "procs_running" in host:
        # The probe itself runs whenever it counts.
        over = (host["procs_running"] > cpus + 1).astype(np.float64)
        return grid.mean(host["t_ns"], over), "table host, procs_running above the CPUs"
    return np.full(grid.bins, np.nan), ""


def judge_cores(seen: Cores, recording: Recording, grid: Grid, throttled: Floats) -> Judged:
    """Judge whether cores were at their limit, or stolen. throttled: share of each bin in which a cgroup was kept from
    its CPUs.

    The kernel counts a throttled task as waiting for a CPU (PSI and run delay both), so that much is taken off.
    """
    judged = Judged(idle={"cpu": _idle(seen, grid)})
    robbed = np.nan_to_num(seen.stolen).max(axis=0)
    waited = np.maximum(np.nan_to_num(seen.waited) - throttled, 0.0)
    part = seen.full.any(axis=0) & (waited >= limits.CPU_WAIT)
    saturated = seen.all_full | part
    if saturated.any():
        subject = _subject(seen, saturated)
        judged.tracks.append(
            # While a core is stolen the tasks in its queue wait for the hypervisor.
            Track("cpu", subject, saturated, waited * (1 - robbed), _core_measures(seen, recording, grid))
        )
    taken = robbed >= limits.STEAL
    if taken.any():
        which = [
            n
            for n, row in zip(seen.numbers, seen.stolen, strict=True)
            if (np.nan_to_num(row) >= limits.STEAL).any()
        ]
        measures = (
            Measure("time the hypervisor took, worst core", robbed, "fraction", "table cpu, steal_ns"),
            Measure(
                "time the hypervisor took, CPUs in all",
                np.nansum(seen.stolen, axis=0),
                "CPUs",
                "table cpu, steal_ns",
            ),
        )
        waiting = robbed + waited * robbed
        judged.tracks.append(Track("steal", _cpus(which, seen), taken, waiting, measures))
    if not seen.source:
        judged.unknown.append("whether tasks waited for a CPU: no pressure, run delay or run queue recorded")
    _waited_beside_room(seen, recording, grid, np.where(saturated, 0.0, waited), judged)
    return judged


def _waited_beside_room(
    seen: Cores, recording: Recording, grid: Grid, waited: Floats, judged: Judged
) -> None:
    """Tasks that wait although cores have time left: bursts, affinity, or a quota that was not recorded."""
    share = mean(grid, waited)
    if share < limits.CPU_WAIT:
        return
    if recording.get("cgroups") is None and mean(grid, seen.used) < 0.5 * len(seen.numbers):
        judged.blind = True
        judged.unknown.append(
            f"why tasks waited for a CPU {share:.0%} of the time beside idle cores (a quota?): no cgroup table"
        )
    else:
        judged.notes.append(
            f"tasks waited for a CPU {share:.0%} of the time although no core was full: bursts, or tasks kept to few CPUs"
        )


def _idle(seen: Cores, grid: Grid) -> float:
    idle = 1 - mean(grid, seen.used) / len(seen.numbers)
    return round(min(1.0, max(0.0, idle)), 4)


def _core_measures(seen: Cores, recording: Recording, grid: Grid) -> tuple[Measure, ...]:
    measures = [
        Measure("CPUs without time left", seen.full.sum(axis=0).astype(float), "CPUs", "table cpu, idle_ns"),
        Measure("CPUs busy", seen.used, "CPUs", "table cpu, all but idle_ns and iowait_ns"),
    ]
    if seen.source:
        measures.append(
            Measure("time in which some task waited for a CPU", seen.waited, "fraction", seen.source)
        )
    delays = recording.get("delays")
    if delays is not None and "process_use" not in seen.source:
        tasks = grid.summed(delays["t_ns"], delays["run_delay_ns"]) / grid.widths
        measures.append(Measure("tasks waiting, mean", tasks, "tasks", "table process_use, run_delay_ns"))
    return tuple(measures)


def _subject(seen: Cores, saturated: Flags) -> str:
    """The cores that were full in most of the bins."""
    often = seen.full[:, saturated].mean(axis=1) >= 0.5
    return _cpus([n for n, is_ in zip(seen.numbers, often, strict=True) if is_] or list(seen.numbers), seen)


def _cpus(numbers: list[int], seen: Cores) -> str:
    if len(numbers) == len(seen.numbers) > 1:
        return f"all {len(numbers)} CPUs"
    return ("CPU " if len(numbers) == 1 else "CPUs ") + ", ".join(map(str, numbers))


# Threads


def judge_threads(seen: Cores, recording: Recording, grid: Grid, throttled: Floats) -> Judged:
    """Judge whether single threads (of a program, a VM, or interrupts) were busy all the time while cores were idle."""
    judged = Judged()
    room = ~seen.all_full
    _softirq(seen, room, judged)
    table = recording.get("busy")
    if table is None:
        _without_processes(seen, room, grid, judged)
        return judged
    if THREAD not in table:
        table = {**table, **coded(table)}
    which, inside = grid.locate(table["t_ns"])
    for rows in _worth_a_look(table, which, inside, grid, room):
        _process(table, rows, grid, room, throttled, judged)
    _one_after_the_other(table, which, inside, grid, room, judged)
    return judged


def _one_after_the_other(
    table: Mapping[str, Array], which: Array, inside: Flags, grid: Grid, room: Flags, judged: Judged
) -> None:
    """Programs of which no process is full for long, but now this one and now that: the trials of a run, a compiler."""
    threads = table[THREAD] * (int(table[PROGRAM].max(initial=0)) + 1) + table[PROGRAM]
    _, first, thread = first_of_each(threads[inside])
    cells, at = distinct(thread * grid.bins + which[inside])
    bins = cells % grid.bins
    busy = np.bincount(at, table["busiest_thread_ns"][inside], len(cells)) / grid.widths[bins]
    full = (busy >= limits.BUSY) & room[bins]
    # A thread is of one program and one process.
    row = np.flatnonzero(inside)[first[cells // grid.bins]]
    of_program, of_process = table[PROGRAM][row], table[PROCESS][row]
    for number in np.unique(of_program[full]):
        own = full & (of_program == number)
        longest, count = np.unique(of_process[own], return_counts=True)
        name = str(table["name"][row[own][0]])
        together: Floats = np.zeros(grid.bins)
        np.maximum.at(together, bins[own], busy[own])
        track = Track("thread", f"{name} ({len(count)} processes in turn)", together > 0, together, (
            Measure("time on a CPU of its busiest thread", together, "fraction", "table process_use, busiest_thread_ns"),
        ))  # fmt: skip
        alone = count.max() / grid.bins
        if len(longest) > 1 and alone < limits.MAIN_SHARE <= track.share(grid):
            judged.tracks.append(track)


def _worth_a_look(
    table: Mapping[str, Array], which: Array, inside: Flags, grid: Grid, room: Flags
) -> list[Array]:
    """Rows of the processes that may be a limit, those that were full for longest: MOST_PROCESSES of them.

    A day of compiling holds hundreds of thousands, each busy for a bin or two: so sums are made of the bins they were
    in alone.
    """
    _, first_process, process = first_of_each(table[PROCESS])
    _, first_thread, thread = first_of_each(table[THREAD])
    score = np.zeros(len(first_process))
    busy = ("busiest_thread_ns", thread, process[first_thread], limits.BUSY, np.inf)
    turns = ("cpu_ns", process, np.arange(len(score)), limits.TURNS_LEAST, limits.TURNS_MOST)
    for column, key, owner, low, high in (busy, turns):
        cells, at = distinct(key[inside] * grid.bins + which[inside])
        share = np.bincount(at, table[column][inside], len(cells)) / grid.widths[cells % grid.bins]
        full = (share >= low) & (share <= high) & room[cells % grid.bins]
        np.add.at(score, owner[cells[full] // grid.bins], grid.widths[cells[full] % grid.bins])
    best = np.argsort(-score, kind="stable")[:MOST_PROCESSES]
    return [np.flatnonzero(process == number) for number in best if score[number] > 0]


def _process(
    table: Mapping[str, Array], rows: Array, grid: Grid, room: Flags, throttled: Floats, judged: Judged
) -> None:
    t, tid = table["t_ns"][rows], table["busiest_tid"][rows]
    name, pid = str(table["name"][rows[-1]]), int(table["pid"][rows[-1]])
    where = "table process_use, busiest_thread_ns"
    for thread, own in by_key(tid):
        busy = grid.summed(t[own], table["busiest_thread_ns"][rows[own]]) / grid.widths
        saturated = (busy >= limits.BUSY) & room
        if saturated.any():
            measure = Measure("time on a CPU of that thread", busy, "fraction", where)
            program, subject = _thread(name, pid, int(thread))
            judged.tracks.append(Track("thread", subject, saturated, busy, (measure,), program=program))
    together = grid.summed(t, table["cpu_ns"][rows]) / grid.widths
    single = grid.summed(t, table["busiest_thread_ns"][rows]) / grid.widths
    threads = grid.mean(t, table["threads"][rows])
    turns = (together >= limits.TURNS_LEAST) & (together <= limits.TURNS_MOST) & (single < limits.BUSY)
    # Only where cores are idle does using one CPU say anything; a quota of one CPU is another rule.
    free = room & (throttled < limits.THROTTLED)
    turns &= free & (np.nan_to_num(threads) > 1)
    if turns.sum() >= max(limits.TURNS_BINS, limits.TURNS_SHARE * free.sum()):
        measures = (
            Measure("CPUs used by all its threads together", together, "CPUs", "table process_use, user_ns + system_ns"),
            Measure("time on a CPU of its busiest thread", single, "fraction", where),
            Measure("threads", threads, "threads", "table process_use, threads"),
        )  # fmt: skip
        doing = "its threads take turns on one CPU"
        subject, program = f"{name} (pid {pid}): {doing}", f"{name}: {doing}"
        judged.tracks.append(Track("thread", subject, turns, together, measures, program=program))


def _thread(name: str, pid: int, tid: int) -> tuple[str, str]:
    """Whose thread it is, without and with the numbers of process and thread."""
    if name.startswith("ksoftirqd/"):
        softirq = f"softirq on CPU {name.partition('/')[2]} ({name})"
        return softirq, softirq
    if name.startswith(("qemu", "cloud-hyperviso", "firecracker", "kvm")):
        guest = "a vCPU or I/O thread of a virtual machine"
        return guest, f"{guest} ({name}, pid {pid}, thread {tid})"
    return name, f"{name} (pid {pid})" if tid in (pid, 0) else f"{name} (pid {pid}, thread {tid})"


def _softirq(seen: Cores, room: Flags, judged: Judged) -> None:
    for number, busy, interrupts in zip(seen.numbers, seen.full, seen.interrupts, strict=True):
        saturated = busy & (interrupts >= limits.SOFTIRQ) & room
        if saturated.any():
            measure = Measure(
                "time of that core in interrupts", interrupts, "fraction", "table cpu, irq_ns + softirq_ns"
            )
            judged.tracks.append(
                Track("thread", f"softirq on CPU {number}", saturated, interrupts, (measure,))
            )


def _without_processes(seen: Cores, room: Flags, grid: Grid, judged: Judged) -> None:
    """No thread can use more than all CPUs together did; a core that is full without a queue is one thread's."""
    missing = "no process table"
    for number, busy, full in zip(seen.numbers, seen.busy, seen.full, strict=True):
        saturated = full & room & (np.nan_to_num(seen.waited) < limits.CPU_WAIT)
        if saturated.any():
            measure = Measure("time that core was busy", busy, "fraction", "table cpu, idle_ns")
            judged.tracks.append(
                Track("thread", f"one thread on CPU {number} ({missing})", saturated, busy, (measure,))
            )
    hidden = (seen.used >= limits.BUSY) & room & ~seen.full.any(axis=0)
    if np.average(hidden, weights=grid.widths) >= limits.MAIN_SHARE:
        judged.blind = True
        judged.unknown.append(f"whether one thread was the limit: {missing}")
