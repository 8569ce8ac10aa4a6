"""One run of another tool: what it is, and why what lies inside it is no replicate."""

from __future__ import annotations

from collections.abc import Mapping

ABOUT: Mapping[str, str] = {
    "fio": (
        "a file is one run of its jobs; requests and --status-interval reports lie inside it. fio keeps a "
        "number of requests outstanding, so its latencies are a closed loop's"
    ),
    "hyperfine": "each time is a run, a process of its own; those of one command come before those of the next",
    "iperf3": "a file is one run; its intervals and streams lie inside it, and its figures are of the whole",
    "jmeter": (
        "a file is one run of each label; its requests lie inside it. A thread sends the next when the last "
        "was answered: a closed loop"
    ),
    "k6": (
        "a file is one run of each scenario; its requests and iterations lie inside it. A request is timed "
        "from when it was sent, not from when it was due: read latencies as a closed loop's"
    ),
    "pgbench": (
        "an output is one run; its transactions and -P lines lie inside it. Without -R its clients wait for "
        "each transaction: a closed loop"
    ),
    "rally": (
        "a workload of a task is one run: its iterations are jobs of one storm, share its queues and its "
        "cloud, and are no replicates. Several tasks are. What Rally waits for by polling holds the pauses "
        "between its polls"
    ),
    "sysbench": (
        "an output is one run; its events and --report-interval lines lie inside it. Without --rate its "
        "threads wait for each event: a closed loop"
    ),
}
