"""Mean jobs of the traced trials of a run: where the time of a job went in each cell, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contend.contention.hunt import Batch
from contend.contention.hunting.rows import read
from contend.contention.hunting.sources import TRACES, groups
from contend.contention.hunting.together import together
from contend.errors import ContendError
from contend.report.hunt_plots import mean_jobs
from contend.store.damage import note

if TYPE_CHECKING:
    from contend.report.plotkit import Plot

MOST_TRACES = 5  # of a cell: to read all of a long run would take as long as its report


def traced_cells(run: Path) -> tuple[Batch, ...]:
    """Batches of each cell that has traces with jobs, in the order of the plan; none in a run without traces.

    What cannot be read is left out: a report is made of what is there.
    """
    if not (run / TRACES).is_dir():
        return ()
    try:
        trace_groups = groups([str(run)])
    except ContendError:
        return ()
    batches = [_batch(group.cell, group.traces) for group in trace_groups]
    return tuple(batch for batch in batches if batch is not None and batch.whole.jobs)


def _batch(cell: str, traces: Sequence[Path]) -> Batch | None:
    step = -(-len(traces) // MOST_TRACES)
    tables = []
    for trace in traces[::step]:
        try:
            tables.append(read(trace, None))
        except ContendError as error:
            note(trace, "", error.message)
    return Batch(cell, tuple(tables), together(tables), None, "") if tables else None


def traced_plots(batches: Sequence[Batch]) -> list[Plot]:
    """The mean job of each cell as a bar, if there are two cells to compare."""
    plot = mean_jobs(batches) if len(batches) > 1 else None
    return [plot] if plot is not None else []
