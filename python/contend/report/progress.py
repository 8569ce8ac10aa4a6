"""Live progress on stderr, with an honest estimate of the time left.

The line is redrawn only when something happens, never by a timer: a thread that wakes up four times a second
would be a neighbour of the very trial it reports on. Without a terminal there is one line a block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from contend.clock import Clock, SystemClock
from contend.text.safe import safe, safe_console
from contend.units import NS_PER_S, format_duration, ratio_parts

if TYPE_CHECKING:
    from rich.console import Console

    from contend.document import CellResult

BAR = 28
PREPARING = "preparing inputs"  # the last of what a run first says of itself
LEAST_BAR = 8
LIVE_AFTER_NS = 20 * NS_PER_S
"""Shorter runs are over before anybody reads more than a line."""
LIVE_BAR = 12
MOST_LIVE = 12
DECIDED = frozenset({"higher", "lower", "unaffected"})
SLACK = 20  # trials beyond the announced ones that leave the estimate as it is


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The trials ahead. `cells` are the cell ids of the trials still to run, in their order, pilot included.

    `blocks` counts the counted blocks of the plan. `budget_ns` is the wall time after which the run stops
    even when trials are left, None without a budget. `resumed` blocks are done already.
    """

    title: str
    cells: tuple[str, ...]
    blocks: int
    budget_ns: int | None = None
    resumed: int = 0


class Progress(Protocol):
    """The interface by which the orchestrator reports its progress. Every call returns at once and never raises."""

    def started(self, plan: PlanSummary) -> None: ...
    def replanned(self, plan: PlanSummary) -> None:
        """Replace the plan, for example after the pilot; durations learnt so far stay."""

    def trial(self, cell: str, label: str) -> None:
        """Report that a trial begins. cell: its id; label: words for people, like `ffmpeg beside stress-cpu`."""

    def result(self, cell: str, value: str) -> None:
        """Report that the trial ended. value: its headline figure as text, like `2.13 s`, or `failed`."""

    def block(self, number: int) -> None:
        """Report that counted block `number` (from 1) begins; 0 is the pilot."""

    def preparing(self, number: int, of: int, what: str, left_s: float) -> None:
        """Report that preparing step `number` of `of` begins. left_s: expected seconds of it and all after it, 0 for
        unknown."""

    def note(self, text: str) -> None:
        """Print a line that stays: a failed trial, a flag, the next look at the precision."""

    @property
    def wants_comparisons(self) -> bool:
        """True if `comparisons` shows anything: they take a moment to make."""

    def comparisons(self, cells: Sequence[CellResult]) -> None:
        """Show the headline comparisons as they stand after a block."""

    def finished(self) -> None: ...


class TimeLeft:
    """How long the rest takes: mean duration of the finished trials of each cell, times those still to run.

    Durations reach from one trial's end to the next one's end, so the time between trials (reset, washout,
    analysis) is in them. Where a budget ends the run first, what is left of the budget is the answer.
    """

    def __init__(self, plan: PlanSummary, clock: Clock) -> None:
        self._clock = clock
        self._left = Counter(plan.cells)
        self._spent: dict[str, tuple[int, int]] = {}  # cell: trials done, their time
        self._budget_ns = plan.budget_ns
        self._began_ns = self._last_ns = clock.monotonic_ns()

    def replan(self, plan: PlanSummary) -> None:
        """Replace the trials to come. The budget still counts from the start."""
        self._left = Counter(plan.cells)
        self._budget_ns = plan.budget_ns

    def ended(self, cell: str) -> None:
        now = self._clock.monotonic_ns()
        count, spent = self._spent.get(cell, (0, 0))
        self._spent[cell] = (count + 1, spent + now - self._last_ns)
        self._last_ns = now
        self._left[cell] -= 1

    @property
    def elapsed_ns(self) -> int:
        return self._clock.monotonic_ns() - self._began_ns

    def left_ns(self) -> int | None:
        """Expected nanoseconds; None before the first trial has ended. A cell that has not run yet counts as the mean
        cell."""
        planned: float | None = None
        # A pilot may take a few rounds more than announced. Many more trials than announced: the plan is not
        # what it was, so only the budget is known.
        unannounced = -sum(count for count in self._left.values() if count < 0)
        if self._spent and unannounced <= SLACK:
            means = {cell: spent / count for cell, (count, spent) in self._spent.items()}
            typical = sum(means.values()) / len(means)
            in_flight = self._clock.monotonic_ns() - self._last_ns
            planned = max(
                0.0, sum(n * means.get(cell, typical) for cell, n in self._left.items()) - in_flight
            )
        if self._budget_ns is None:
            return None if planned is None else round(planned)
        budget = max(0, self._budget_ns - self.elapsed_ns)
        return budget if planned is None else min(budget, round(planned))

    def share(self) -> float | None:
        """Part of the whole time that has gone, 0–1."""
        left = self.left_ns()
        if left is None:
            return None
        whole = self.elapsed_ns + left
        return self.elapsed_ns / whole if whole else 1.0


class NoProgress:
    """Progress that prints nothing: for `--quiet` and for tests."""

    wants_comparisons = False

    def comparisons(self, cells: Sequence[CellResult]) -> None: ...
    def started(self, plan: PlanSummary) -> None: ...
    def replanned(self, plan: PlanSummary) -> None: ...
    def trial(self, cell: str, label: str) -> None: ...
    def result(self, cell: str, value: str) -> None: ...
    def block(self, number: int) -> None: ...
    def preparing(self, number: int, of: int, what: str, left_s: float) -> None: ...
    def note(self, text: str) -> None: ...
    def finished(self) -> None: ...


class ConsoleProgress:
    """The line for people. On a terminal it is redrawn in place; elsewhere each block prints one line."""

    def __init__(self, console: Console, clock: Clock | None = None) -> None:
        self._console = console
        self._clock = clock or SystemClock()
        self._live = console.is_terminal and not console.is_dumb_terminal
        self._plan = PlanSummary("", (), 0)
        self._time = TimeLeft(self._plan, self._clock)
        self._block = 0
        self._label = ""
        self._value = ""
        self._before = ""
        self._drawn = 0  # lines
        self._so_far: list[str] = []
        self._decided = False
        self._trials = False  # before the first one the line is that of the preparing

    def started(self, plan: PlanSummary) -> None:
        self._plan = plan
        self._time = TimeLeft(plan, self._clock)
        self._block = plan.resumed
        if plan.title:
            self._print(plan.title)

    def replanned(self, plan: PlanSummary) -> None:
        self._plan = plan
        self._time.replan(plan)

    def trial(self, cell: str, label: str) -> None:
        if self._value:  # a figure stands beside its own trial's name
            self._before, self._value = f"({self._label}: {self._value})", ""
        self._label, self._trials = label, True
        self._draw()

    def result(self, cell: str, value: str) -> None:
        self._time.ended(cell)
        self._value, self._before = value, ""
        self._draw()

    def block(self, number: int) -> None:
        self._block = number
        if not self._live:
            self._print(self.line(bar=False))

    def preparing(self, number: int, of: int, what: str, left_s: float) -> None:
        elapsed_s = self._time.elapsed_ns / NS_PER_S
        so_far = f"{_whole(elapsed_s)} so far" if elapsed_s >= 1 else ""
        left = f"about {_whole(left_s)} left" if left_s >= 1 else ""
        text = "  ".join(part for part in (f" preparing {number}/{of}", what, so_far, left) if part)
        if not self._live:
            self._print(text)
            return
        self._erase()
        self._write(safe(text)[: self._console.width - 1])
        self._drawn = 1

    def note(self, text: str) -> None:
        self._print(f" {text}")
        if self._trials:
            self._draw()

    @property
    def wants_comparisons(self) -> bool:
        return self._live and self._time.elapsed_ns >= LIVE_AFTER_NS

    def comparisons(self, cells: Sequence[CellResult]) -> None:
        """Show them above the line, those with an interval, the largest effects first."""
        known = [cell for cell in cells if cell.estimate.known]
        if known and len(known) == len(cells) and all(c.estimate.verdict in DECIDED for c in known):
            if not self._decided:
                self.note("every comparison is decided: more blocks only narrow the intervals")
            self._decided = True
        known.sort(key=lambda cell: -abs(math.log(max(cell.estimate.value, 1e-9))))
        names = [_named(cell) for cell in known[:MOST_LIVE]]
        wide = min(max(map(len, names), default=0), max(20, self._console.width - 40))
        most = max((c.estimate.value - 1 for c in known if c.estimate.verdict == "higher"), default=0.0)
        self._so_far = []
        for name, cell in zip(names, known, strict=False):
            value, interval = ratio_parts(cell.estimate.value, cell.estimate.low, cell.estimate.high)
            mark = {"unaffected": "=", "undecided": "?"}.get(cell.estimate.verdict, "")
            if cell.estimate.verdict == "higher" and most > 0:
                block = "█" if self._console.encoding.lower().startswith("utf") else "#"
                mark = block * max(1, round(LIVE_BAR * (cell.estimate.value - 1) / most))
            text = safe(f"  {name[:wide]:<{wide}}  {value:>5} {interval:<14} {mark}")
            self._so_far.append(text.replace("\n", " ").rstrip()[: self._console.width - 1])
        if len(known) > MOST_LIVE:
            self._so_far.append(f"  and {len(known) - MOST_LIVE} more")
        self._draw()

    def finished(self) -> None:
        self._so_far = []
        self._erase()

    # ---- drawing

    def line(self, *, bar: bool) -> str:
        """The line as text, never wider than the console."""
        # Its figures are for judging the series by, and are thrown away.
        where = f"block {self._block}" if self._block else "pilot, not a result"
        if self._block and self._plan.budget_ns is None:  # with a budget, it is the time that ends the run
            where += f"/{self._plan.blocks}"
        left, share = self._time.left_ns(), self._time.share()
        width = self._console.width - 1
        now = "  ".join(filter(None, (self._label, self._value))) if bar else ""
        ahead = []
        if share is not None:
            ahead.append(f"{share * 100:3.0f} %")
        if left is not None:
            # Whole seconds: more would promise more than a mean of past trials can.
            seconds = round(left / NS_PER_S)
            ahead.append(f"{format_duration(seconds * NS_PER_S) if seconds else '0 s'} left")
        # On a narrow screen the trial and its figure come before what is left.
        while ahead and len("  ".join([where, *ahead, now])) >= width:
            ahead.pop(0)
        parts = [where, *ahead, *([now] if now else [])]
        if bar and self._before and len("  ".join([*parts, self._before])) < width:
            parts.append(self._before)
        # The trial's figures come first: the bar has what they leave.
        room = min(BAR, width - len(" " + "  ".join(parts)) - 2)
        if bar and share is not None and room >= LEAST_BAR:
            done = round(room * share)
            full, empty = "━─" if self._console.encoding.lower().startswith("utf") else "#-"
            parts.insert(1, full * done + empty * (room - done))
        text = safe(" " + "  ".join(parts)).replace("\n", " ")
        return text if len(text) <= width else text[: width - 1] + "…"

    def _draw(self) -> None:
        if not self._live:
            return
        self._erase()
        self._write("\n".join([*self._so_far, self.line(bar=True)]))
        self._drawn = len(self._so_far) + 1

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._drawn - 1))
            self._drawn = 0

    def _print(self, text: str) -> None:
        self._erase()
        self._write(safe(text).replace("\n", " ") + "\n")

    def _write(self, text: str) -> None:
        """Straight to the stream, without markup or wrapping. A closed stderr must not end a run."""
        try:
            encoding = self._console.encoding
            self._console.file.write(text.encode(encoding, "replace").decode(encoding))
            self._console.file.flush()
        except (OSError, ValueError):  # the reader went away: the run is what matters
            self._live = False


def _named(cell: CellResult) -> str:
    """Who is compared with what, in a line: ffmpeg beside fio."""
    factors = cell.factors
    if "variant" in factors:
        return f"{factors['variant']} {cell.metric.name}"
    if "neighbour" in factors:
        return f"{factors.get('victim', '')} beside {factors['neighbour']}"
    return cell.cell.replace("|", " ")


def _whole(seconds: float) -> str:
    """Whole seconds: more would promise too much."""
    return format_duration(round(seconds) * NS_PER_S)


def console_progress(clock: Clock | None = None) -> ConsoleProgress:
    """Progress on stderr, as `contend run` shows it."""
    return ConsoleProgress(safe_console(stderr=True), clock)
