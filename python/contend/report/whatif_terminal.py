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
from contend.contention.whatif.verification import Compared, Verification
from contend.report.printer import fitted, one_line, titled_table
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
    if of.gate.passed:
        console.print(one_line(answer(of), style="bold"))
    console.print(one_line(f"{basis}: {_few(of.sources)}"))
    if of.gate.passed:
        console.print(fitted(_before_and_after(of), console))
        if of.fixes:
            console.print(fitted(_ranking(of.fixes), console))
        console.print(one_line(f"{checked(of)} → {trust(of)} ({of.regime.kind}: {of.regime.why})"))
        if replayed:
            console.print(one_line(words_on_tests()))
    for note in of.notes:
        console.print(one_line(f"note: {note}", style="yellow"))


def checked(of: Whatif) -> str:
    """Say how a prediction of what is on record came out."""
    by = (
        "Replay of the unedited storm"
        if of.method == "replay"
        else "Batch law, its largest size from the others"
    )
    return f"{by}: {of.gate.self_replay_error * 100:.1f} % off"


def trust(of: Whatif) -> str:
    """Say in a word or two whether to believe it."""
    if not of.gate.passed:
        return "refused"
    known = of.method != "replay" or of.predicted["median_ns"].low is not None
    return "trusted" if known else "no interval: not yet trusted"


def answer(of: Whatif) -> str:
    """A sentence on the predicted time of the jobs, or on why there is none."""
    if not of.gate.passed:
        return f"{f'{edited(of.edits)}: r' if of.edits else 'R'}efused: {of.gate.reason}."
    median = format_duration(of.baseline.median_ns)
    if of.edits:
        return (
            f"With {edited(of.edits)} the median job would take {predicted(of.predicted['median_ns'])} instead of {median}"
            f" ({change(of, 'median_ns')}), all together {change(of, 'makespan_ns')}."
        )
    if not of.fixes:
        refused = (
            f" {len(of.refused)} of them cannot be predicted: {', '.join(map(str, of.refused))}."
            if of.refused
            else ""
        )
        return f"No fix that suggests itself is known to gain anything.{refused}"
    best = of.fixes[0]
    then = predicted(best.predicted["median_ns"])
    return f"Worth most: {edited(best.edits)}. The median job would take {then} instead of {median} ({signed(-best.gain)})."


def edited(edits: Sequence[Edit]) -> str:
    """The edits as on the command line."""
    return " ".join(map(str, edits))


def change(of: Whatif, key: str) -> str:
    """Say by how much of itself a time would change."""
    before = getattr(of.baseline, key)
    return signed(of.predicted[key].value / max(1, before) - 1)


def signed(part: float) -> str:
    """A part in percent, with its sign.

    >>> signed(-0.4871), signed(0.0), signed(-0.0001), signed(0.021)
    ('−48.7 %', '0 %', '0 %', '+2.1 %')
    """
    text = f"{part * 100:+.1f} %".replace("-", "−")
    return "0 %" if text[1:] == "0.0 %" else text


def verified(of: Verification) -> str:
    """A sentence on where the measured storm lies: inside the prediction, outside, or unknown."""
    if of.inside is None:
        return of.reason or "no verdict"
    return f"what was measured lies {'inside' if of.inside else 'outside'} of what was predicted"


def print_cells(edits: Sequence[Edit], answers: Mapping[str, Whatif | str]) -> None:
    """A line for each cell of a run; a text says why there is no answer."""
    console = _console()
    console.print(one_line(edited(edits) or "without edits", style="bold"))
    table = titled_table("", "cell", "storms", "median", "makespan", "replay")
    reasons = []
    for cell, of in answers.items():
        if isinstance(of, str):
            table.add_row(one_line(cell), *["–"] * 3, "no")
            reasons.append(f"{cell}: {of}")
            continue
        row = [_changed(of, "median_ns"), _changed(of, "makespan_ns")]
        table.add_row(one_line(cell), str(len(of.sources)), *row, trust(of))
        if not of.gate.passed:
            reasons.append(f"{cell}: {of.gate.reason}")
    console.print(fitted(table, console))
    for reason in reasons:
        console.print(one_line(f"note: {reason}", style="yellow"))
    console.print(one_line("--cell CELL for its intervals, notes and the fixes worth most"))


def _changed(of: Whatif, key: str) -> str:
    before = getattr(of.baseline, key)
    if not of.gate.passed or not of.edits:
        return format_duration(before)
    return f"{format_duration(before)} → {format_duration(of.predicted[key].value)} {change(of, key)}"


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
            console.print(fitted(table, console))
    more = max(0, len(shown) - ROWS) + max(0, len(ranked) - ROWS)
    if more:
        console.print(one_line(f"{more} more: --list --json"))


def print_verification(of: Verification) -> None:
    """Print the predicted and the measured times, and whether the measured ones lie inside the prediction."""
    console = _console()
    console.print(one_line(" ".join(of.edits) or "without edits", style="bold"))
    table = titled_table("", "", "predicted", "measured", "error", "inside")
    for one in of.compared:
        value = predicted(Predicted(one.predicted, one.low, one.high))
        table.add_row(NAMES[one.key], value, measured(one), signed(one.error), inside(one))
    console.print(fitted(table, console))


def inside(of: Compared) -> str:
    """Say whether the storm lies inside the prediction, and how many of several do."""
    if of.low is None or of.high is None:
        return "not known"
    if len(of.measured) == 1:
        return "yes" if of.inside else "no"
    return f"{sum(of.low <= one <= of.high for one in of.measured)} of {len(of.measured)}"


def measured(of: Compared) -> str:
    """The mean over the storms, and of several the shortest and the longest."""
    shortest, longest = (format_duration(end) for end in (min(of.measured), max(of.measured)))
    value, unit = shortest.split(" ", 1)
    spread = f" ({value if longest.endswith(f' {unit}') else shortest}–{longest})"
    return format_duration(of.mean) + (spread if len(of.measured) > 1 else "")


def _before_and_after(of: Whatif) -> Table:
    table, before = titled_table("", "", "recorded", "predicted", "change"), of.baseline.to_json()
    for key in KEYS:
        table.add_row(NAMES[key], format_duration(before[key]), predicted(of.predicted[key]), change(of, key))
    return table


def _ranking(fixes: Sequence[Fix]) -> Table:
    table = titled_table("The fixes worth most", "", "edits", "median", "makespan", "gain", texts=("edits",))
    for number, fix in enumerate(fixes, 1):
        edits = edited(fix.edits)
        text = f"{edits}\nif {fix.assumes}" if fix.assumes and len(fix.edits) == 1 else edits
        of = fix.predicted
        table.add_row(
            str(number) if len(fix.edits) == 1 else "all",
            _lines(text),
            predicted(of["median_ns"]),
            predicted(of["makespan_ns"]),
            f"{fix.gain * 100:.1f} %",
        )
    return table


def predicted(of: Predicted) -> str:
    """A time, with its interval where it has one."""
    if of.low is None or of.high is None:
        return format_duration(of.value)
    return f"{format_duration(of.value)} [{format_duration(of.low)}, {format_duration(of.high)}]"


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _console() -> Any:
    return safe_console()


def _lines(text: str) -> Any:
    return Text("\n".join(one_line(line).plain for line in text.split("\n")))
