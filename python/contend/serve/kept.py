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

import contend
from contend.report import cache
from contend.serve.files import Fingerprint
from contend.serve.reading import RUNNING, Cell, Entry

SCHEMA_VERSION = 1
UNSETTLED_NS = 2 * 10**9  # a file that was written so late may be written again within its clock's resolution


@dataclass(frozen=True, slots=True)
class Kept:
    """The contents read from one directory, as they are kept."""

    fingerprint: Fingerprint
    entry: Entry


@dataclass(frozen=True, slots=True)
class _List:
    made_by: str
    folder: tuple[int, int]  # device and inode
    runs: dict[str, Kept]


def load(folder: Path) -> dict[str, Kept]:
    """Load what is kept of that folder, by name; empty where nothing is, or where it cannot be used."""
    file = _file(folder)
    content = cache.read(file[0]) if file is not None else None
    if file is None or content is None:
        return {}
    try:
        kept_list = _shape().validate_json(content)
    except ValueError:
        return {}
    if kept_list.made_by != _made_by() or kept_list.folder != file[1]:
        return {}
    return {name: kept for name, kept in kept_list.runs.items() if kept.entry.name == name}


def save(folder: Path, runs: Mapping[str, Kept]) -> None:
    """Keep what was read, except of a run that goes on, and of files that were written just now."""
    file = _file(folder)
    if file is None:
        return
    late = time.time_ns() - UNSETTLED_NS
    settled = {
        name: kept
        for name, kept in runs.items()
        if kept.entry.state != RUNNING and all(changed_ns < late for _, changed_ns, _, _ in kept.fingerprint)
    }
    try:
        content = _shape().dump_json(_List(_made_by(), file[1], settled))
    except ValueError:  # a name in it that no JSON can hold
        return
    cache.keep(file[0], content)


def _file(folder: Path) -> tuple[Path, tuple[int, int]] | None:
    """Path of a folder's kept list, and the folder's device and inode; None where it cannot be kept."""
    try:
        about = folder.stat()
    except OSError:
        return None
    of = about.st_dev, about.st_ino
    digest = hashlib.sha256(repr(of).encode()).hexdigest()[:16]
    path = cache.path_of(f"lists/{digest}.json")
    return None if path is None else (path, of)


def _made_by() -> str:
    """Version, schema and fields: what is read may differ between two commits of one version."""
    names = [f.name for shape in (Entry, Cell) for f in fields(shape)]
    return f"{contend.__version__} {SCHEMA_VERSION} {','.join(names)}"


@functools.cache
def _shape() -> TypeAdapter[_List]:
    return TypeAdapter(_List)
