"""Pictures of scheduler histograms: how long tasks waited for a CPU, a row a cell, the bare host's first."""

from __future__ import annotations

from typing import Any

from contend.contention.scheduling import CellSchedule
from contend.document import Analysis
from contend.report.matrix import subject
from contend.report.plotkit import (
    COLOUR,
    ROW,
    Plot,
    Spec,
    chart,
    condition_name,
    marks,
    quantity,
    row_axis,
    row_labels,
)
from contend.report.scheduling_words import schedules, waited_row, waits_headers, where
from contend.report.theme import series_colours, var
from contend.units import format_duration

_HIGH = 0.5  # of a row


def schedule_plots(analysis: Analysis) -> list[Plot]:
    """Plots (role: schedule) of how long tasks waited for a CPU, one an application."""
    shown = schedules(analysis)
    named = [(of, condition_name(analysis, of.factors, of.cell)) for of in shown]
    names = list(dict.fromkeys(name for _, name in named))
    colours = {**series_colours([name for name in names if name != "bare"]), "bare": var("alone")}
    return [
        _waits(
            number,
            name,
            [
                (of, condition_name(analysis, of.factors, of.cell))
                for of in shown
                if subject(of.factors) == name
            ],
            colours,
        )
        for number, name in enumerate(dict.fromkeys(subject(of.factors) for of in shown))
    ]


def _waits(
    number: int, application: str, rows: list[tuple[CellSchedule, str]], colours: dict[str, str]
) -> Plot:
    values: list[dict[str, Any]] = []
    for row, (of, name) in enumerate(rows):
        p50, p99 = waited_row(of)[2:4]
        values.append({"y": row, "label": f"{where(of)}\u2003{p50}, p99 {p99}"})
        shares = _shares(of)
        most = max(shares.values(), default=1.0)
        for power, share in shares.items():
            values.append(
                {
                    "from": 2.0**power / 1e9,
                    "to": 2.0 ** (power + 1) / 1e9,
                    "foot": row + 0.28,
                    "top": row + 0.28 - _HIGH * share / most,
                    "colour": colours[name],
                    "say": f"{where(of)}: {share:.1%} of the waiting in waits of {_time(power)} to {_time(power + 1)}",
                }
            )
    title, axis = "a task waited for a CPU so long (s, log scale)", {"format": "~s", "tickCount": 6}
    along: Spec = {"x": quantity("from", title, axis, type="log", nice=False), "x2": "to"}
    rises: Spec = {"y": row_axis("top", len(rows)), "y2": "foot", "color": COLOUR, "tooltip": "say"}
    bars = marks("rect", {"opacity": 0.8}, where="isValid(datum.foot)", **along, **rises)
    labels = [
        {**layer, "transform": [{"filter": "isValid(datum.label)"}]}
        for layer in row_labels("label", len(rows), halo=0)
    ]
    return Plot(
        f"schedule-{number}",
        "schedule",
        f"{application}: how long its tasks waited for a CPU",
        "Each row has the waits of a cell, by their length; heights are shares of the time that was waited in the row. A"
        " quota makes waits of up to its period; CPUs that others use, of up to their time slices.",
        chart(len(rows) * ROW, [bars, *labels], values),
        {name: colours[name] for name in dict.fromkeys(name for _, name in rows)},
        waits_headers()[1:],
        tuple(waited_row(of)[1:] for of, _ in rows),
    )


def _shares(of: CellSchedule) -> dict[int, float]:
    """The part of all time waited by power of two of the lower edge in ns."""
    shares: dict[int, float] = {}
    waited = {edge: edge * count for edge, count in of.counts.get("run_queue", {}).items() if edge}
    for edge, ns in waited.items():
        power = edge.bit_length() - 1
        shares[power] = shares.get(power, 0) + ns / sum(waited.values())
    return dict(sorted(shares.items()))


def _time(power: int) -> str:
    return format_duration(2.0**power)
