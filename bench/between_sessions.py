"""How much a cell's level differs between runs of the same scenario when nothing was changed.

    python bench/between_sessions.py RUN RUN RUN … [--write docs/results/between-sessions]

For every cell and headline metric: the median of each run, their standard deviation on the log scale, and by how
much two such runs differ for no reason (t(k-1) · s · √2), which is the doubt that `contend compare` adds. Beside it
the same of the slowdown within each run, which shares its run's level and so differs less.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
from pathlib import Path

from contend.cli.common import load_report
from contend.report.export import export
from contend.stats.quantiles import t_quantile
from contend.store import RunDirectory


def doubt(values: list[float]) -> float:
    """Half-width, as a ratio less 1, of the 95 % interval of two runs' difference."""
    logs = [math.log(v) for v in values]
    return math.exp(t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) * math.sqrt(2)) - 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument(
        "--write", type=Path, help="write PATH.json, PATH.md and the trials as PATH/session-N.csv"
    )
    parser.add_argument("--note", default="", help="what a reader should know of these runs")
    given = parser.parse_args()
    reports = [load_report(RunDirectory.open(path)) for path in given.runs]
    levels: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for report in reports:
        for cell in report.analysis.cells:
            if not cell.metric.primary:
                continue
            name = f"{cell.factors['victim']} {cell.metric.name}"
            if len(levels.get(f"{name}, alone", [])) < reports.index(report) + 1:
                levels.setdefault(f"{name}, alone", []).append(cell.baseline.estimate.value)
            levels.setdefault(f"{name}, beside {cell.factors['neighbour']}", []).append(
                cell.treatment.estimate.value
            )
            ratios.setdefault(f"{name}, beside {cell.factors['neighbour']}", []).append(cell.estimate.value)
    began = [report.rows[0]["utc"] for report in reports]
    flagged = [
        f"{sum(bool(r['flags']) for r in report.counted)} of {len(report.counted)}" for report in reports
    ]
    alarms = [sum(c.alarm for c in report.analysis.controls) for report in reports]
    lines = [
        "# Between sessions",
        "",
        f"{len(reports)} runs of one scenario, nothing changed: `{reports[0].command}`.",
        "",
        "| run | began (UTC) | blocks | trials flagged | controls alarmed |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {n} | {when[:16].replace('T', ' ')} | {report.analysis.design.blocks} | {marked} |"
            f" {alarm} of {len(report.analysis.controls)} |"
            for n, (when, report, marked, alarm) in enumerate(
                zip(began, reports, flagged, alarms, strict=True), 1
            )
        ),
        "",
        "| cell's level | median of each run | sd (log) | two runs differ by up to |",
        "|---|---|--:|--:|",
        *(_row(name, values) for name, values in levels.items()),
        "",
        "| slowdown, within a run | each run | sd (log) | two runs differ by up to |",
        "|---|---|--:|--:|",
        *(_row(name, values) for name, values in ratios.items()),
    ]
    print("\n".join(lines))
    if given.write:
        machine = {
            k: reports[0].environment.get(k) for k in ("cpu", "cpus", "kernel", "os", "contend", "tools")
        }
        asked = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        )
        host = f"{machine['cpus']} CPUs {machine['cpu']}, kernel {machine['kernel']}"
        where = f"Analysed at commit {asked.stdout.strip()}; {host}."
        lines[2:2] = [where, "", *([given.note, ""] if given.note else [])]
        given.write.mkdir(parents=True, exist_ok=True)
        for number, report in enumerate(reports, 1):
            export(report, "csv", given.write / f"session-{number}.csv")
        document = {
            "analysed_at": asked.stdout.strip(),
            "machine": machine,
            "began": began,
            "levels": levels,
            "slowdowns": ratios,
        }
        given.write.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        given.write.with_suffix(".md").write_text("\n".join(lines) + "\n")


def _row(name: str, values: list[float]) -> str:
    spread = statistics.stdev(math.log(v) for v in values)
    return f"| {name} | {', '.join(f'{v:.4g}' for v in values)} | {spread:.1%} | {doubt(values):.0%} |"


if __name__ == "__main__":
    main()
