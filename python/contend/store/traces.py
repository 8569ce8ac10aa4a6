"""Files of traced programs: which they are, what stands beside them, and what of them could not be told."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.store.damage import note

if TYPE_CHECKING:
    from contend.store.directory import RunDirectory

SUFFIX = ".ctrace"
SAMPLE = "sample"  # in the directory of a trace: the recording of the host that `contend trace --sample` made

# What is counted while a trace is read, in words: one, and many. In the order of what a reader should know first.
_WORDS = {
    "lost": ("event was not recorded: the ring was full", "events were not recorded: the rings were full"),
    "torn_bytes": ("byte at the end of a file is torn", "bytes at the ends of files are torn"),
    "missing": ("event went while it was read", "events went while they were read"),
    "not_closed": (
        "process did not close its file: it ends with its last spill",
        "processes did not close their files: they end with their last spills",
    ),
    "open_at_end": ("span or hold was open at the end", "spans and holds were open at the end"),
    "too_deep": (
        "span is left out: Perfetto has room for 511 inside each other",
        "spans are left out: Perfetto has room for 511 inside each other",
    ),
    "cut": ("span ended with the one around it", "spans ended with those around them"),
    "ends_alone": ("end has no begin", "ends have no begin"),
    "overtaken": (
        "hold of a lock ended when the next began",
        "holds of locks ended when the next ones began",
    ),
    "released_unheld": ("release of a lock that nobody held", "releases of locks that nobody held"),
    "out_of_order": ("event was put after the one before it", "events were put after those before them"),
    "unknown_tracks": ("switch to an unknown track", "switches to unknown tracks"),
    "unknown_locks": ("event of an unknown lock", "events of unknown locks"),
    "stray_details": ("argument of no event", "arguments of no event"),
    "incomplete": ("counter or flow without its number", "counters and flows without their numbers"),
    "bad_records": ("definition could not be read", "definitions could not be read"),
    "moved": (
        "file is of another boot or host: put on one clock by the time of day",
        "files are of another boot or host: put on one clock by the time of day",
    ),
    "bad_syncs": ("reading of the clocks goes back", "readings of the clocks go back"),
    "unknown_chunks": (
        "part of a kind that this version does not know",
        "parts of kinds that this version does not know",
    ),
}


def is_trace(path: str | Path) -> bool:
    """True if the path is a trace file, or a directory that holds some.

    >>> is_trace("/proc")
    False
    """
    try:
        return _is_trace(Path(path))
    except OSError:  # it may not be looked at
        return False


def is_trace_of(run: Path, path: Path) -> bool:
    """True if there is a trace at that path of a run. A link, and what may not be read, is noted as damage."""
    within = path.relative_to(run)
    try:
        for part in (path, *(run / each for each in within.parents if each.name)):
            if part.is_symlink():
                note(part, "", "it is a symbolic link")
                return False
        return _is_trace(path)
    except OSError as error:
        note(path, "", error.strerror or str(error))
        return False


def _is_trace(path: Path) -> bool:
    if path.is_dir():  # glob says nothing of a directory that it may not list
        return any(entry.name.endswith(SUFFIX) for entry in path.iterdir())
    return path.suffix == SUFFIX and path.exists()


def notes(counts: Mapping[str, object]) -> list[str]:
    """Notes that a reader of the trace must know, a sentence each.

    >>> notes({"lost": 3, "cut": 0})
    ['3 events were not recorded: the rings were full']
    """
    texts = []
    for key, (one, many) in _WORDS.items():
        count = counts.get(key, 0)
        if isinstance(count, int) and count:
            texts.append(f"{count:,} {one if count == 1 else many}")
    passed_over = counts.get("passed_over", [])
    assert isinstance(passed_over, list)
    return [*texts, *map(str, passed_over)]


def sample_of(trace: Path) -> list[RunDirectory]:
    """Recordings that `contend trace --sample` made beside the trace."""
    if not (trace / SAMPLE / "sample.json").is_file():
        return []
    from contend.store.directory import RunDirectory

    return [RunDirectory(trace / SAMPLE)]


def columns_of(columns: Mapping[str, list[str] | bytes]) -> dict[str, list[Any]]:
    """Native columns as lists: texts, or little-endian u64."""
    lists: dict[str, list[Any]] = {}
    for name, column in columns.items():
        if isinstance(column, bytes):
            numbers = array("Q")
            numbers.frombytes(column)
            if sys.byteorder == "big":
                numbers.byteswap()
            lists[name] = numbers.tolist()
        else:
            lists[name] = column
    return lists
