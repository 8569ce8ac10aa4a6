"""Pictures of an overhead study: bars with intervals by size and platform, and what is type and what is size."""

from __future__ import annotations

import math
from typing import Any

from contend.document import Analysis, CellResult
from contend.platforms.sizes import sized
from contend.report import words
from contend.report.matrix import platform_name, subject
from contend.report.plotkit import Plot, Spec, bars_with_intervals, chart, dashed, quantity
from contend.report.theme import series_colours
from contend.studies.overhead.variants import platform_of

HEIGHT = 220


def overhead_plots(analysis: Analysis) -> list[Plot]:
    """Plots (role: overhead) of ratios by size and platform, one an application."""
    cells = [c for c in analysis.cells if c.metric.primary and math.isfinite(c.estimate.value)]
    names = list(dict.fromkeys(platform_name(c.factors) for c in cells))
    colours = series_colours(names)
    applications = dict.fromkeys(subject(c.factors) for c in cells)
    return [
        _bars(number, name, [c for c in cells if subject(c.factors) == name], colours)
        for number, name in enumerate(applications)
    ]


def _bars(number: int, application: str, cells: list[CellResult], colours: dict[str, str]) -> Plot:
    """Grouped bars as the study's figures have them: a group a size, a bar a platform and provisioning."""
    sizes = list(
        dict.fromkeys(sized(c.factors) for c in sorted(cells, key=lambda c: platform_of(c.values).cpus))
    )
    platforms = [name for name in colours if any(platform_name(c.factors) == name for c in cells)]
    values: list[dict[str, Any]] = []
    for cell in cells:
        name, estimate = platform_name(cell.factors), cell.estimate
        known = math.isfinite(estimate.high) and estimate.low > 0
        values.append(
            {
                "size": sized(cell.factors),
                "platform": name,
                "value": estimate.value,
                "low": estimate.low if known else estimate.value,
                "high": estimate.high if known else estimate.value,
                "one": 1,
                "colour": colours[name],
                "say": f"{application}, {sized(cell.factors)}, {name}: {words.ratio(estimate)}",
            }
        )
    y = quantity("value", "time over bare (1 = no cost)", {"tickCount": 5})
    layers: list[Spec] = [
        *bars_with_intervals(("size", sizes), ("platform", platforms), y, title="size of the platform"),
        dashed([{"value": 1}], y=y),
    ]
    table = tuple((sized(c.factors), platform_name(c.factors), words.ratio(c.estimate)) for c in cells)
    return Plot(
        f"overhead-{number}",
        "overhead",
        f"{application}: what each platform costs, by size",
        "Bars are times over those on the bare host of the same number of CPUs, dark lines their intervals. At the dashed"
        " line the platform costs nothing.",
        chart(HEIGHT, layers, values),
        {name: colours[name] for name in platforms},
        ("size", "platform", "time over bare"),
        table,
    )
