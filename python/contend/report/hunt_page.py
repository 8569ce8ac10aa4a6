"""The page of a hunt: the answer, findings as cards, who waited for whom, every job's time. Self-contained, as `html`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from contend.contention.hunt import Batch, Hunt
from contend.contention.hunting.charges import NOT_HELD, Charges
from contend.report import html
from contend.report.hunt_graph import NARROW, WIDE, edges, svg
from contend.report.hunt_plots import hunt_plots, short_path
from contend.report.hunt_terminal import against, alibi_line, change_lines, hidden, jobs_line, nothing
from contend.report.scaling_terminal import demand_rows
from contend.units import format_duration, of_time

ROWS, COLUMNS = 14, 8  # of the blame matrix


class Cell(NamedTuple):
    text: str
    part: float  # of the largest


def write_page(hunt: Hunt, source: Path) -> tuple[Path | None, str]:
    """Write the page: hunt.html in a directory, or FILE.hunt.html beside a file. Returns its path, or why there is none."""
    target = source / "hunt.html" if source.is_dir() else source.with_suffix(".hunt.html")
    why = html.save(render(hunt), target)
    return None if why else target, why


def render(hunt: Hunt) -> str:
    """The page as text. Names are escaped wherever they stand."""
    plots = hunt_plots(hunt)
    charges = Charges(hunt.batch.whole)
    headers, rows = matrix(charges)
    return html.page("hunt", plots, "trace", "hunt",
        hunt=hunt,
        title=hunt.batch.name,
        answer=answer(hunt),
        batches=[hunt.batch, *hunt.others],
        jobs_line=jobs_line,
        alibi_line=alibi_line,
        against=lambda other: against(hunt.batch, other),
        change_lines=lambda other: change_lines(hunt.batch, other),
        hidden=hidden(hunt) if hunt.findings else "",
        of_time=of_time,
        facts=_facts(hunt.batch),
        plots={plot.role: plot for plot in plots},
        demands=demand_rows(hunt.growth) if hunt.growth is not None else None,
        headers=headers,
        rows=rows,
        edges=[
            (_node(edge.source[1]), _node(edge.target[1]), format_duration(edge.ns)) for edge in edges(charges)
        ],
        wide=svg(charges, WIDE),
        narrow=svg(charges, NARROW),
    )  # fmt: skip


def answer(hunt: Hunt) -> str:
    """One sentence: the first finding, or that there is none."""
    return hunt.findings[0].sentence if hunt.findings else nothing(hunt)


def _node(key: tuple[str, str]) -> str:
    return " ".join(filter(None, key))


def _facts(batch: Batch) -> list[tuple[str, str]]:
    jobs = batch.jobs
    facts = [("Traces", str(len(batch.traces))), ("Jobs", f"{jobs.n:,}")]
    if jobs.n:
        named = (("Median", jobs.median_ns), ("p90", jobs.p90_ns), ("Makespan", jobs.makespan_ns))
        facts += [(name, format_duration(ns)) for name, ns in named]
    return facts


def matrix(charges: Charges) -> tuple[list[str], list[tuple[str, str, list[Cell], str]]]:
    """Who waited for which lock, by what its holder did: column names, and lock, victim, cells, sum of each row."""
    tables = charges.tables
    held = {lock.lock: lock.name for lock in tables.locks if lock.kind not in NOT_HELD}
    sums: dict[tuple[str, str], dict[str, int]] = {}
    columns: dict[str, int] = {}
    for row in tables.blame:
        if row.lock in held:
            doing = f"{_DOING[row.doing]} {row.culprit}".strip() if row.doing in _DOING else row.culprit
            culprit = short_path(doing)
            of = sums.setdefault((short_path(held[row.lock]), row.victim or "in no span"), {})
            of[culprit] = of.get(culprit, 0) + row.ns
            columns[culprit] = columns.get(culprit, 0) + row.ns
    names = sorted(columns, key=lambda name: (-columns[name], name))
    shown, rest = names[:COLUMNS], names[COLUMNS:]
    rows = sorted(sums.items(), key=lambda item: (-sum(item[1].values()), item[0]))[:ROWS]
    cells = [
        [of.get(name, 0) for name in shown] + ([sum(of.get(n, 0) for n in rest)] if rest else [])
        for _, of in rows
    ]
    most = max((ns for row in cells for ns in row), default=0) or 1
    return (
        [*shown, *(["all else"] if rest else [])],
        [
            (lock, victim, [Cell(format_duration(ns) if ns else "", ns / most) for ns in row],
             format_duration(sum(of.values())))
            for ((lock, victim), of), row in zip(rows, cells, strict=True)
        ],
    )  # fmt: skip


_DOING = {"waiting": "waits for", "track": "thread", "nobody": "handed over"}
