"""A run's document, from what is on disk: of one host, or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contend.analysis.hosts import analyse_fleet
from contend.analysis.run import analyse_run
from contend.document import Analysis
from contend.store.directory import Row, RunDirectory
from contend.studies.model import Scenario


def analyse(
    run: RunDirectory,
    scenario: Scenario,
    *,
    rows: Sequence[Row] | None = None,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Analysis:
    """The analysis of a run. Works on an unfinished run; never raises for too little data.

    rows, events: of its trials and its ledger, by whoever has read them already.
    """
    if "fleet" in run.plan(scenario.study):
        return analyse_fleet(run, scenario)
    return analyse_run(run, scenario, rows=rows, events=events)
