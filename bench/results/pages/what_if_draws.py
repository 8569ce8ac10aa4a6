"""What-if on storms that are drawn from a grammar."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, table

LIMIT = 0.05
WIDE = 0.10


@dataclass(frozen=True, slots=True)
class Judged:
    """One edit of one storm; errors are relative, of the median."""

    row: Data
    trusted: bool
    error: float
    change: float
    said: float
    doubt: float

    @property
    def wrong(self) -> bool:
        """Trusted, and off by more than both the limit and the doubt, or of the wrong sign."""
        most = max(LIMIT, self.doubt)
        return self.trusted and (
            abs(self.error) > most or (abs(self.change) > most and self.said * self.change < 0)
        )

    @property
    def decided(self) -> bool:
        """Trusted, and wrong or known well enough to be called right."""
        return self.trusted and (self.wrong or self.doubt <= WIDE)


def judged(row: Data) -> Judged:
    """From the times on record."""
    before, measured = statistics.mean(row["before"]), statistics.mean(row["measured"])
    return Judged(
        row,
        row["trusted"],
        row["predicted"] / measured - 1,
        measured / before - 1,
        row["predicted"] / before - 1,
        row["doubt"],
    )


def body(d: Data) -> str:
    """How many were right, refused, wrong; each that was not right."""
    cases = [judged(row) for row in d["rows"]]
    trusted = [case for case in cases if case.trusted]
    wrong = [case for case in trusted if case.wrong]
    decided = [case for case in trusted if case.decided]
    over = [case for case in trusted if abs(case.error) > LIMIT]
    refused = [case for case in cases if not case.trusted]
    refused_wrong = [case for case in refused if abs(case.error) > LIMIT]
    errors = [case.error for case in trusted]
    limit = f"{100 * LIMIT:.0f} %"
    rows = []
    for case in cases:
        if abs(case.error) <= LIMIT and case.trusted:
            continue
        told = (
            "wrong"
            if case.wrong
            else "within the doubt"
            if case.decided
            else "undecided"
            if case.trusted
            else f"refused: {case.row['reason']}"
        )
        figures = (f"{100 * value:+.1f} %" for value in (case.change, case.said, case.error))
        rows.append([case.row["draw"], case.row["edit"], *figures, f"{100 * case.doubt:.1f} %", told])
    return f"""\
{d["draws"]} storms of real threads (`drawn` in `tests/support/toy_storm.py`{", SCHED_FIFO" if d["fifo"] else ""}) of {d["jobs"]} jobs,
each recorded {d["traces"]} times as it is and {d["traces"]} times with each of {len(cases)} edits, in turns; medians of the jobs, mean
over the storms.

- **Trusted**: {len(trusted)} of {len(cases)}; {len(over)} of them more than {limit} off; {len(trusted) - len(decided)} undecided, of storms that
  themselves vary so much that what they came to is not known to {100 * WIDE:.0f} %.
- **Wrong and trusted**, beyond {limit} and beyond what so few storms leave open (95 %), or of the wrong sign: {len(wrong)} of
  {len(decided)} decided [{bounds(*clopper_pearson(len(wrong), len(decided)))}] (95 %, Clopper–Pearson).
- **Error** of the trusted ones: root mean square {100 * statistics.mean(e * e for e in errors) ** 0.5:.1f} %, mean
  {100 * statistics.mean(errors):+.1f} %.
- **Refused**: {len(refused)}, of which {len(refused_wrong)} would have been more than {limit} off.
{second_look(d, wrong)}
{table(["storm", "edit", "measured", "predicted", "error", "doubt", ""], rows, "rlrrrrl")}"""


def second_look(d: Data, wrong: list[Judged]) -> str:
    """Of storms with a wrong answer, from more recordings."""
    second = [judged(row) for row in d["second_look"]]
    if not wrong or not second:
        return ""
    key = {(case.row["draw"], case.row["edit"]) for case in wrong}
    still = sum(case.wrong for case in second)
    told = ", ".join(
        f"storm {case.row['draw']} {case.row['edit']} {100 * case.error:+.1f} %"
        for case in second
        if (case.row["draw"], case.row["edit"]) in key
    )
    return (
        f"- **A second look**: the storms with a wrong answer, all their edits, from {len(second[0].row['before'])} recordings"
        f" more: {still} of {sum(case.trusted for case in second)} wrong and trusted. Errors of those that were wrong: {told}.\n"
    )
