"""Series made up from a known truth, as the probe would record them: ticks of 10 ms, late samples, a little noise.

A `Host` is quiet; each `load` adds something to a range of time. `tables()` gives the tables as ProbeProcess does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contend.probes.base import Coded
from contend.probes.series import SeriesWriter

TICK_NS = 10_000_000
ORIGIN_NS = 7_000_000_000_000
MS = 1_000_000


def coded(table: dict[str, Any]) -> Coded:
    """A table as the probe's client hands it on: columns of names as positions in a list of them."""
    columns, names = dict(table), {}
    for column, values in table.items():
        if values.dtype == object:
            names[column], columns[column] = np.unique(values.astype(str), return_inverse=True)
    return Coded(columns, names)


@dataclass
class Thread:
    """One process that uses `cpu` CPUs while it runs, its busiest thread `busiest` of one."""

    name: str
    pid: int
    cpu: float
    busiest: float
    threads: int = 1
    cgroup: str = "/"
    run_delay: float = 0.0


@dataclass
class Load:
    """What is there from `start` to `end` (s). Shares are of the time; rates are a second."""

    start: float
    end: float
    cores: Sequence[float] = ()  # busy share by core, in user mode
    softirq: Sequence[float] = ()
    steal: Sequence[float] = ()
    cpu_wait: float = 0.0
    io_wait: float = 0.0
    memory_wait: float = 0.0
    threads: Sequence[Thread] = ()
    reads: float = 0.0
    read_ns: float = 0.0  # a request
    read_bytes: float = 4096.0
    sent: float = 0.0
    backlog: float = 0.0  # packets, while the queue stands
    standing: float = 0.0  # share of samples at which it does
    overlimits: float = 0.0
    cgroup: str = ""
    throttled: float = 0.0  # CPUs
    throttled_periods: float = 0.0  # of all periods
    limit_bytes: float = 0.0
    memory_bytes: float = 0.0
    group_reads: float = 0.0  # bytes
    group_io_wait: float = 0.0
    swap_in: float = 0.0
    direct_scans: float = 0.0
    oom_kills: float = 0.0


@dataclass
class Host:
    cpus: int = 4
    seconds: float = 20.0
    interval: float = 0.25
    seed: int = 1
    noise: float = 0.03  # busy share of an otherwise idle core
    loads: list[Load] = field(default_factory=list)

    def load(self, start: float, end: float, **what: Any) -> Host:
        self.loads.append(Load(start, end, **what))
        return self

    def span(self, start: float, end: float) -> tuple[int, int]:
        """A range of seconds as CLOCK_MONOTONIC."""
        return ORIGIN_NS + int(start * 1e9), ORIGIN_NS + int(end * 1e9)

    def tables(self) -> dict[str, dict[str, Any]]:
        self.rng = np.random.default_rng(self.seed)
        n = int(self.seconds / self.interval) + 1
        late = self.rng.exponential(0.001, n)
        self.at = np.arange(n) * self.interval + np.minimum(late, self.interval / 3)
        self.t = (ORIGIN_NS + self.at * 1e9).astype(np.uint64)
        made = {
            "cpu": self._cpu(), "host": self._host(), "disk": self._disk(), "net": self._net(),
            "qdisc": self._qdisc(), "process_use": self._processes(), "cgroup_use": self._cgroups(),
        }  # fmt: skip
        return {
            name: {
                column: values if values.dtype == object else np.maximum(values, 0).astype(np.uint64)
                for column, values in table.items()
            }
            for name, table in made.items()
        }

    # Pieces

    def grown(self, rate: Any, *, noise: float = 0.0) -> Any:
        """Cumulative from a rate: of a load (its attribute's name), or a function of a load; noise is added a second."""
        total = np.zeros(len(self.at))
        for load in self.loads:
            a_second = rate(load) if callable(rate) else getattr(load, rate)
            if a_second:
                total += a_second * np.clip(self.at - load.start, 0, load.end - load.start)
        steps = np.diff(self.at, prepend=self.at[0])
        if noise:
            total += np.cumsum(self.rng.gamma(2, noise / 2, len(steps)) * steps)
        return total

    def _cpu(self) -> dict[str, Any]:
        parts: dict[str, list[Any]] = {}
        for cpu in range(self.cpus):

            def of(column: str, cpu: int = cpu) -> Any:
                return lambda load: (list(getattr(load, column)) + [0.0] * self.cpus)[cpu]

            user = self.grown(of("cores"), noise=self.noise)
            softirq, steal = self.grown(of("softirq")), self.grown(of("steal"))
            elapsed = self.at - self.at[0]
            # Noise takes from idle time, never more than there is.
            user = np.minimum(user, elapsed - softirq - steal)
            user = np.maximum.accumulate(user)
            idle = np.maximum.accumulate(elapsed - user - softirq - steal)
            columns = {"user_ns": user, "softirq_ns": softirq, "steal_ns": steal, "idle_ns": idle}
            rows = {k: np.floor((v + 100) * 1e9 / TICK_NS) * TICK_NS for k, v in columns.items()}
            rows |= {
                k: np.full(len(self.at), TICK_NS) for k in ("nice_ns", "system_ns", "iowait_ns", "irq_ns")
            }
            rows |= {"t_ns": self.t, "cpu": np.full(len(self.at), cpu)}
            for column, values in rows.items():
                parts.setdefault(column, []).append(values)
        return {column: np.concatenate(values) for column, values in parts.items()}

    def _host(self) -> dict[str, Any]:
        running = 1 + sum(
            ((self.at >= o.start) & (self.at < o.end)) * (sum(o.cores) + 4 * o.cpu_wait) for o in self.loads
        )
        return {
            "t_ns": self.t,
            "procs_running": np.asarray(running + np.zeros(len(self.at))),
            "psi_cpu_some_ns": 1e9 * self.grown("cpu_wait", noise=0.02),
            "psi_io_some_ns": 1e9 * self.grown("io_wait", noise=0.005),
            "psi_memory_some_ns": 1e9 * self.grown("memory_wait"),
            "mem_available_bytes": np.full(len(self.at), 12e9),
            "mem_total_bytes": np.full(len(self.at), 16e9),
            "swap_in_bytes": self.grown("swap_in"),
            "swap_out_bytes": self.grown("swap_in"),
            "major_faults": self.grown("swap_in") / 4096,
            "direct_scans": self.grown("direct_scans"),
            "oom_kills": np.floor(self.grown("oom_kills")),
            "tcp_retransmits": np.zeros(len(self.at)),
        }

    def _disk(self) -> dict[str, Any]:
        # A daemon writes a little, at 0.2 ms a request; reads come now and then at 0.1 ms.
        quiet_reads, quiet_writes = self.grown(lambda _: 0, noise=30), self.grown(lambda _: 0, noise=20)
        reads = quiet_reads + self.grown("reads")
        read_ns = quiet_reads * 0.1 * MS + self.grown(lambda load: load.reads * load.read_ns)
        write_ns = quiet_writes * 0.2 * MS
        busy = self.grown(lambda load: min(1.0, load.reads * load.read_ns / 1e9)) * 1e9
        zeros = np.zeros(len(self.at))
        return {
            "t_ns": self.t, "device": np.full(len(self.at), "vda", dtype=object), "reads": reads, "read_ns": read_ns,
            "read_bytes": quiet_reads * 4096 + self.grown(lambda o: o.reads * o.read_bytes),
            "writes": quiet_writes, "write_ns": write_ns, "write_bytes": quiet_writes * 4096, "in_flight": zeros,
            "busy_ns": busy + quiet_reads * 0.1 * MS, "queue_ns": read_ns + write_ns,
        }  # fmt: skip

    def _net(self) -> dict[str, Any]:
        sent = self.grown("sent", noise=20_000)
        return {
            "t_ns": self.t, "interface": np.full(len(self.at), "eth0", dtype=object),
            "rx_bytes": sent / 50, "tx_bytes": sent,
        }  # fmt: skip

    def _qdisc(self) -> dict[str, Any]:
        backlog = np.zeros(len(self.at))
        for load in self.loads:
            inside = (self.at > load.start) & (self.at <= load.end)
            backlog += inside * (self.rng.random(len(self.at)) < load.standing) * load.backlog
        zeros = np.zeros(len(self.at))
        return {
            "t_ns": self.t, "interface": np.full(len(self.at), "eth0", dtype=object),
            "kind": np.full(len(self.at), "tbf", dtype=object), "sent_bytes": self.grown("sent", noise=20_000),
            "backlog_bytes": backlog * 1500, "backlog_packets": backlog, "drops": zeros,
            "overlimits": self.grown("overlimits"), "requeues": zeros,
        }  # fmt: skip

    def _processes(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        steps = np.diff(self.at)
        for number, step in enumerate(steps):
            now = self.at[number + 1]
            for load in self.loads:
                share = np.clip(now - load.start, 0, step) - np.clip(now - load.end, 0, step)
                if share <= 0:
                    continue
                rows += [self._row(self.t[number + 1], step, share, thread) for thread in load.threads]
            rows.append(self._row(self.t[number + 1], step, step, Thread("systemd", 1, 0.01, 0.01)))
        columns = list(rows[0])
        return {
            c: np.array([r[c] for r in rows], dtype=object if c in ("name", "cgroup") else np.float64)
            for c in columns
        } | {"t_ns": np.array([r["t_ns"] for r in rows], dtype=np.uint64)}

    def write(self, directory: Path, parents: dict[int, int] | None = None) -> None:
        """The tables as a run's series, and a table of processes with these parents (else 1), all seen at first."""
        writer, tables = SeriesWriter(directory), self.tables()
        used = tables["process_use"]
        pids, first = np.unique(used["pid"], return_index=True)
        ppids = [(parents or {}).get(int(pid), 1) for pid in pids]
        n = len(pids)
        tables["process"] = {
            "t_ns": used["t_ns"][first], "pid": pids, "start_ns": used["start_ns"][first],
            "ppid": np.array(ppids, dtype=np.uint64), "name": used["name"][first], "cgroup": used["cgroup"][first],
            "event": np.zeros(n, dtype=np.uint64), "exit_code": np.zeros(n, dtype=np.uint64),
        }  # fmt: skip
        writer.add({name: coded(table) for name, table in tables.items()})
        writer.close()

    def _row(self, t: Any, step: float, share: float, thread: Thread) -> dict[str, Any]:
        used = share * 1e9
        return {
            "t_ns": t, "interval_ns": step * 1e9, "pid": thread.pid, "start_ns": 1, "name": thread.name,
            "cgroup": thread.cgroup, "threads": thread.threads, "user_ns": used * thread.cpu, "system_ns": 0,
            "run_delay_ns": used * thread.run_delay, "read_bytes": 0, "write_bytes": 0,
            "busiest_thread_ns": used * thread.busiest, "busiest_tid": thread.pid + (thread.threads > 1),
        }  # fmt: skip

    def _cgroups(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for number, step in enumerate(np.diff(self.at)):
            now = self.at[number + 1]
            for load in self.loads:
                share = np.clip(now - load.start, 0, step) - np.clip(now - load.end, 0, step)
                if share > 0 and load.cgroup:
                    rows.append({
                        "t_ns": self.t[number + 1], "interval_ns": step * 1e9, "cgroup": load.cgroup,
                        "throttled_ns": share * 1e9 * load.throttled,
                        "periods": 1000 * share, "throttled_periods": 1000 * share * load.throttled_periods,
                        "psi_memory_some_ns": share * 1e9 * load.memory_wait, "read_bytes": share * load.group_reads,
                        "psi_io_some_ns": share * 1e9 * load.group_io_wait,
                        "memory_bytes": load.memory_bytes, "memory_limit_bytes": load.limit_bytes,
                    })  # fmt: skip
        names = ("t_ns", "interval_ns", "cgroup", "throttled_ns", "periods", "throttled_periods", "psi_memory_some_ns",
                 "psi_io_some_ns", "read_bytes", "memory_bytes", "memory_limit_bytes")  # fmt: skip
        return {
            c: np.array([r[c] for r in rows], dtype=object if c == "cgroup" else np.float64) for c in names
        }
