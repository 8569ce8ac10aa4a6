"""Opening what lies below the runs: plain files of plain directories, read whole, at their ends, or up to a point.

Links are not followed and only plain files are opened, because what is read here is shown to whoever may see the page, and
because a pipe would never answer.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

LIMIT = 64 * 2**20  # what is larger is no plan and no environment of ours
MANY = 20_000  # files, after which a size is told as "at least"


@contextmanager
def opened(folder: Path, name: str) -> Iterator[int]:
    """Open the directory `name` in `folder`: a descriptor. Raises OSError for what is no directory there, or is a
    link."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise FileNotFoundError(name)
    fd = os.open(folder / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(directory: int, name: str) -> int:
    """Open a plain file in a directory: a descriptor. Raises OSError, also for a link or a pipe."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{name} is no plain file")
    return fd


def read_file(directory: int, name: str, *, head: int = 0, tail: int = 0) -> bytes:
    """A plain file's bytes: all, or its first `head` and last `tail`. Raises OSError, also for one beyond LIMIT."""
    fd = open_file(directory, name)
    with os.fdopen(fd, "rb") as file:
        size = os.fstat(fd).st_size
        if head or tail:
            first = file.read(head)
            if tail and size > head:
                file.seek(max(head, size - tail))
                return first + file.read(tail)
            return first
        if size > LIMIT:
            raise OSError(f"{name} is larger than {LIMIT >> 20} MiB")
        return file.read()


Fingerprint = tuple[tuple[str, int, int, int], ...]


def fingerprint(directory: int) -> Fingerprint:
    """Fingerprint that changes with a directory: names, times, sizes and inodes of what lies in it. Nothing is opened."""
    members = []
    with os.scandir(directory) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            members.append((entry.name, about.st_mtime_ns, about.st_size, about.st_ino))
    return tuple(sorted(members))


def is_plain(directory: int, name: str, names: set[str]) -> bool:
    """True if that name is there and a plain file's."""
    return name in names and stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def size_of(path: Path) -> tuple[int, bool]:
    """Bytes of all files below a directory, and whether all were counted. What vanishes meanwhile is not counted."""
    total, seen, folders = 0, 0, [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MANY:
                        return total, False
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total, True


def members(text: str, *, until: str) -> dict[str, Any]:
    """Members of a JSON object, in their order, up to the one called `until`. Raises ValueError when it ends before.

    >>> members('{"answer": "42", "design": {"n": 1}, "cells": [1, 2, ', until="cells")
    {'answer': '42', 'design': {'n': 1}}
    """
    try:
        values, whole = from_json(text), True
    except ValueError:
        values, whole = from_json(text, allow_partial=True), False
    if not isinstance(values, dict) or not (whole or until in values):
        raise ValueError(f"no object with {until}")
    return dict(itertools.takewhile(lambda member: member[0] != until, values.items()))
