"""Pictures of storms: the law with every storm, the phases of a boot by size, the services' CPU by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contend.report.plotkit import (
    COLOUR,
    ROW,
    Plot,
    chart,
    marks,
    quantity,
    row_axis,
    row_labels,
    ticks,
)
from contend.report.scaling_plots import scaling_plots
from contend.report.theme import series_colours
from contend.studies.storm.result import Size, Storms
from contend.studies.storm.words import has_served, maker

ROLES = 7  # with a colour of their own; the rest in one


def storm_plots(storms: Storms) -> list[Plot]:
    """Plots (roles: storm-growth, storm-phases, storm-cpu); those without data are left out."""
    made = []
    for number, (network, of) in enumerate(storms.growth.items()):
        law = scaling_plots(of)[0]
        where = f", network {network}" if len(storms.growth) > 1 else ""
        made.append(
            Plot(
                f"storm-growth-{number}",
                "storm-growth",
                f"The storm by its number of {storms.noun}s{where}",
                law.caption,
                law.spec,
                law.legend,
                law.headers,
                law.table,
            )
        )
    made.append(
        _bars(
            "storm-phases",
            "Where a boot's time goes",
            f"A mean {storms.noun}, from when it was due to {storms.awaited}"
            + (", and as guest from there to its first answer" if has_served(storms) else "")
            + "; the parts add up. Their borders are"
            + (" stamps of this host." if storms.local else " seen by polling."),
            [(_name(size, storms), size.phases) for size in storms.sizes],
            f"s of a mean {storms.noun}",
        )
    )
    if storms.has_cpu:
        made.append(
            _bars(
                "storm-cpu",
                f"The {maker(storms)}'s CPU time for a boot, by role",
                f"CPU time of all processes of a role while the storm's {storms.noun}s booted, over their number.",
                [(_name(size, storms), _largest(size.cpu)) for size in storms.sizes],
                "CPU s a boot",
            )
        )
    return made


def _name(size: Size, storms: Storms) -> str:
    return f"n = {size.n}" + (f", network {size.network}" if storms.networked else "")


def _largest(cpu: Mapping[str, float]) -> dict[str, float]:
    items = sorted(cpu.items(), key=lambda item: -item[1])
    rest = sum(value for _, value in items[ROLES:])
    return dict(items[:ROLES]) | ({"others": rest} if rest else {})


def _bars(
    id_: str, title: str, caption: str, rows: Sequence[tuple[str, Mapping[str, float]]], unit: str
) -> Plot:
    """A stacked bar a row."""
    names = list(dict.fromkeys(name for _, part in rows for name, value in part.items() if value > 0))
    colours = series_colours(names)
    values: list[dict[str, Any]] = []
    for y, (label, part) in enumerate(rows):
        at = 0.0
        for name in names:
            value = part.get(name, 0.0)
            if value <= 0:
                continue
            values.append(
                {
                    "y": y - 0.06,
                    "y2": y + 0.24,
                    "a": at,
                    "b": at + value,
                    "colour": colours[name],
                    "say": f"{label}: {name} {value:.3g} s",
                }
            )
            at += value
    labels = [
        {"y": y, "label": f"{label}: {sum(part.values()):.3g} s"} for y, (label, part) in enumerate(rows)
    ]
    most = max((value["b"] for value in values), default=1.0)
    x = quantity("a", unit, ticks(5, [most]), domain=[0, most * 1.02])
    y_axis = row_axis("y", len(rows))
    layers: list[dict[str, Any]] = [
        marks("rect", {}, x=x, x2="b", y=y_axis, y2="y2", color=COLOUR, tooltip="say"),
        *({**layer, "data": {"values": labels}} for layer in row_labels("label", len(rows), halo=0)),
    ]
    table = tuple((label, *(f"{part.get(name, 0.0):.3g}" for name in names)) for label, part in rows)
    return Plot(
        id_,
        id_,
        title,
        caption,
        chart(len(rows) * ROW, layers, values),
        {name: colours[name] for name in names},
        ("", *names),
        table,
    )
