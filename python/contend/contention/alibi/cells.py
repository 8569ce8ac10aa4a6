"""The alibi of each cell of a run, from the series that were recorded beside its trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from contend.contention.alibi.group import judge_group
from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi, CellAlibi, PhaseAlibi

# Each costs some milliseconds; what the hardware does is mostly the same in all trials of a cell.
MOST_TRIALS = 30
# A trial between two samples was not seen.
LEAST_SAMPLES = 3


def cell_alibis(
    rows: Iterable[Mapping[str, Any]],
    recording: Recording,
    own: Recording | None = None,
    *,
    elsewhere: Container[str] = (),
) -> tuple[CellAlibi, ...]:
    """Judge each cell with counted trials that are long enough to hold samples. One alibi a cell, in the order of the
    cells' names.

    rows: of trials.ndjson. own: the rows of what is measured (scope.VICTIM). elsewhere: cells in which that is contend's
    own client of somebody who runs already: it says nothing of them. Without samples there are no alibis.
    """
    if len(recording.times) < 2:
        return ()
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok" and row["phase"] == "counted":
            trials = cells.setdefault(row["cell"], [])
            if len(trials) < MOST_TRIALS and _seen(row, recording):
                trials.append(row)
    return tuple(
        _of_cell(cell, trials, recording, None if cell in elsewhere else own)
        for cell, trials in sorted(cells.items())
        if trials
    )


def phase_alibis(rows: Iterable[Mapping[str, Any]], recording: Recording) -> tuple[PhaseAlibi, ...]:
    """Judge the run, from its first trial to its last, and each of its phases, in their order.

    rows: of trials.ndjson. What the hardware did between the trials of a phase is in it; without samples there is none.
    """
    if len(recording.times) < 2:
        return ()
    phases: dict[str, list[Mapping[str, Any]]] = {"run": []}
    for row in rows:
        if row["status"] == "ok":
            phases.setdefault(row["phase"], []).append(row)
    phases["run"] = [row for of in phases.values() for row in of]
    alibis = []
    for phase, of in phases.items():
        if not of:
            continue
        start, end = min(row["started_ns"] for row in of), max(row["ended_ns"] for row in of)
        alibi = judge(recording, int(start), int(end))
        alibis.append(
            PhaseAlibi(phase, alibi.verdict, alibi.subject, alibi.text, alibi.start_ns, alibi.end_ns)
        )
    return tuple(alibis)


def _seen(row: Mapping[str, Any], recording: Recording) -> bool:
    times = recording.times
    inside = times.searchsorted(row["ended_ns"], "right") - times.searchsorted(row["started_ns"], "left")
    return int(inside) >= LEAST_SAMPLES


def _of_cell(
    cell: str, trials: list[Mapping[str, Any]], recording: Recording, own: Recording | None
) -> CellAlibi:
    spans = [(int(t["started_ns"]), int(t["ended_ns"])) for t in trials]
    alibis = [judge(recording, *span) for span in spans]
    typical, agreeing = _typical(alibis)
    # Every trial has processes of its own: their numbers say nothing of the cell.
    subject = typical.program or typical.subject
    of_host = CellAlibi(
        cell, dict(trials[0]["factors"]), typical.verdict, subject, len(alibis), agreeing, typical.text
    )
    each = (
        [
            judge_group("the measured party", recording, own, *span, trial.get("quotas", ()))
            for trial, span in zip(trials, spans, strict=True)
        ]
        if own
        else []
    )
    of_workload = [own_alibi for own_alibi in each if own_alibi is not None]
    if not of_workload:
        return of_host
    own_alibi, agreeing = _typical(of_workload)
    return replace(
        of_host, workload_verdict=own_alibi.verdict, workload_agreeing=agreeing, workload_text=own_alibi.text
    )


def _typical(alibis: list[Alibi]) -> tuple[Alibi, int]:
    """The alibi in the middle of those with the most frequent verdict, and how many they are."""
    verdict, agreeing = Counter(a.verdict for a in alibis).most_common(1)[0]
    same = sorted((a for a in alibis if a.verdict == verdict), key=_weight)
    return same[len(same) // 2], agreeing


def _weight(alibi: Alibi) -> float:
    return next((s.share for s in alibi.saturated if s.resource == alibi.verdict), 0.0)
