"""The list of a place from one start of `contend serve` to the next: what was read of each directory, and of which files.

It is kept in the user's cache, never beside the runs. An entry is used only where all files of its directory are as they
were: names, sizes, times and inodes; the entries of another contend, or of a damaged file, are read anew.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from pydantic import TypeAdapter

from contend import __version__
from contend.report import cache
from contend.serve.files import Fingerprint
from contend.serve.reading import RUNNING, Cell, Entry

SCHEMA_VERSION = 1
UNSETTLED_NS = 2 * 10**9  # a file that was written so late may be written again within its clock's resolution


@dataclass(frozen=True, slots=True)
class Kept:
    """The kept reading of one directory."""

    fingerprint: Fingerprint
    entry: Entry


@dataclass(frozen=True, slots=True)
class _List:
    made_by: str
    place: tuple[int, int]  # device and inode
    runs: dict[str, Kept]


def load(place: Path) -> dict[str, Kept]:
    """Load what is kept of that place, by name; nothing where nothing is, or where it cannot be used."""
    found = _file(place)
    content = cache.read(found[0]) if found is not None else None
    if found is None or content is None:
        return {}
    try:
        told = _shape().validate_json(content)
    except ValueError:
        return {}
    if told.made_by != _made_by() or told.place != found[1]:
        return {}
    return {name: kept for name, kept in told.runs.items() if kept.entry.name == name}


def save(place: Path, runs: Mapping[str, Kept]) -> None:
    """Keep what was read. Not of a run that goes on, nor of files that were written just now."""
    found = _file(place)
    if found is None:
        return
    late = time.time_ns() - UNSETTLED_NS
    settled = {
        name: kept
        for name, kept in runs.items()
        if kept.entry.state != RUNNING and all(changed_ns < late for _, changed_ns, _, _ in kept.fingerprint)
    }
    try:
        content = _shape().dump_json(_List(_made_by(), found[1], settled))
    except ValueError:  # a name in it that no JSON can hold
        return
    cache.keep(found[0], content)


def _file(place: Path) -> tuple[Path, tuple[int, int]] | None:
    """Where a place's list is kept, and what it is of."""
    try:
        about = place.stat()
    except OSError:
        return None
    of = about.st_dev, about.st_ino
    digest = hashlib.sha256(repr(of).encode()).hexdigest()[:16]
    path = cache.path_of(f"lists/{digest}.json")
    return None if path is None else (path, of)


def _made_by() -> str:
    """Version, schema and fields: what is read may differ between two commits of one version."""
    names = [f.name for shape in (Entry, Cell) for f in fields(shape)]
    return f"{__version__} {SCHEMA_VERSION} {','.join(names)}"


@functools.cache
def _shape() -> TypeAdapter[_List]:
    return TypeAdapter(_List)
