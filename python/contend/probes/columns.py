"""Meaning of the series' tables and columns; docs/reference/series.md is made from it.

A name's ending is its unit: _ns nanoseconds, _bytes bytes, none a count. Every t_ns is CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Mapping

_TIME = {"t_ns": "when the sample was taken"}
_LATE = {**_TIME, "lateness_ns": "how long after its deadline"}
_USE = {
    **_TIME,
    "interval_ns": "time since the sample before: what the changes are over",
    "user_ns": "CPU time in programs",
    "system_ns": "CPU time in the kernel",
}

CUMULATIVE = "counted since boot: subtract two samples"
CHANGES = "changes since the sample before: add them up"

# table: (what it is, {column: what it is})
TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "host": (
        f"The host as a whole, a row a sample; {CUMULATIVE}, where it is no gauge.",
        {
            **_LATE,
            "interrupts": "interrupts served",
            "context_switches": "context switches",
            "forks": "processes and threads begun",
            "procs_running": "gauge: threads that run or want to",
            "procs_blocked": "gauge: threads blocked by disks",
            "mem_total_bytes": "gauge: memory of the host",
            "mem_available_bytes": "gauge: memory that could be had without swapping",
            "dirty_bytes": "gauge: page cache that is not on disk yet",
            "writeback_bytes": "gauge: page cache on its way to disk",
            "swap_total_bytes": "gauge: swap space",
            "swap_free_bytes": "gauge: swap space that is free",
            "swap_in_bytes": "read back from swap",
            "swap_out_bytes": "written to swap",
            "major_faults": "page faults that had to wait for a disk",
            "direct_scans": "pages looked at by tasks that had to free memory themselves",
            "oom_kills": "processes killed for want of memory",
            "tcp_retransmits": "TCP segments sent again",
            "psi_cpu_some_ns": "time in which some task waited for a CPU",
            "psi_cpu_full_ns": "always zero for a host; of the kernel's making",
            "psi_io_some_ns": "time in which some task waited for a disk",
            "psi_io_full_ns": "time in which all of them did",
            "psi_memory_some_ns": "time in which some task waited for memory",
            "psi_memory_full_ns": "time in which all of them did",
        },
    ),
    "cpu": (
        f"Each CPU; {CUMULATIVE}. In steps of 10 ms, the kernel's tick.",
        {
            **_LATE,
            "cpu": "its number",
            "user_ns": "in programs",
            "nice_ns": "in programs of low priority",
            "system_ns": "in the kernel",
            "idle_ns": "idle",
            "iowait_ns": "idle while a task waited for a disk",
            "irq_ns": "in interrupts",
            "softirq_ns": "in soft interrupts",
            "steal_ns": "kept by the hypervisor for others",
        },
    ),
    "disk": (
        f"Each whole block device; {CUMULATIVE}.",
        {
            **_LATE,
            "device": "its name",
            "reads": "read requests that ended",
            "read_bytes": "bytes read",
            "read_ns": "time of those requests, added up",
            "writes": "write requests that ended",
            "write_bytes": "bytes written",
            "write_ns": "time of those requests, added up",
            "in_flight": "gauge: requests waiting or in service",
            "busy_ns": "time with at least one request",
            "queue_ns": "time weighted by the number of requests",
        },
    ),
    "net": (
        f"Each network interface; {CUMULATIVE}.",
        {
            **_LATE,
            "interface": "its name",
            **{f"{way}_{what}": f"{what} {word}" for way, word in (("rx", "received"), ("tx", "sent"))
               for what in ("bytes", "packets", "errors", "dropped")},
        },
    ),
    "qdisc": (
        f"The root queue of each interface that has one; {CUMULATIVE}, but for the backlog.",
        {
            **_TIME,
            "interface": "of which interface",
            "kind": "its discipline: tbf, htb, fq_codel …",
            "sent_bytes": "bytes sent",
            "backlog_bytes": "gauge: bytes that wait",
            "backlog_packets": "gauge: packets that wait",
            "drops": "packets dropped",
            "overlimits": "times that it held packets back",
            "requeues": "packets put back",
        },
    ),
    "process": (
        "A row when a process is first seen, when its name changes (exec), and when it ends.",
        {
            **_TIME,
            "pid": "its number",
            "start_ns": "when it began (CLOCK_BOOTTIME): with pid, it is one process for ever",
            "ppid": "its parent",
            "name": "its name (comm)",
            "cgroup": "its cgroup",
            "event": "0 seen, 1 renamed, 2 ended",
            "exit_code": "its exit code, or 128 and the signal that ended it; -1 where nobody saw how",
        },
    ),
    "process_use": (
        f"Each process that did anything; {CHANGES}. Threads are summed; those that ended are in it.",
        {
            **_USE,
            "pid": "its number",
            "start_ns": "when it began (CLOCK_BOOTTIME)",
            "name": "its name (comm)",
            "cgroup": "its cgroup",
            "threads": "gauge: its threads",
            "run_delay_ns": "time in which its threads were runnable and had no CPU, added up",
            "voluntary": "context switches to wait for something",
            "involuntary": "context switches because others were to run",
            "minor_faults": "page faults without a disk",
            "major_faults": "page faults that had to wait for a disk",
            "rss_bytes": "gauge: resident memory",
            "read_bytes": "bytes it had read from disks; by /proc also those of children it has waited for",
            "write_bytes": "bytes it had written to disks; as read_bytes",
            "busiest_thread_ns": "CPU time of its busiest thread",
            "busiest_tid": "which thread that was",
        },
    ),
    "cgroup_use": (
        f"Each cgroup that did anything; {CHANGES}.",
        {
            **_USE,
            "cgroup": "its path; / is the root, empty where nobody could tell any more",
            "throttled_ns": "time in which a CPU quota held it back: its own, or that of a group above",
            "throttled_periods": "periods in which it did",
            "periods": "periods of the quota",
            "psi_cpu_some_ns": "time in which some task of it waited for a CPU",
            "psi_io_some_ns": "… for a disk",
            "psi_memory_some_ns": "… for memory",
            "memory_bytes": "gauge: its memory",
            "memory_limit_bytes": "gauge: its limit, 0 none",
            "read_bytes": "bytes read from disks",
            "write_bytes": "bytes written to disks",
            "disk_read_bytes": "bytes of requests to disks, by the io controller (v1: blkio), those of groups "
            "below included; 0 where it is off, and with v1 from Linux 6.10 on for a disk on which no limit was ever set",
            "disk_write_bytes": "… written, with what the kernel wrote back for it later",
            "processes": "gauge: its processes",
        },
    ),
    "sched_hist": (
        f"How long tasks ran, were off a CPU and waited for one; {CHANGES}. With `--sched`, where BPF works.",
        {
            **_TIME,
            "subject": "whose: name:pid, a cgroup's path, or name:pid/thread:tid; (others) beyond some thousands",
            "kind": "on_cpu: up to a switch away; off_cpu: until the next time on one; run_queue: the part of that in "
            "which it was runnable",
            "bucket_ns": "shortest time of the bucket: 0, or from 128 ns on four buckets to each doubling",
            "count": "how many times were that long; each counts when it ends",
        },
    ),
    "sched_total": (
        f"The same added up, to the nanosecond; {CHANGES}.",
        {
            **_TIME,
            "subject": "whose",
            "on_cpu_ns": "time on a CPU",
            "off_cpu_ns": "time off a CPU, waiting for one included",
            "run_queue_ns": "time in which it was runnable and had no CPU",
            "switches": "times on a CPU that ended",
            "migrations": "times on another CPU than the one before",
        },
    ),
    "sched_stack": (
        f"Where tasks were when they blocked; {CHANGES}. With `--off-cpu-stacks`, where BPF works.",
        {
            **_TIME,
            "subject": "whose",
            "stack": "its calls, the outermost first, semicolons between them: FILE+OFFSET of a program or library, "
            "NAME_[k] in the kernel",
            "off_cpu_ns": "time until it ran again, waiting for a CPU included; it counts when it ends",
            "count": "how many times",
        },
    ),
    "blame": (
        f"Who waited for whom, by `contend watch -o`; {CHANGES}. A wait counts when it ends. See docs/concepts/blame.md.",
        {
            **_TIME,
            "resource": "cpu or disk",
            "victim": "who waited: a cgroup's path, or name:pid",
            "culprit": "who had the CPU meanwhile, or whose requests were ahead; in parentheses where it was nobody",
            "wait_ns": "time that it cost the victim",
            "waits": "how many waits it had a part in",
        },
    ),
    "blame_total": (
        f"What each waited and used in all; {CHANGES}. A victim's rows of blame sum to its `wait_ns`.",
        {
            **_TIME,
            "resource": "cpu or disk",
            "victim": "who",
            "wait_ns": "time it waited: on CPU the kernel's run delay",
            "waits": "how many waits ended",
            "used_ns": "time it was on a CPU, or its own part of the service of its disk requests",
        },
    ),
}  # fmt: skip


def reference_page() -> str:
    """docs/reference/series.md."""
    parts = [
        "# Series",
        "",
        "Generated from the code by `make docs`. What `contend run`, `sample` and `watch -o` record beside what they",
        "measure: the files `series/TABLE-*.parquet` of a run, and tables of `contend sql`. A name's ending is its",
        "unit: `_ns` nanoseconds, `_bytes` bytes, none a count. Every `t_ns` is CLOCK_MONOTONIC. A column is absent",
        "where the kernel does not tell it; a file `TABLE-0000-0031.parquet` holds what `TABLE-0000.parquet` to",
        "`TABLE-0031.parquet` held.",
        "",
    ]
    for table, (about, columns) in TABLES.items():
        parts += [f"## {table}", "", about, "", "| column | |", "|---|---|"]
        parts += [f"| {column} | {text} |" for column, text in columns.items()]
        parts.append("")
    return "\n".join(parts)
