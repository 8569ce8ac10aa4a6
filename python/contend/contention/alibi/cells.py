"""The alibi of each cell of a run, from the series that were recorded beside its trials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi, CellAlibi

# Each costs some milliseconds; what the hardware does is mostly the same in all trials of a cell.
MOST_TRIALS = 30
# A trial between two samples was not seen.
LEAST_SAMPLES = 3
_PROCESS = re.compile(r" \((pid|[^()]*, pid) [^()]*\)")


def cell_alibis(rows: Iterable[Mapping[str, Any]], recording: Recording) -> tuple[CellAlibi, ...]:
    """One alibi a cell with counted trials that are long enough to hold samples, in the order of the cells' names.

    rows: of trials.ndjson. Without samples there are no alibis.
    """
    if len(recording.times) < 2:
        return ()
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok" and row["phase"] == "counted" and _seen(row, recording):
            cells.setdefault(row["cell"], []).append(row)
    return tuple(_of_cell(cell, trials[:MOST_TRIALS], recording) for cell, trials in sorted(cells.items()))


def _seen(row: Mapping[str, Any], recording: Recording) -> bool:
    inside = (recording.times >= row["started_ns"]) & (recording.times <= row["ended_ns"])
    return int(inside.sum()) >= LEAST_SAMPLES


def _of_cell(cell: str, trials: list[Mapping[str, Any]], recording: Recording) -> CellAlibi:
    found = [judge(recording, int(t["started_ns"]), int(t["ended_ns"])) for t in trials]
    verdict, agreeing = Counter(a.verdict for a in found).most_common(1)[0]
    same = sorted((a for a in found if a.verdict == verdict), key=_weight)
    typical = same[len(same) // 2]
    # Every trial has processes of its own: their numbers say nothing of the cell.
    subject = _PROCESS.sub("", typical.subject)
    return CellAlibi(cell, dict(trials[0]["factors"]), verdict, subject, len(found), agreeing, typical.text)


def _weight(alibi: Alibi) -> float:
    return next((s.share for s in alibi.saturated if s.resource == alibi.verdict), 0.0)
