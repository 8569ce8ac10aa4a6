"""For tests of what is recorded of processes: a worker of known deeds, and sums of the rows about it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from contend.probes.client import Drained, ProbeProcess
from support.command_line import wait_for

WORKER = Path(__file__).with_name("worker.py")
CROWD = Path(__file__).with_name("crowd.py")
INTERVAL_MS = 40
# Every source tells these; CPU time is user_ns + system_ns.
COUNTERS = ("voluntary", "involuntary", "minor_faults", "major_faults", "read_bytes")


class Worker:
    """worker.py, asleep but when told to work."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-S", str(WORKER)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.end()

    def do(self, work: str) -> dict[str, int]:
        """Its figures since its begin, once it has done that."""
        self.start(work)
        return self.done()

    def start(self, work: str) -> None:
        """Let it begin; it is not waited for until `done`."""
        assert self._process.stdin is not None
        self._process.stdin.write(work + "\n")
        self._process.stdin.flush()

    def done(self) -> dict[str, int]:
        """What `start` told it is done: its figures since its begin."""
        assert self._process.stdout is not None
        figures: dict[str, int] = json.loads(self._process.stdout.readline())
        return figures

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


class Recording:
    """contend-probe recording processes by one source; rows gather until `finish`."""

    def __init__(self, source: str, **config: Any) -> None:
        asked = {"interval_ms": INTERVAL_MS, "processes": True, "source": source, **config}
        self._interval_s = asked["interval_ms"] / 1000
        self._probe = ProbeProcess(asked)
        self._drained: list[Mapping[str, Mapping[str, Any]]] = []
        self.notes = self._probe.notes
        self.sources = self._probe.sources

    def settle(self) -> None:
        """Let two samples pass: what was done before is in them. One that is under way may have begun before."""
        if self._interval_s > 1:
            time.sleep(0.1)  # the last one is taken at the end, and this is for what the kernel still adds up
            return
        enough = self._samples() + 3
        wait_for(lambda: self._samples() >= enough, "two samples", interval_s=self._interval_s / 2)

    def wait_for(self, condition: Callable[[Rows], object], what: str) -> None:
        """Record until it holds of the rows so far."""
        wait_for(lambda: condition(self._so_far(self._probe.drain())), what, interval_s=self._interval_s)

    def finish(self) -> Rows:
        self.settle()
        return self._so_far(self._probe.stop())

    def _samples(self) -> int:
        drained = self._probe.drain()
        self._so_far(drained)
        return drained.cost.samples

    def _so_far(self, drained: Drained) -> Rows:
        """All rows since the begin."""
        self._drained.append(drained.tables)
        joined = {
            name: {column: np.concatenate([part[name][column] for part in self._drained]) for column in table}
            for name, table in drained.tables.items()
        }
        self._drained = [joined]
        return Rows(joined, drained.cost)


class Rows:
    """The tables, and questions to them."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]], cost: Any) -> None:
        self.tables = tables
        self.cost = cost

    def of(self, pid: int, table: str = "process_use") -> dict[str, Any]:
        """The rows of one process, by column."""
        rows = self.tables[table]
        here = rows["pid"] == pid
        return {name: values[here] for name, values in rows.items()}

    def did(self, pid: int) -> dict[str, int]:
        """What one process did in all."""
        rows = self.of(pid)
        sums = {name: int(rows[name].sum()) for name in (*COUNTERS, "run_delay_ns", "write_bytes")}
        return {"cpu_ns": int(rows["user_ns"].sum() + rows["system_ns"].sum()), **sums}

    def events(self, pid: int) -> list[tuple[int, str, int]]:
        """(event, name, exit_code) in order; an unknown code is -1."""
        rows = self.of(pid, "process")
        codes = rows["exit_code"].astype(np.int64)
        return [
            (int(event), str(name), int(code))
            for event, name, code in zip(rows["event"], rows["name"], codes, strict=True)
        ]


class Crowd:
    """crowd.py: many children, there when this returns, and held at their gate."""

    def __init__(self, count: int, work: str, seconds: float = 0) -> None:
        words = (sys.executable, "-S", str(CROWD), str(count), work, str(seconds))
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        assert self._line() == "there"

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.end()

    def go(self) -> None:
        """Past the gate: those that burn have done so and stand still then, those that exit have."""
        self._tell()
        assert self._line() == "past"

    def end(self) -> dict[str, Any]:
        """End them all. Their pids, and what they used together by the kernel's sum of a parent's children."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tell()
        self._tell()
        lines = self._process.stdout.read().splitlines()
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        told: dict[str, Any] = json.loads(lines[-1])
        return told

    def _tell(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
