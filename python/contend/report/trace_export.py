"""Exports of a traced program's files in other formats, by native code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contend import _native
from contend.errors import BadInput, HostFailed
from contend.files import PRIVATE, made_beside
from contend.report.trace_beside import append_recordings, boot_ns
from contend.store.directory import RunDirectory
from contend.store.traces import columns_of, is_trace, sample_of


def export_traces(sources: Sequence[str | Path], form: str, target: Path) -> dict[str, Any]:
    """Write traces (files, or directories of them), and recordings of the host beside them, as one trace in the form
    "perfetto" or "chrome"; whole or not at all. A trace's own recording (`contend trace --sample`) is with it.

    Returns counts: events, processes, bytes (written), and what `notes` makes sentences of. Raises BadInput where
    there is no trace, HostFailed where something cannot be read or written.
    """
    traces, runs = sorted_out(sources)
    boots: list[int] = []
    if runs:
        boots = [boot for run in runs if (boot := boot_ns(run))]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with made_beside(target, mode=PRIVATE) as part:
            counts = _native.ctrace_export(
                [str(trace) for trace in traces], form, str(part), min(boots, default=0)
            )
            files, began_ns = columns_of(counts.pop("files")), counts.pop("boot_ns")
            if runs:
                counts["passed_over"] += append_recordings(part, form, runs, files, began_ns)
                counts["bytes"] = part.stat().st_size
    except OSError as error:
        raise HostFailed(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error
    return counts


def sorted_out(sources: Sequence[str | Path]) -> tuple[list[Path], list[RunDirectory]]:
    """Sort paths into traces, and the recordings and runs beside them. Raises BadInput for a path that is neither, and
    without any trace."""
    traces, runs = [], []
    for source in sources:
        if is_trace(source):
            traces.append(Path(source))
            runs += sample_of(Path(source))
        elif len(sources) > 1 and Path(source).exists():
            runs.append(RunDirectory.open(source, samples=True))
        else:
            raise BadInput(
                f"'{source}' is no trace", hint="name a .ctrace file, or the directory that holds them"
            )
    if not traces:
        raise BadInput(
            "none of these is a trace", hint="contend export RECORDING --to perfetto writes one recording"
        )
    return traces, runs
