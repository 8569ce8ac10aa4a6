"""Recordings as `contend sample` writes them, of known content: a burner, a reader and a waiter on two CPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from contend.probes.base import Coded
from contend.probes.series import SeriesWriter
from contend.store.directory import SAMPLE_FILE, RunDirectory

S = 1_000_000_000
BEGAN = 1000 * S
GIB = 2**30
NAMES = ["burn", "read<&>'\"", "wait", "idle"]

ENVIRONMENT = {
    "schema_version": 1,
    "contend": "0.1.0",
    "cpu": "Made CPU",
    "os": "Made Linux 1",
    "cpus": 2,
    "memory_gib": 24.0,
}


def told(seconds: int, **changes: Any) -> dict[str, Any]:
    """sample.json of a recording that ended well."""
    return {
        "schema_version": 1,
        "command": ["make", "-j2", "<all>"],
        "line": "contend sample -i 1000ms -- make -j2 '<all>'",
        "interval_ns": S,
        "sched": "",
        "began_ns": BEGAN,
        "began_utc": "2026-01-02T03:04:05.000+00:00",
        "sources": {"host": "/proc", "processes": "bpf"},
        "notes": [],
        "ended_ns": BEGAN + seconds * S,
        "ended_utc": "2026-01-02T03:04:35.000+00:00",
        "stopped": "the command ended",
        "failed": "",
        "exit": {
            "status": 0,
            "wall_ns": seconds * S,
            "user_ns": 20 * S,
            "system_ns": 2 * S,
            "max_rss_bytes": GIB,
        },
        "cost": {
            "cpu_ns": 30_000_000,
            "samples": seconds + 1,
            "bpf_ns": 0,
            "late_max_ns": 400_000,
            "dropped": 0,
            "errors": 0,
            "last_error": "",
        },
        "own_cpu_ns": 60_000_000,
        **changes,
    }


def made_sample(directory: Path, seconds: int = 30, *, stacks: bool = False, **changes: Any) -> RunDirectory:
    """`seconds` at one sample a second: CPU 0 busy throughout, CPU 1 for the first half; one disk at 1 ms a request.

    `stacks`: with where tasks blocked, and read and wait as the command's processes.
    """
    if stacks:
        changes = {"sched": "process", "stacks": True, "pid": 101} | changes
    directory.mkdir(parents=True)
    run = RunDirectory(directory)
    run.write_text("environment.json", json.dumps(ENVIRONMENT))
    run.write_text(SAMPLE_FILE, json.dumps(told(seconds, **changes)))
    writer = SeriesWriter(run.series)
    writer.add(tables(seconds) | ({"sched_stack": stack_table(seconds)} if stacks else {}))
    writer.close()
    return run


def tables(seconds: int) -> dict[str, Coded]:
    """Everything the probe hands out, for `seconds` + 1 samples."""
    n = np.arange(seconds + 1, dtype="u8")
    t = BEGAN + n * S
    zero = np.zeros_like(n)
    half = np.minimum(n, seconds // 2) * S
    late = np.full_like(n, 200_000)
    late[-1] = 400_000
    host = {
        "t_ns": t,
        "lateness_ns": late,
        "interrupts": 1000 * n,
        "context_switches": 2000 * n,
        "forks": n,
        "procs_running": np.where(n <= seconds // 2, 3, 1).astype("u8"),
        "procs_blocked": zero,
        "mem_total_bytes": np.full_like(n, 24 * GIB),
        "mem_available_bytes": np.full_like(n, 20 * GIB),
        "dirty_bytes": zero,
        "psi_cpu_some_ns": half // 2,
        "psi_io_some_ns": n * (S // 10),
        "psi_memory_some_ns": zero,
    }
    both = np.repeat(t, 2)
    which = np.tile(np.array([0, 1], "u8"), seconds + 1)
    user = np.where(which == 0, np.repeat(n * S, 2), np.repeat(half, 2)).astype("u8")
    nothing = np.zeros_like(user)
    cpu = {"t_ns": both, "lateness_ns": nothing, "cpu": which, "user_ns": user, "nice_ns": nothing}
    cpu |= {"system_ns": nothing, "idle_ns": np.repeat(n * S, 2) - user}
    cpu |= {f"{state}_ns": nothing for state in ("iowait", "irq", "softirq", "steal")}
    requests = 100 * n
    disk = {"t_ns": t, "lateness_ns": zero, "device": zero, "reads": requests, "read_bytes": requests * 4096}
    disk |= {"read_ns": requests * 1_000_000, "writes": zero, "write_bytes": zero, "write_ns": zero}
    disk |= {"in_flight": zero, "busy_ns": n * (S // 10), "queue_ns": n * (S // 10)}
    net = {"t_ns": t, "lateness_ns": zero, "interface": zero}
    net |= {f"{way}_{what}": n * 1000 if what == "bytes" else zero
            for way in ("rx", "tx") for what in ("bytes", "packets", "errors", "dropped")}  # fmt: skip
    return {
        "host": Coded(host, {}),
        "cpu": Coded(cpu, {}),
        "disk": Coded(disk, {"device": ["vda"]}),
        "net": Coded(net, {"interface": ["eth0"]}),
        "process": _process(),
        "process_use": _process_use(t, half),
    }


_READS = "main+0x10;libc.so.6+0x20;do_syscall_64_[k];__x64_sys_read_[k];io_schedule_[k];schedule_[k]"
_LOCKS = "libc.so.6+0x30;do_syscall_64_[k];__x64_sys_futex_[k];futex_wait_[k];schedule_[k]"
STACKS = {
    # name, pid, stack: ns a second, times a second
    (NAMES[1], 101, _READS): (S // 2, 100),
    ("wait", 102, f"0x7f01;0x7f02;{_LOCKS}"): (S // 4, 10),
    ("wait", 102, f"0x7f03;{_LOCKS}"): (S // 8, 5),
    ("idle", 103, "ret_from_fork_[k];kthread_[k];schedule_[k]"): (S, 1),
}


def stack_table(seconds: int) -> Coded:
    """sched_stack: read at its disk, wait at a lock, and idle asleep."""
    count = len(STACKS)
    which = np.tile(np.arange(count, dtype="u8"), seconds)
    ns, times = (np.tile(np.array([v[at] for v in STACKS.values()], "u8"), seconds) for at in (0, 1))
    t = np.repeat(BEGAN + np.arange(1, seconds + 1, dtype="u8") * S, count)
    columns = {"t_ns": t, "subject": which, "stack": which, "off_cpu_ns": ns, "count": times}
    subjects = [f"{name}:{pid}" for name, pid, _ in STACKS]
    return Coded(columns, {"subject": subjects, "stack": [stack for *_, stack in STACKS]})


def _process() -> Coded:
    """`wait` is a child of `read`; the others of init."""
    count = len(NAMES)
    who = np.arange(count, dtype="u8")
    zero = np.zeros_like(who)
    columns = {"t_ns": np.full_like(who, BEGAN), "pid": 100 + who, "start_ns": who + 1}
    columns["ppid"] = np.where(who == 2, 101, 1).astype("u8")
    columns |= {"name": who, "cgroup": zero, "event": zero, "exit_code": zero}
    return Coded(columns, {"name": NAMES, "cgroup": ["/made"]})


def _process_use(t: Any, half: Any) -> Coded:
    """burn: one CPU throughout; wait: the other for the first half, and as long in the run queue; read: 100 pages/s."""
    samples, count = len(t), len(NAMES)
    who = np.tile(np.arange(count, dtype="u8"), samples)
    first = np.repeat(np.arange(samples) == 0, count)
    zero = np.zeros_like(who)
    grew = np.repeat(np.concatenate([[0], np.diff(half.astype("i8"))]).astype("u8"), count)
    user = np.select([who == 0, who == 2], [np.full_like(who, S), grew], 0).astype("u8")
    user[first] = 0
    columns = {"t_ns": np.repeat(t, count), "interval_ns": np.where(first, 0, S).astype("u8")}
    columns |= {"pid": 100 + who, "start_ns": who + 1, "name": who, "cgroup": zero, "threads": zero + 1}
    columns |= {
        "user_ns": user,
        "system_ns": zero,
        "run_delay_ns": np.where(who == 2, user // 2, 0).astype("u8"),
    }
    columns |= dict.fromkeys(("voluntary", "involuntary", "minor_faults", "major_faults"), zero)
    columns |= {"rss_bytes": np.select([who == 0, who == 1], [GIB, GIB // 2], 4096).astype("u8")}
    columns |= {"read_bytes": np.where((who == 1) & ~first, 409_600, 0).astype("u8"), "write_bytes": zero}
    columns |= {"busiest_thread_ns": user, "busiest_tid": 100 + who}
    return Coded(columns, {"name": NAMES, "cgroup": ["/made"]})
