"""The hardware's alibi for a trace: from the recording beside it, or from the run whose trial it is of."""

from __future__ import annotations

from pathlib import Path

from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi
from contend.contention.hunting.sources import run_of
from contend.store.traces import sample_of

NONE = "no recording of the host beside the trace: `contend trace --sample` makes one"


def beside(trace: Path, begin_ns: int | None, end_ns: int | None) -> Alibi | None:
    """Judge the hardware in that span of CLOCK_MONOTONIC (None: the whole recording); None where the host was not
    recorded."""
    for run in (*sample_of(trace), *run_of(trace)):
        return judge(Recording.of_run(run), begin_ns, end_ns)
    return None
