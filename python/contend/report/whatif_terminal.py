"""A prediction on the terminal: whether to trust it, before and after, and the fixes that gain most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from contend.contention.whatif.campaign import words_on_tests
from contend.contention.whatif.prediction import Whatif
from contend.contention.whatif.ranking import Fix
from contend.contention.whatif.storms import Edit
from contend.contention.whatif.times import KEYS, Predicted
from contend.contention.whatif.verification import Verification
from contend.report.printer import one_line, titled_table
from contend.text.safe import safe_console
from contend.units import format_duration

NAMES = {"median_ns": "median", "p90_ns": "p90", "max_ns": "max", "makespan_ns": "makespan"}
ROWS = 20


def show_answer(of: Whatif) -> None:
    """Print a prediction for people."""
    console = _console()
    storms = len(of.sources)
    replayed = of.method == "replay"
    basis = (
        f"{storms} storm{'s' if storms != 1 else ''} of {of.jobs} jobs"
        if replayed
        else f"storms of up to {of.jobs}"
    )
    console.print(one_line(f"{basis}: {_few(of.sources)}"))
    console.print(one_line(" ".join(str(edit) for edit in of.edits) or "without edits", style="bold"))
    if of.gate.passed:
        console.print(_before_and_after(of.baseline.to_json(), of.predicted))
        if of.fixes:
            console.print(_ranking(of.fixes))
        elif not of.edits:
            console.print(one_line("no fix that suggests itself would gain anything"))
        trusted = f"{_trust(of)} ({of.regime.kind}: {of.regime.why})"
        checked = (
            "replay of the unedited storm" if replayed else "batch law, its largest size from the others"
        )
        console.print(one_line(f"{checked}: {of.gate.self_replay_error:.1%} off → {trusted}"))
        if replayed:
            console.print(one_line(words_on_tests()))
    for note in of.notes:
        console.print(one_line(f"note: {note}", style="yellow"))


def _trust(of: Whatif) -> str:
    if not of.gate.passed:
        return "refused"
    known = of.method != "replay" or of.predicted["median_ns"].low is not None
    return "trusted" if known else "no interval: not yet trusted"


def headline(of: Whatif) -> str:
    """A sentence on the predicted time of the jobs, or on why there is none."""
    edits = " ".join(str(edit) for edit in of.edits) or "without edits"
    if not of.gate.passed:
        return f"{edits}: refused: {of.gate.reason}"
    median = f"{edits}: median {_changed(of, 'median_ns')}"
    if not of.fixes:
        return median
    best = of.fixes[0]
    return (
        f"{median}; worth most: {' '.join(str(edit) for edit in best.edits)} ({best.gain:.0%} of the median)"
    )


def verified(of: Verification) -> str:
    """A sentence on where the measured storm lies: inside the prediction, outside, or unknown."""
    if of.inside is None:
        return of.reason or "no verdict"
    return f"what was measured lies {'inside' if of.inside else 'outside'} of what was predicted"


def print_cells(edits: Sequence[Edit], answers: Mapping[str, Whatif | str]) -> None:
    """A line for each cell of a run; a text says why there is no answer."""
    console = _console()
    console.print(one_line(" ".join(str(edit) for edit in edits) or "without edits", style="bold"))
    table = titled_table("", "cell", "storms", "median", "makespan", "replay")
    reasons = []
    for cell, of in answers.items():
        if isinstance(of, str):
            table.add_row(one_line(cell), *["–"] * 3, "no")
            reasons.append(f"{cell}: {of}")
            continue
        row = [_changed(of, "median_ns"), _changed(of, "makespan_ns")]
        table.add_row(one_line(cell), str(len(of.sources)), *row, _trust(of))
        if not of.gate.passed:
            reasons.append(f"{cell}: {of.gate.reason}")
    console.print(table)
    for reason in reasons:
        console.print(one_line(f"note: {reason}", style="yellow"))
    console.print(one_line("--cell CELL for its intervals, notes and the fixes worth most"))


def _changed(of: Whatif, key: str) -> str:
    before = getattr(of.baseline, key)
    if not of.gate.passed or not of.edits:
        return format_duration(before)
    value = of.predicted[key].value
    return f"{format_duration(before)} → {format_duration(value)} {value / max(1, before) - 1:+.1%}"


def print_listing(of: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print all that edits can name."""
    console = _console()
    locks = titled_table(
        "Locks that more than one job holds: --hold, and --size of semaphores",
        "lock",
        "where",
        "waited",
        texts=("where",),
    )
    ranked = sorted(of["locks"], key=lambda row: -row["waited_ns"])
    for row in ranked[:ROWS]:
        locks.add_row(one_line(row["name"]), one_line(row["site"]), format_duration(row["waited_ns"]))
    pools = titled_table(
        "Pools: --workers, --global-queue",
        "pool",
        "process",
        "workers",
        "queues",
        "waited",
        texts=("process",),
    )
    for row in of["pools"]:
        workers = "as needed" if row["workers"] is None else str(row["workers"])
        waited = format_duration(row["waited_ns"])
        pools.add_row(one_line(row["name"]), one_line(row["process"]), workers, str(row["queues"]), waited)
    spans = titled_table(
        "Spans: --remove, and --coalesce for calls", "span", "times", "calls", "in a row", "in all"
    )
    shown = sorted(of["spans"], key=lambda row: -row["total_ns"])
    for row in shown[:ROWS]:
        counts = (str(row[key]) for key in ("count", "calls", "repeated"))
        spans.add_row(one_line(row["name"]), *counts, format_duration(row["total_ns"]))
    for table in (locks, pools, spans):
        if table.row_count:
            console.print(table)
    more = max(0, len(shown) - ROWS) + max(0, len(ranked) - ROWS)
    if more:
        console.print(one_line(f"{more} more: --list --json"))


def print_verification(of: Verification) -> None:
    """Print the predicted and the measured times, and whether the measured ones lie inside the prediction."""
    console = _console()
    console.print(one_line(" ".join(of.edits) or "without edits", style="bold"))
    table = titled_table("", "", "predicted", "measured", "error", "inside")
    for one in of.compared:
        inside = {None: "–", True: "✓", False: "✗"}[one.inside]
        value = _predicted(Predicted(one.predicted, one.low, one.high))
        spread = f" [{format_duration(min(one.measured))}, {format_duration(max(one.measured))}]"
        measured = format_duration(one.mean) + (spread if len(one.measured) > 1 else "")
        table.add_row(NAMES[one.key], value, measured, f"{one.error:+.1%}", inside)
    console.print(table)


def _before_and_after(before: Mapping[str, int], after: Mapping[str, Predicted]) -> Table:
    table = titled_table("", "", "recorded", "predicted", "change")
    for key in KEYS:
        change = f"{after[key].value / max(1, before[key]) - 1:+.1%}"
        table.add_row(NAMES[key], format_duration(before[key]), _predicted(after[key]), change)
    return table


def _ranking(fixes: Sequence[Fix]) -> Table:
    table = titled_table("The fixes worth most", "", "edits", "median", "makespan", "gain", texts=("edits",))
    for number, fix in enumerate(fixes, 1):
        edits = " ".join(str(edit) for edit in fix.edits)
        text = f"{edits}\nif {fix.assumes}" if fix.assumes and len(fix.edits) == 1 else edits
        of = fix.predicted
        table.add_row(
            str(number) if len(fix.edits) == 1 else "all",
            _lines(text),
            _predicted(of["median_ns"]),
            _predicted(of["makespan_ns"]),
            f"{fix.gain:.1%}",
        )
    return table


def _predicted(of: Predicted) -> str:
    if of.low is None or of.high is None:
        return format_duration(of.value)
    return f"{format_duration(of.value)} [{format_duration(of.low)}, {format_duration(of.high)}]"


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _console() -> Any:
    return safe_console()


def _lines(text: str) -> Any:
    return Text("\n".join(one_line(line).plain for line in text.split("\n")))
