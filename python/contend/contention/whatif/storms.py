"""Storms that are replayed: one a trace, or one a trial of a run; and what edits of them can name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from contend._native import Storm
from contend.errors import BadInput, suggest
from contend.store.directory import RunDirectory
from contend.store.traces import is_trace, is_trace_of

NativeEdit = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: its option, what it names (empty for --jobs), and its number.

    >>> str(Edit("hold", "resources", 0.5)), str(Edit("jobs", "", 128))
    ('--hold resources=0.5', '--jobs 128')
    >>> str(Edit("hold", "resources", 0)), str(Edit("unlock", "resources"))
    ('--hold resources=0', '--unlock resources')
    """

    kind: str
    name: str = ""
    number: float = 0

    def __str__(self) -> str:
        option, value = self.options
        if self.name and any(c in self.name for c in " *?$'\"()"):
            value = value.replace(self.name, f"'{self.name}'", 1)
        return f"{option} {value}"

    @property
    def options(self) -> tuple[str, str]:
        """The option and its value, as arguments of a command.

        >>> Edit("hold", "table 1", 0.5).options, Edit("jobs", "", 128).options
        (('--hold', 'table 1=0.5'), ('--jobs', '128'))
        """
        option = f"--{self.kind.replace('_', '-')}"
        if not self.name:
            return option, f"{self.number:g}"
        numbered = self.number or self.kind == "hold"
        return option, f"{self.name}={self.number:g}" if numbered else self.name

    @property
    def other(self) -> Edit:
        """The same edit at the other extreme of a call's cost, where that is not known."""
        return replace(self, kind="coalesce_other") if self.kind == "coalesce" else self

    @property
    def native(self) -> NativeEdit:
        """The edit as the native module takes it."""
        return self.kind, self.name, self.number


def as_options(edits: Sequence[Edit]) -> list[str]:
    """The edits as arguments of a command, one text each."""
    return [str(edit) for edit in edits]


InterpreterWaits = Literal["recorded", "simulated", "left out"]
"""What a replay makes of waits for the interpreter's lock."""


Guard = tuple[str, str, int | None]
"""Name and site of a condition, and how many it lets in at a time; None: many who share, or one alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """A trace and the storm that it holds."""

    path: str
    storm: Storm
    jobs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    """Conditions that let in so many at a time, by other storms of the program."""

    def taught(self, guards: tuple[Guard, ...]) -> Source:
        """The same storm, read with what others of its program say of conditions. Raises as `open_storms`."""
        taught = replace(self, guards=guards)
        if set(guards) <= set(self.storm.guards()):
            return taught
        return taught.read_again("recorded")

    def read_again(self, interpreter: InterpreterWaits) -> Source:
        """The same storm, with this made of its waits for the interpreter's lock. Raises as `open_storms`."""
        storm = Storm(
            [self.path], self.jobs, interpreter=interpreter, without=self.without, guards=self.guards
        )
        return replace(self, storm=storm)


def open_storms(
    paths: Sequence[str | Path],
    jobs: Sequence[str] = (),
    cell: str | None = None,
    *,
    without: Sequence[str] = (),
) -> list[Source]:
    """Open the storms of traces (each a file or a directory of one storm) and of runs (each trial with traces one).

    `without`: what is not to be recognised in them, to see that the gate notices (names as `Storm` has them).

    Raises BadInput where there is none, where no job is in one, or where a run has several cells and none is chosen.
    """
    traces = [trace for path in paths for trace in _trace_paths(Path(path), cell)]
    sources = [
        Source(str(trace), Storm([str(trace)], jobs, without=without), tuple(jobs), tuple(without))
        for trace in traces
    ]
    learnt = {guard for source in sources for guard in source.storm.guards()}
    # Where nobody who shares came together in a storm, that seems to let in one at a time.
    shared = {guard[:2] for guard in learnt if guard[2] is None}
    learnt -= {guard for guard in learnt if guard[:2] in shared and guard[2] is not None}
    # Of what one storm says otherwise than another nothing is known.
    limits = Counter((name, site) for name, site, _ in learnt)
    known = tuple(sorted(guard for guard in learnt if limits[guard[:2]] == 1))
    return [source.taught(known) for source in sources]


def cells_of(path: str | Path) -> list[str]:
    """Cells of a run whose trials have traces, in the order of their first trials; none of a trace."""
    if is_trace(Path(path)):
        return []
    cells = _cells(Path(path))
    traced = (
        trace.name for trace in sorted((Path(path) / "traces").glob("*")) if is_trace_of(Path(path), trace)
    )
    return list(dict.fromkeys(cells[name] for name in traced if name in cells))


def _trace_paths(path: Path, cell: str | None) -> list[Path]:
    if is_trace(path):
        return [path]
    trials = [trace for trace in sorted((path / "traces").glob("*")) if is_trace_of(path, trace)]
    if not trials:
        missing = (
            "no such file or directory" if not path.exists() else "neither a trace nor a run with traces"
        )
        raise BadInput(f"{path}: {missing}", hint="contend trace -o DIRECTORY -- COMMAND… records one")
    cells = _cells(path)
    of = {trace: cells.get(trace.name, "") for trace in trials}
    known = sorted(set(of.values()))
    if cell is not None:
        if cell not in known:
            raise BadInput(f"{path} has no cell '{cell}'", hint=suggest(cell, known))
        return [trace for trace in trials if of[trace] == cell]
    if len(known) > 1:
        raise BadInput(
            f"{path} has traces of {len(known)} cells: what differs on purpose is no repetition",
            hint=f"--cell CELL, one of: {', '.join(known)}",
        )
    return trials


def _cells(path: Path) -> dict[str, str]:
    """The cell of each trial, by the name of its directory of traces."""
    rows = RunDirectory(path).rows()
    return {Path(row["trace"]).name: row["cell"] for row in rows if row.get("trace")}


def names(sources: Sequence[Source]) -> dict[str, list[str]]:
    """Names that edits can use, over all storms, by kind: `locks`, of those `semaphores`, `pools`, `spans`."""
    by_kind: dict[str, dict[str, None]] = {"locks": {}, "semaphores": {}, "pools": {}, "spans": {}}
    for source in sources:
        parts = source.storm.parts()
        by_kind["locks"].update(dict.fromkeys(row["name"] for row in parts["locks"]))
        semaphores = (row["name"] for row in parts["locks"] if row["semaphore"])
        by_kind["semaphores"].update(dict.fromkeys(semaphores))
        by_kind["pools"].update(dict.fromkeys(row["name"] for row in parts["pools"]))
        by_kind["spans"].update(dict.fromkeys(row[0] for row in parts["spans"]))
    return {kind: sorted(known) for kind, known in by_kind.items()}


_NAMES = {
    "hold": ("locks", "lock that more than one job holds"),
    "unlock": ("locks", "lock that more than one job holds"),
    "remove": ("spans", "span of a job or of what is done for one"),
    "coalesce": ("spans", "call"),
    "global_queue": ("pools", "pool"),
    "workers": ("pools", "pool"),
    "size": ("semaphores", "semaphore or pool of connections"),
}


def check(edits: Iterable[Edit], sources: Sequence[Source]) -> None:
    """Check that every edit's name is in a storm; raises BadInput with the nearest name."""
    known = names(sources)
    for edit in edits:
        if edit.kind not in _NAMES:
            continue
        kind, what = _NAMES[edit.kind]
        if not any(name == edit.name or fnmatchcase(name, edit.name) for name in known[kind]):
            hint = suggest(edit.name, known[kind]) if known[kind] else f"there is no {what} in it"
            raise BadInput(f"{edit}: no {what} is called '{edit.name}'", hint=f"{hint}; --list shows all")


def idle(edits: Iterable[Edit], parts: Sequence[Mapping[str, Any]]) -> Edit | None:
    """The first edit of locks or pools that no job of these storms uses; `parts` of each."""
    for edit in edits:
        kind = _NAMES[edit.kind][0] if edit.kind in _NAMES else "spans"
        if kind == "spans":
            continue
        rows = [row for of in parts for row in of["pools" if kind == "pools" else "locks"]]
        named = [row for row in rows if row["name"] == edit.name or fnmatchcase(row["name"], edit.name)]
        if named and not any(row["jobs"] for row in named):
            return edit
    return None


def listing(sources: Sequence[Source]) -> dict[str, Any]:
    """List the locks, pools and spans of the first storm, with what is known of each."""
    storm = sources[0].storm
    parts, recorded = storm.parts(), storm.recorded()
    locks: dict[tuple[str, str], dict[str, Any]] = {}
    for row, ns in zip(parts["locks"], recorded["lock_ns"], strict=True):
        one = locks.setdefault((row["name"], row["site"]), {**row, "instances": 0, "waited_ns": 0})
        one["instances"] += 1
        one["waited_ns"] += ns
    return {
        "locks": list(locks.values()),
        "pools": [
            {**row, "waited_ns": ns} for row, ns in zip(parts["pools"], recorded["pool_ns"], strict=True)
        ],
        "spans": [
            dict(zip(("name", "count", "calls", "total_ns", "repeated"), row, strict=True))
            for row in parts["spans"]
        ],
    }
