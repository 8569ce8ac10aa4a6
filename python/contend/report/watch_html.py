"""A watch as one self-contained page: the answer, the matrix, the timeline, what to do. See `contend.report.html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contend.contention.blame import RESOURCES, is_neighbour
from contend.report import watch_words as words
from contend.report.html import flatten, page
from contend.report.plotkit import Plot, Spec, chart, marks, quantity
from contend.report.theme import series_colours, var
from contend.report.watch_document import WatchReport
from contend.units import NS_PER_S, format_duration

ROWS, COLUMNS = 12, 4  # of a matrix: with the rest, itself and other reasons they fit on a page
LEAST = 0.001  # of the time: who lost or cost less has no row or column
LINES = 8  # of a timeline: as many colours as there are
HEIGHT = 260
# Heat: lower ends of the steps, as shares of the time.
HEAT = ((0.2, "h5"), (0.1, "h4"), (0.05, "h3"), (0.01, "h2"), (0.001, "h1"))
LEGEND = (
    ("h0", "below 0.1 %"), ("h1", "0.1 – 1 %"), ("h2", "1 – 5 %"), ("h3", "5 – 10 %"), ("h4", "10 – 20 %"),
    ("h5", "20 % of the time and more"),
)  # fmt: skip
TITLES = {"cpu": "CPU: who ran while others waited", "disk": "Disks: whose requests were ahead"}
REST, ITSELF, REASONS = "other neighbours", "itself", "other reasons"


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One pair: the share of the victim's time, the wait, and its colour's class."""

    share: str
    wait: str
    heat: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    victim: str
    lost: str
    waited: str
    cells: Mapping[str, HeatCell]


@dataclass(frozen=True, slots=True)
class HeatTable:
    """The matrix of one resource; `more` victims lost something too and have no row."""

    resource: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    more: int
    special: tuple[tuple[str, str], ...]


def render_watch(report: WatchReport) -> str:
    """The page as text. Names are escaped wherever they stand."""
    plots = [plot for resource in RESOURCES if (plot := timeline(report, resource)) is not None]
    watched = report.watched
    facts = [
        ("Watched", f"{format_duration(watched.blame.length_ns)}, every {format_duration(watched.interval_ns)}"),
        ("By", watched.by),
        ("Scope", report.scope),
        ("Began", report.began[:16].replace("T", " ") + " UTC"),
        ("Machine", ", ".join(str(report.environment[k]) for k in ("cpu", "os") if report.environment.get(k))),
    ]  # fmt: skip
    return page("watch", plots, "watch",
        report=report,
        watched=watched,
        answer=words.answer(report),
        alert=words.alert(report.alert) if report.alert else "",
        say_share=words.share,
        facts=[(name, text) for name, text in facts if text],
        tables=[table for resource in RESOURCES if (table := matrix(report, resource)).rows],
        legend=LEGEND,
        plots=plots,
        cost=words.cost(watched),
        machine=list(flatten(report.environment)),
    )  # fmt: skip


def matrix(report: WatchReport, resource: str) -> HeatTable:
    """The matrix of one resource: victims by what they lost; columns are the culprits that cost these the most."""
    blame = report.watched.blame
    losers = [(v, s) for v, s in blame.ranked(resource, report.keep) if blame.sums(resource, v).lost_ns]
    ranked = [(v, s) for n, (v, s) in enumerate(losers[:ROWS]) if n < 3 or s.value >= LEAST]
    rows = blame.rows(resource)
    totals: dict[str, int] = {}
    for victim, _ in ranked:
        for culprit, ns in rows.get(victim, []):
            if is_neighbour(victim, culprit):
                totals[culprit] = totals.get(culprit, 0) + ns
    order = sorted(totals, key=lambda c: (-totals[c], c))[:COLUMNS]
    named = [c for n, c in enumerate(order) if n < 3 or totals[c] >= LEAST * blame.length_ns]
    made: list[HeatRow] = []
    special: set[str] = set()
    used: set[str] = set()
    for victim, share in ranked:
        sums = blame.sums(resource, victim)
        whole = max(blame.length_ns, sums.wait_ns + sums.used_ns)
        parts: dict[str, int] = {}
        for culprit, ns in rows.get(victim, []):
            column = _column(victim, culprit, named)
            parts[column] = parts.get(column, 0) + ns
            if column == REASONS:
                special.add(culprit)
        used.update(parts)
        cells = {column: _cell(ns, whole, column in (ITSELF, REASONS)) for column, ns in parts.items()}
        made.append(HeatRow(victim, words.share(share), format_duration(sums.wait_ns), cells))
    columns = (*named, *(c for c in (REST, ITSELF, REASONS) if c in used))
    return HeatTable(
        resource,
        TITLES[resource],
        columns,
        tuple(made),
        len(losers) - len(made),
        tuple(words.meanings(special)),
    )


def _column(victim: str, culprit: str, named: Sequence[str]) -> str:
    if culprit == victim:
        return ITSELF
    if not is_neighbour(victim, culprit):
        return REASONS
    return culprit if culprit in named else REST


def _cell(ns: int, whole: int, grey: bool) -> HeatCell:
    share = ns / whole
    heat = "h0" if grey else next((name for low, name in HEAT if share >= low), "h0")
    return HeatCell(words.percent(share), format_duration(ns), heat)


def timeline(report: WatchReport, resource: str) -> Plot | None:
    """The plot of the share lost over time by those who lost most; None where nobody lost 0.1 %."""
    blame = report.watched.blame
    ranked = [(v, s) for v, s in blame.ranked(resource, report.keep) if s.value >= 0.001][:LINES]
    if not ranked or len(blame.counted()) < 2:
        return None
    origin = blame.apart[0].start_ns
    legend = series_colours([victim for victim, _ in ranked])
    values: list[dict[str, Any]] = [
        {
            "t": round((period.start_ns + period.end_ns - 2 * origin) / 2 / NS_PER_S, 3),
            "v": round(100 * period.share(resource, victim), 3),
            "k": victim,
        }
        for period in blame.counted()
        for victim, _ in ranked
    ]
    layer = marks(
        "line",
        {"strokeWidth": 1.8, "point": len(blame.apart) <= 60, "tooltip": True},
        x=quantity(
            "t",
            "seconds since the watch began",
            {"tickCount": 6, "grid": False, "format": ".10~g"},
            nice=False,
            zero=True,
        ),
        y=quantity("v", "% of the time lost", {"tickCount": 5, "format": ".10~g"}, domainMin=0, zero=True),
        color={
            "field": "k",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": list(legend), "range": list(legend.values())},
        },
    )
    layers = [layer]
    if report.alert is not None:
        dashes: Spec = {"type": "rule", "color": var("bad"), "strokeDash": [5, 4]}
        layers.append({"mark": dashes, "encoding": {"y": {"datum": 100 * report.alert.threshold}}})
    each = format_duration(blame.joined * report.watched.interval_ns)
    caption = f"Share of each {each} that a victim's {'tasks' if resource == 'cpu' else 'requests'} waited for others."
    if report.alert is not None:
        caption += f" Dashed: the threshold, {words.percent(report.alert.threshold)}."
    table = []
    for victim, share in ranked:
        series = [v["v"] for v in values if v["k"] == victim]
        table.append(
            (victim, words.share(share), *(words.percent(x / 100) for x in (min(series), max(series))))
        )
    return Plot(
        f"lost-{resource}",
        "timeline",
        f"Lost over time: {'CPU' if resource == 'cpu' else 'disks'}",
        caption,
        chart(HEIGHT, layers, values),
        legend,
        ("victim", "mean", "least", "most"),
        tuple(table),
    )
