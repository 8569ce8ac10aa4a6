"""The question of a gate: is a comparison worse by more than a limit, beyond its interval, or might it be?"""

from __future__ import annotations

from contend.document import CellResult
from contend.errors import NoVerdict, ThresholdCrossed
from contend.report import words
from contend.report.matrix import is_compare
from contend.report.model import ReportInput
from contend.stats.estimate import Estimate


def verdict(report: ReportInput, limit: float) -> tuple[int, str]:
    """The exit code of a gate on headline metrics, and why: worse by more than the limit, undecided, or neither."""
    judged = [cell for cell in report.analysis.cells if cell.metric.primary]
    if not judged:
        return NoVerdict.exit_code, f"a gate has nothing to judge here\n  hint: {ELSEWHERE}"
    worse, undecided = [], []
    for cell in judged:
        estimate, name = cell.estimate, f"{cell.cell} {words.ratio(cell.estimate)}"
        less_is_worse = inverted(cell, report)
        if estimate.known and is_beyond(estimate, limit, less_is_worse, control=False):
            worse.append(name)
        elif not estimate.known or might_be_beyond(estimate, limit, less_is_worse, control=False):
            undecided.append(name)
    if worse:
        return ThresholdCrossed.exit_code, f"worse by more than {words.percent(limit)}: {'; '.join(worse)}"
    if undecided:
        about = (
            f"whether it is worse by more than {words.percent(limit)} is undecided: {'; '.join(undecided)}"
        )
        return NoVerdict.exit_code, f"{about}\n  hint: {HINT}"
    return 0, ""


def remarks(report: ReportInput) -> list[str]:
    """Say what a log of the gate should hold beside its verdict: a busy host, and a target that was not reached."""
    target = words.target_line(report) if words.missed(report.analysis) else ""
    return [line for line in (words.all_flagged(report.analysis), target) if line]


ELSEWHERE = "contend ab compares commands or revisions; contend compare compares two runs"
HINT = "a narrower --target (like 0.5%) or a longer --budget; --metric cpu where others have the CPU too"


def inverted(cell: CellResult, report: ReportInput) -> bool:
    """In a compare study the ratio is as measured: for throughput less than 1 is worse."""
    return is_compare(report.analysis) and cell.metric.better == "higher"


def is_beyond(estimate: Estimate, limit: float, less_is_worse: bool, *, control: bool) -> bool:
    """limit: as a part, 0.05 for 5 %. control: worse is what differs either way."""
    slower, faster = estimate.low > 1 + limit, estimate.high < 1 / (1 + limit)
    return (slower or faster) if control else faster if less_is_worse else slower


def might_be_beyond(estimate: Estimate, limit: float, less_is_worse: bool, *, control: bool) -> bool:
    """As is_beyond, for any part of the interval."""
    slower, faster = estimate.high > 1 + limit, estimate.low < 1 / (1 + limit)
    return (slower or faster) if control else faster if less_is_worse else slower
