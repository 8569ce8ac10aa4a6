"""A finding that was tried, among the results of the run that tried it."""

from __future__ import annotations

from collections.abc import Sequence

from contend.advice.finding import Finding
from contend.document import CellResult
from contend.stats.estimate import Estimate


def measured(finding: Finding, results: Sequence[CellResult]) -> Estimate | None:
    """The slowdown of a finding's subject beside the same workloads; None where no cell is of both."""
    assert finding.expected is not None
    for result in results:
        beside = tuple(one.workload for one in result.values.neighbours)
        if (
            result.metric.primary
            and result.factors["victim"] == finding.subject
            and beside == finding.expected.beside
        ):
            return result.estimate
    return None
