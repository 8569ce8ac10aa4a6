"""A watch in a terminal: the live table, or a line an interval without one; and the summary at the end."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rich.live import Live
from rich.text import Text

from contend.contention.blame import RESOURCES, Period, is_neighbour
from contend.contention.watch import Watched
from contend.report import watch_words as words
from contend.report.printer import FOLDED, fitted, titled_table
from contend.report.watch_document import WatchReport
from contend.text.masking import mask
from contend.units import format_duration

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, RenderableType

ROWS = 12  # victims of the live table
SUMMARY = 10  # victims, and culprits, of the summary's matrix
BAR = 10
LEAST = 0.001  # of the interval: who lost less is not worth a row
NAMES = {"cpu": "CPU", "disk": "disk"}
Keep = Callable[[str], bool]


class Shower(Protocol):
    """The interface of what shows a watch; `show` is called after every period."""

    def __enter__(self) -> Shower: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, watched: Watched, period: Period) -> None: ...


def losers(period: Period, keep: Keep) -> list[tuple[float, str, str]]:
    """Share lost, resource and victim in this period, the greatest share first."""
    losses = [
        (period.share(resource, victim), resource, victim)
        for (resource, victim), sums in period.groups.items()
        if sums.lost_ns and keep(victim)
    ]
    return sorted((f for f in losses if f[0] >= LEAST), key=lambda f: (-f[0], f[1], f[2]))


def _row(period: Period, resource: str, victim: str) -> list[tuple[str, int]]:
    row = [(c, ns) for (r, v, c), ns in period.pairs.items() if r == resource and v == victim and ns]
    return sorted(row, key=lambda item: (-item[1], item[0]))


class Lines:
    """One line an interval, for logs and pipes."""

    def __init__(self, write: Callable[[str], object], keep: Keep) -> None:
        self._write, self._keep = write, keep

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, watched: Watched, period: Period) -> None:
        clauses = []
        for share, resource, victim in losers(period, self._keep)[:3]:
            whom = words.culprits(victim, _row(period, resource, victim), 2)
            clauses.append(f"{victim} lost {words.percent(share)} ({NAMES[resource]}): {whom}")
        now = datetime.datetime.now().astimezone().strftime("%H:%M:%S")
        self._write(f"{now}  " + ("; ".join(clauses) or "nobody lost 0.1 % to a neighbour"))


class LiveTable:
    """The live table. It is redrawn when an interval has ended, not by a timer."""

    def __init__(self, console: Console, keep: Keep) -> None:
        self._console, self._keep = console, keep
        self._live: Live | None = None

    def __enter__(self) -> LiveTable:
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, watched: Watched, period: Period) -> None:
        if self._live is not None:
            self._live.update(self._table(watched, period), refresh=True)

    def _table(self, watched: Watched, period: Period) -> RenderableType:
        table = titled_table(
            f"waited for neighbours, by {watched.by} · {format_duration(watched.blame.length_ns)} so far · "
            f"{words.cost(watched)} · Ctrl-C ends with the summary"
        )
        for column in ("victim", "", "now", "", "mean", "of its waits"):
            table.add_column(column, no_wrap=column not in ("victim", "of its waits"), overflow="fold")
        table.columns[0].max_width = max(FOLDED, self._console.width // 3)
        losses = losers(period, self._keep)
        for share, resource, victim in losses[:ROWS]:
            sums = watched.blame.sums(resource, victim)
            style = "bold red" if share >= 0.2 else "yellow" if share >= 0.05 else ""
            table.add_row(
                Text(victim),
                NAMES[resource],
                Text(words.percent(share), style=style),
                Text(bar(share), style=style),
                words.percent(sums.share(watched.blame.length_ns)),
                Text(words.culprits(victim, _row(period, resource, victim))),
            )
        if not losses:
            table.add_row("nobody lost 0.1 % to a neighbour", "", "", "", "", "")
        return fitted(table, self._console)


def bar(share: float) -> str:
    """
    >>> bar(0.33), bar(0.01)
    ('███', '▏')
    """
    whole = min(share, 1.0) * BAR
    return "█" * int(whole) or "▏"


def summary(report: WatchReport, console: Console) -> None:
    """The answer, who waited for whom, findings with advice, the alert, what it cost."""
    watched = report.watched
    _say(console, "")
    _say(console, words.answer(report), style="bold")
    if watched.note:
        _say(console, f"note: {watched.note}", style="yellow")
    for resource in RESOURCES:
        _matrix(report, resource, console)
    _say(console, "")
    for number, finding in enumerate(report.findings, start=1):
        _say(console, f" {number} {finding.sentence}", indent="   ")
        _say(console, f"   → {finding.advice}", indent="     ")
        _say(console, f"     verify: {finding.verify}", whole=True)
    if report.findings and not report.scope:
        _say(console, " one victim alone: contend watch NAME, as contend watch nginx", style="dim")
    if report.alert is not None:
        _say(console, words.alert(report.alert), style="bold red" if report.alert.exit_code else "")
    _say(
        console,
        f"{format_duration(watched.blame.length_ns)} by {watched.by}, {watched.source}; {words.cost(watched)}",
        style="dim",
    )


def _matrix(report: WatchReport, resource: str, console: Console) -> None:
    """Victims and, of each, the parts of its waits; the greatest culprits over all victims are the columns."""
    blame = report.watched.blame
    ranked = [(v, s) for v, s in blame.ranked(resource, report.keep) if blame.sums(resource, v).lost_ns]
    if not ranked:
        return
    table = titled_table(
        f"{NAMES[resource]}: share of time lost to neighbours (95 % interval), and whom it waited for"
    )
    table.add_column("victim", overflow="fold", max_width=max(FOLDED, console.width // 3))
    table.add_column("lost", no_wrap=True)
    table.add_column("waited", no_wrap=True, justify="right")
    table.add_column("of its waits", overflow="fold")
    rows = blame.rows(resource)
    named: set[str] = set()
    for victim, share in ranked[:SUMMARY]:
        row = rows.get(victim, [])
        whole = max(sum(ns for _, ns in row), 1)
        named.update(c for c, ns in row if not is_neighbour(victim, c) and ns >= words.SMALL * whole)
        table.add_row(
            Text(victim),
            words.share(share),
            format_duration(blame.sums(resource, victim).wait_ns),
            Text(words.culprits(victim, row)),
        )
    _say(console, "")
    console.print(fitted(table, console))
    for name, about in words.meanings(named):
        _say(console, f" {name}: {about}", style="dim", indent="   ")


def _say(console: Console, text: str, *, style: str = "", indent: str = "", whole: bool = False) -> None:
    """Folded at the console's width; a command is kept whole, so that it can be copied."""
    text = mask(text)  # before it is folded: half a secret is one
    lines = [text] if whole else textwrap.wrap(text, console.width, subsequent_indent=indent) or [""]
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)
