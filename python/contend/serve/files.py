"""Opening what lies below the runs: plain files of plain directories, read whole, at their ends, or up to a point.

Links are not followed and only plain files are opened, because what is read here is shown to whoever may see the page, and
because a pipe would never answer.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contend.store.damage import document

LIMIT = 64 * 2**20  # what is larger is no plan and no environment of ours
MANY = 20_000  # files, after which a size is told as "at least"
_ODD = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


@contextmanager
def opened(place: Path, name: str) -> Iterator[int]:
    """A descriptor of the directory `name` in `place`. Raises OSError for what is no directory there, or is a link."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise FileNotFoundError(name)
    fd = os.open(place / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(directory: int, name: str) -> int:
    """A descriptor of a plain file in a directory. Raises OSError; a link or a pipe is none."""
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
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            found.append((entry.name, about.st_mtime_ns, about.st_size, about.st_ino))
    return tuple(sorted(found))


def is_plain(directory: int, name: str, names: set[str]) -> bool:
    """True if a name of those is a plain file's."""
    return name in names and stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def size_of(path: Path) -> tuple[int, bool]:
    """Bytes of all files below, and whether all were counted. What vanishes meanwhile is not counted."""
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


def parsed(data: bytes) -> Any:
    """A JSON document. Raises ValueError."""
    return document(data)


def plain(value: Any, data: bytes) -> Any:
    """A JSON value that came of `data`, without what no page and no database can hold: half characters and NUL."""
    if not _ODD.search(data):
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(whole.replace("\\u0000", ""))


def members(text: str, *, until: str) -> dict[str, Any]:
    """Members of a JSON object, in their order, up to the one called `until`. Raises ValueError when it ends before.

    >>> members('{"answer": "42", "design": {"n": 1}, "cells": [1, 2, ', until="cells")
    {'answer': '42', 'design': {'n': 1}}
    """
    decoder = json.JSONDecoder()
    found: dict[str, Any] = {}
    at = _past(text, 0, "{")
    while not text.startswith("}", at):
        key, at = decoder.raw_decode(text, at)
        if key == until:
            return found
        found[key], at = decoder.raw_decode(text, _past(text, at, ":"))
        at = _blank(text, at)
        if text.startswith(",", at):
            at = _blank(text, at + 1)
        elif not text.startswith("}", at):
            raise ValueError(f"neither , nor }} at {at}")
    return found


def _past(text: str, at: int, mark: str) -> int:
    at = _blank(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"no {mark} at {at}")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
