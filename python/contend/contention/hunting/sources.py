"""Sources of traces: files and directories, and runs whose trials were traced."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from contend.errors import BadInput
from contend.store.damage import note
from contend.store.directory import PLAN_FILE, RunDirectory
from contend.store.traces import is_trace, is_trace_of

TRACES = "traces"  # in a run: a directory of traces for each trial


class Group(NamedTuple):
    """Traces of one thing: the trials of a cell, or a trace that was named. cell: "" of a trace."""

    name: str
    traces: tuple[Path, ...]
    cell: str = ""


def groups(sources: Sequence[str]) -> list[Group]:
    """Read which traces belong together, for each source in order; a run gives a group a cell. Raises BadInput."""
    read_groups: list[Group] = []
    for source in sources:
        path = Path(source)
        if is_trace(path):
            read_groups.append(Group(source, (path,)))
        else:
            read_groups += _of_run(source)
    return read_groups


def run_of(trace: Path) -> list[RunDirectory]:
    """The run that this trace is a trial of, in a list; empty where there is none."""
    folder = trace.resolve().parent
    if folder.name != TRACES or not (folder.parent / PLAN_FILE).is_file():
        return []
    return [RunDirectory.open(str(folder.parent))]


def _of_run(source: str) -> list[Group]:
    if not Path(source).exists():
        raise BadInput(
            f"there is no '{source}'",
            hint="contend list runs; contend trace -o TRACE -- COMMAND makes a trace",
        )
    try:
        run = RunDirectory.open(source, samples=True)
    except BadInput as error:
        raise BadInput(
            f"'{source}' is neither a trace nor a run",
            hint="a directory that holds .ctrace files, or a run's",
        ) from error
    cells: dict[str, list[Path]] = {}
    rows = run.rows()
    for row in rows:
        trace = run.path / str(row.get("trace") or f"{TRACES}/{row.get('trial', '')}")
        if row.get("status") == "ok" and row.get("phase") == "counted" and is_trace_of(run.path, trace):
            cells.setdefault(str(row.get("cell", "")), []).append(trace)
    if not cells:
        raise BadInput(
            f"no trial of '{source}' was traced",
            hint="`trace: true` in its scenario, or contend trace -- COMMAND",
        )
    try:
        planned = run.plan()["cells"]
    except BadInput as error:  # a recording has none
        if (run.path / PLAN_FILE).exists():
            note(run.path / PLAN_FILE, "", error.message)
        planned = []
    order = {str(cell.get("id", "")): at for at, cell in enumerate(planned)}
    ordered = sorted(cells.items(), key=lambda item: order.get(item[0], len(order)))
    return [Group(f"{source}: {cell}", tuple(traces), cell) for cell, traces in ordered]


def ordered(all_groups: Sequence[Group], cell: str | None) -> list[Group]:
    """Put the groups of cells that match `cell` first. Raises BadInput where none does."""
    if cell is None:
        return list(all_groups)
    first = [group for group in all_groups if fnmatch.fnmatchcase(group.cell, cell)]
    if not first:
        names = ", ".join(group.cell or group.name for group in all_groups)
        raise BadInput(f"no cell is called '{cell}'", hint=f"there are: {names}")
    return [*first, *(group for group in all_groups if group not in first)]
