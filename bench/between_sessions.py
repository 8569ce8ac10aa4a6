"""How much a cell's level differs between runs of the same scenario when nothing was changed.

    python bench/between_sessions.py RUN RUN RUN … [--write docs/results/between-sessions]

For every cell and headline metric: the median of each run, their standard deviation on the log scale, and by how
much two such runs differ for no reason (t(k-1) · s · √2), which is the doubt that `contend compare` adds. Beside it
the same of the slowdown within each run, which shares its run's level and so differs less.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb

from contend.cli.common import load_report
from contend.report.export import export
from contend.report.model import ReportInput
from contend.store.directory import RunDirectory
from results.files import save_at
from results.pages import between_sessions
from results.record import recording


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument(
        "--write", type=Path, help="write PATH.json, PATH.md and the trials as PATH.trials.parquet"
    )
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
    found = {
        "scenario": reports[0].command,
        "runs": [
            {
                "began": report.rows[0]["utc"],
                "blocks": report.analysis.design.blocks,
                "trials": len(report.counted),
                "flagged": sum(bool(row["flags"]) for row in report.counted),
                "controls": len(report.analysis.controls),
                "alarms": sum(c.alarm for c in report.analysis.controls),
            }
            for report in reports
        ],
        "levels": levels,
        "slowdowns": ratios,
    }
    print(between_sessions.body(found))
    if given.write:
        trials(reports, given.write.with_name(f"{given.write.name}.trials.parquet"))
        save_at(given.write, found)


def trials(reports: Sequence[ReportInput], path: Path) -> None:
    """Every trial of every run, the number of its run first."""
    with tempfile.TemporaryDirectory() as place:
        for number, report in enumerate(reports, 1):
            export(report, "csv", Path(place) / f"{number}.csv")
        rows = " union all ".join(
            f"select {number} as session, * from read_csv('{place}/{number}.csv')"
            for number, _ in enumerate(reports, 1)
        )
        duckdb.sql(f"copy ({rows}) to '{path}' (format parquet, compression zstd, compression_level 19)")


if __name__ == "__main__":
    main()
