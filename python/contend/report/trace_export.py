"""The files of a traced program in the formats of others, by native code; and what of them could not be told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from contend.errors import BadInput, HostFailed

SUFFIX = ".ctrace"

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
    "bad_syncs": ("reading of the clocks goes back", "readings of the clocks go back"),
    "unknown_chunks": (
        "part of a kind that this version does not know",
        "parts of kinds that this version does not know",
    ),
}


def is_trace(path: str | Path) -> bool:
    """Whether that is a trace file, or a directory that holds some.

    >>> is_trace("/proc")
    False
    """
    path = Path(path)
    if path.is_dir():
        return any(path.glob(f"*{SUFFIX}"))
    return path.suffix == SUFFIX and path.exists()


def notes(told: Mapping[str, object]) -> list[str]:
    """What a reader of the trace must know of it, a sentence each.

    >>> notes({"lost": 3, "cut": 0})
    ['3 events were not recorded: the rings were full']
    """
    said = []
    for key, (one, many) in _WORDS.items():
        count = told.get(key, 0)
        if isinstance(count, int) and count:
            said.append(f"{count:,} {one if count == 1 else many}")
    passed_over = told.get("passed_over", [])
    assert isinstance(passed_over, list)
    return [*said, *map(str, passed_over)]


def export_trace(source: str | Path, form: str, target: Path) -> dict[str, object]:
    """Write the trace (a file, or a directory of them) in the form "perfetto" or "chrome"; whole or not at all.

    Returns counts: events, processes, bytes (written), and what `notes` makes sentences of. Raises BadInput where
    there is no trace, HostFailed where something cannot be read or written.
    """
    from contend import _native

    if not is_trace(source):
        raise BadInput(
            f"'{source}' is no trace", hint="name a .ctrace file, or the directory that holds them"
        )
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        told = _native.ctrace_export([str(source)], form, str(part))
        os.replace(part, target)  # noqa: PTH105 - as everywhere: old or new, never half
    except OSError as error:
        raise HostFailed(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return told
