"""The input of every report. Reports know nothing of how a run is made; this is all they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.document import Analysis

if TYPE_CHECKING:
    from contend.advice.finding import Finding
    from contend.contention.hunt import Batch
    from contend.report.series import Timelines


@dataclass(frozen=True)
class ReportInput:
    """One finished run, as values.

    `rows` are the rows of trials.ndjson in the order they were run, `environment` the fingerprint as stored,
    `scenario_text` the YAML. `series_dir` holds the host's timelines (None or an empty directory: the report
    says there are none). `command` repeats the run; `run_dir` is its path as the reader should type it.
    """

    analysis: Analysis
    environment: Mapping[str, Any]
    scenario_text: str
    rows: Sequence[Mapping[str, Any]]
    series_dir: Path | None
    command: str
    run_dir: str
    timelines: Timelines | None = None
    """What is in `series_dir`, where somebody has read it already."""
    traced: Callable[[], Sequence[Batch]] = tuple
    """Where the time of jobs went, of each cell whose trials were traced; read when it is asked for."""

    def trial_of(self, finding: Finding) -> str:
        """The command that tries a finding; "" where it cannot be tried, as on several hosts."""
        return "" if self.analysis.fleet is not None else finding.trial(self.run_dir)

    @cached_property
    def cells(self) -> Mapping[str, Mapping[str, Any]]:
        """The factors of each cell by its name, in the order of their first trials."""
        factors: dict[str, Mapping[str, Any]] = {}
        for row in self.rows:
            if (cell := str(row.get("cell", ""))) not in factors:
                factors[cell] = row.get("factors", {})
        return factors

    @cached_property
    def counted(self) -> list[Mapping[str, Any]]:
        """Trials that count: the pilot is thrown away, and a screening is no block."""
        return [row for row in self.rows if row.get("phase") not in ("pilot", "screening")]

    @cached_property
    def elapsed_ns(self) -> int:
        """From the first trial's start to the last one's end, pilot included; 0 without trials."""
        starts = [int(row["started_ns"]) for row in self.rows if row.get("started_ns") is not None]
        ends = [int(row["ended_ns"]) for row in self.rows if row.get("ended_ns") is not None]
        return max(0, max(ends) - min(starts)) if starts and ends else 0
