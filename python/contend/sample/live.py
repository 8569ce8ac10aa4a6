"""The line on stderr while a recording goes on. On a terminal of our own it is redrawn every second; elsewhere, and
beside a command that may be drawing there itself, a line every ten seconds."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, TextIO

from contend.clock import Clock, SystemClock
from contend.probes.base import Cost
from contend.text.safe import safe
from contend.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from contend.probes.client import Drained

REDRAWN_S, LINES_S = 1.0, 10.0
_BUSY = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns")
_PRESSURES = {"psi_cpu_some_ns": "cpu", "psi_io_some_ns": "io", "psi_memory_some_ns": "mem"}


class Quiet:
    """A live view that shows only what went wrong."""

    every_s = LINES_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, drained: Drained, cost: Cost) -> None: ...

    def warn(self, text: str) -> None:
        self._write(f"warning: {safe(text)}\n")

    def finished(self) -> None: ...

    def _write(self, text: str) -> None:
        """A closed stderr must not end a recording."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            return


class Line(Quiet):
    """A live view of one line. `redraw`: the terminal is ours alone."""

    def __init__(self, stream: TextIO, *, redraw: bool, clock: Clock | None = None) -> None:
        super().__init__(stream)
        self._redraw = redraw
        self.every_s = REDRAWN_S if redraw else LINES_S
        self._clock = clock or SystemClock()
        self._began_ns = self._shown_ns = self._clock.monotonic_ns()
        self._now = Now()
        self._drawn = False

    def show(self, drained: Drained, cost: Cost) -> None:
        self._now.take(drained, cost)
        now, words = self._clock.monotonic_ns(), safe(self._now.words())
        if not words or now - self._shown_ns < 0.9 * self.every_s * NS_PER_S:
            return
        self._shown_ns = now
        seconds = round((now - self._began_ns) / NS_PER_S)
        text = f" {format_duration(seconds * NS_PER_S) if seconds else '0 s'}  {words}"
        if self._redraw:
            width = shutil.get_terminal_size().columns - 1
            self._write("\r\x1b[2K" + (text if len(text) <= width else text[: width - 1] + "…"))
            self._drawn = True
        else:
            self._write(text.rstrip() + "\n")
        self._now.shown()

    def warn(self, text: str) -> None:
        self.finished()
        super().warn(text)

    def finished(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False


class Now:
    """Rates since the line before, from rows as they come."""

    def __init__(self) -> None:
        self._first: dict[str, dict[str, float]] = {}  # counters when the line before was shown
        self._last: dict[str, dict[str, float]] = {}
        self._used: dict[str, float] = {}  # CPU time by name since then
        self._cost = (Cost(0, 0), Cost(0, 0))
        self._running: list[float] = []

    def take(self, drained: Drained, cost: Cost) -> None:
        """Add the rows of one drain."""
        self._cost = (self._cost[0], cost)
        tables = {name: table for name, table in drained.tables.items() if len(table["t_ns"])}
        if "host" in tables:
            self._keep(
                "host",
                {c: float(tables["host"][c][-1]) for c in (*_PRESSURES, "t_ns") if c in tables["host"]},
            )
            self._running += [float(v) for v in tables["host"]["procs_running"]]
        if "cpu" in tables:
            rows = tables["cpu"]
            latest = rows["t_ns"] == rows["t_ns"][-1]
            busy = float(sum(int(rows[c][latest].sum()) for c in _BUSY))
            self._keep("cpu", {"busy": busy, "cpus": float(latest.sum())})
        if "disk" in tables:
            self._keep("disk", _latest(tables["disk"], "device", "queue_ns"))
        if "process_use" in tables:
            rows = tables["process_use"]
            for name, used in zip(rows["name"], rows["user_ns"] + rows["system_ns"], strict=True):
                self._used[name] = self._used.get(name, 0.0) + float(used)

    def _keep(self, what: str, values: dict[str, float]) -> None:
        self._first.setdefault(what, values)
        self._last[what] = values

    def shown(self) -> None:
        """Begin the next line's rates here."""
        self._first = dict(self._last)
        self._used, self._running = {}, []
        self._cost = (self._cost[1], self._cost[1])

    def words(self) -> str:
        """CPUs in use, threads in the run queue, pressure, the program that used most, the disk with the longest
        queue, our own cost; parts that are not known are left out, all before the second sample."""
        spent_ns = self._grown("host", "t_ns")
        if spent_ns <= 0:
            return ""
        parts = []
        if "cpu" in self._last:
            busy = self._grown("cpu", "busy") / spent_ns
            parts.append(f"CPU {busy:.2f}/{self._last['cpu']['cpus']:.0f}")
        if self._running:
            parts.append(f"queue {sum(self._running) / len(self._running):.1f}")
        waits = [
            f"{name} {100 * self._grown('host', column) / spent_ns:.0f}"
            for column, name in _PRESSURES.items()
            if column in self._last["host"]
        ]
        if waits:
            parts.append(f"PSI {' '.join(waits)} %")
        queues = {d: self._grown("disk", d) / spent_ns for d in self._last.get("disk", {})}
        if queues:
            device = max(queues, key=lambda d: queues[d])
            parts.append(f"{device} {queues[device]:.1f}")
        own = self._cost[1].cpu_ns + self._cost[1].bpf_ns - self._cost[0].cpu_ns - self._cost[0].bpf_ns
        parts.append(f"probe {100 * own / spent_ns:.1f} %")
        if self._used:
            name = max(self._used, key=lambda n: self._used[n])
            parts.append(f"{name} {self._used[name] / spent_ns:.2f}")
        return "  ".join(parts)

    def _grown(self, what: str, key: str) -> float:
        last, first = self._last.get(what, {}), self._first.get(what, {})
        return last.get(key, 0.0) - first.get(key, last.get(key, 0.0))


def _latest(rows: Any, key: str, column: str) -> dict[str, float]:
    """The last value of a column by its key; rows come in the order of time."""
    return {str(name): float(value) for name, value in zip(rows[key], rows[column], strict=True)}
