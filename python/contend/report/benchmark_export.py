"""Times of compared commands in the forms that readers of benchmarks know: JSON and CSV with hyperfine's keys, Markdown.

hyperfine's times are of one command after the other; these are of trials that alternate, so each result also says how many
times as long as the first command it took, with the interval.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from contend.probes.observed import Observed
from contend.report.matrix import is_compare
from contend.report.model import ReportInput
from contend.text.masking import mask
from contend.text.printable import printable
from contend.units import format_ratio, format_value

FORMS = ("json", "markdown", "csv")
_COLUMNS = ("command", "mean", "stddev", "median", "user", "system", "min", "max")


def render(report: ReportInput, form: str) -> str:
    """The text of one form. Raises KeyError for a form that is none of FORMS."""
    forms: Mapping[str, Callable[[list[dict[str, Any]]], str]] = {
        "json": _json,
        "markdown": _markdown,
        "csv": _csv,
    }
    return forms[form](results(report))


def results(report: ReportInput) -> list[dict[str, Any]]:
    """A result a command, in the order in which they were given; times in seconds where the metric is one."""
    assert is_compare(report.analysis)
    scenario = yaml.safe_load(report.scenario_text)
    commands = {str(of["name"]): str(of.get("command", of["name"])) for of in scenario["variants"]}
    rows: dict[str, list[Mapping[str, float]]] = {}
    for row in report.counted:
        readings = {str(of["name"]): float(of["value"]) for of in row.get("metrics", ())}
        if readings:
            rows.setdefault(str(row["cell"]), []).append(_divided(row) | readings)
    primary = next((of.metric for of in report.analysis.cells if of.metric.primary), None)
    made = []
    for name, command in commands.items():
        of = rows.get(name, [])
        if primary is None or not of:
            continue
        values = [each[primary.name] for each in of]
        ratio = next(
            (
                c.estimate
                for c in report.analysis.cells
                if c.metric.primary and c.factors.get("variant") == name
            ),
            None,
        )
        made.append(
            {
                "command": mask(command),
                "name": name,
                "metric": primary.name,
                "unit": primary.unit,
                "mean": statistics.fmean(values),
                "stddev": statistics.stdev(values) if len(values) > 1 else None,
                "median": statistics.median(values),
                **{
                    key: statistics.fmean(e[key] for e in of)
                    for key in ("user", "system", "cpu")
                    if all(key in each for each in of)
                },
                "min": min(values),
                "max": max(values),
                "times": values,
                "ratio": None
                if ratio is None
                else {"value": ratio.value, "low": ratio.low, "high": ratio.high, "level": ratio.level},
            }
        )
    return made


def _divided(row: Mapping[str, Any]) -> dict[str, float]:
    """The CPU time of a trial in programs and in the kernel, s, where both are known."""
    seen = {str(of["name"]): float(of["value"]) for of in row.get("evidence", ())}
    cpu, system = seen.get(Observed.CPU), seen.get(Observed.SYSTEM_CPU)
    if cpu is None or system is None:
        return {}
    return {"user": max(0.0, cpu - system), "system": system}


def _json(made: list[dict[str, Any]]) -> str:
    results = [of | {"ratio": None if of["ratio"] is None else _finite(of["ratio"])} for of in made]
    return json.dumps({"results": results}, indent=2, allow_nan=False) + "\n"


def _finite(ratio: Mapping[str, float]) -> dict[str, float | None]:
    """Few trials have no interval, or one without an end, for which JSON has no number."""
    return {key: value if math.isfinite(value) else None for key, value in ratio.items()}


def _csv(made: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    return out.getvalue()


def _markdown(made: list[dict[str, Any]]) -> str:
    lines = ["| command | mean | min | max | relative |", "|:---|---:|---:|---:|---:|"]
    for of in made:
        ratio = of["ratio"]
        relative = "1.00" if ratio is None else format_ratio(ratio["value"], ratio["low"], ratio["high"])
        mean, *ends = (format_value(of[key], of["unit"]) for key in ("mean", "min", "max"))
        spread = "" if of["stddev"] is None else f" ± {format_value(of['stddev'], of['unit'])}"
        shown = map(_escaped, (f"{mean}{spread}", *ends, relative))
        lines.append(f"| {_code(str(of['command']))} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    r"""A code span that ends where it should: fenced by more backticks than stand together in it.

    >>> print(_code("a | b"), _code("echo `date`"), _code("a\nb"))
    `a \| b` `` echo `date` `` `a\nb`
    """
    text = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


def _escaped(text: str) -> str:
    r"""Text in a cell, with what Markdown or HTML would take for their own made plain (a unit may be anybody's).

    >>> print(_escaped("3 <b>|x"))
    3 &lt;b&gt;\|x
    """
    return html.escape(re.sub(r"([\\`*_\[\]|])", r"\\\1", printable(text)), quote=False)
