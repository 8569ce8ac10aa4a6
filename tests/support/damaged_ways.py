"""A thousand ways to damage a file."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Way = Callable[[Path, random.Random, Path], None]


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Way:
    def way(path: Path, chance: random.Random, outside: Path) -> None:
        path.write_bytes(change(path.read_bytes(), chance))

    return way


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 30))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Way:
    return _bytes(lambda data, chance: b"".join(change(data.splitlines(keepends=True), chance)))


def _swap(lines: list[bytes], chance: random.Random) -> list[bytes]:
    chance.shuffle(lines)
    return lines


def _double(lines: list[bytes], chance: random.Random) -> list[bytes]:
    at = chance.randrange(len(lines) + 1)
    return lines[:at] + lines[:at][-3:] + lines[at:]


def _drop(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines if chance.random() < 0.7]


def _tear(lines: list[bytes], chance: random.Random) -> list[bytes]:
    at = chance.randrange(len(lines)) if lines else 0
    return [line[: chance.randrange(len(line))] if n == at else line for n, line in enumerate(lines)]


WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, float("nan"), float("inf"), "", "\ud800", "a\0b", "../../../etc", "/etc/passwd", [], {}, [[]],
    {"a": []}, "x" * 5000, [None], {"": None}, 1.5, "1", "\x1b]0;owned\x07",
)  # fmt: skip


def _retyped(value: Any, chance: random.Random) -> Any:
    """The same with something in it of another type, or gone."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _retyped(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], _retyped(value[at], chance), *value[at + 1 :]]
    return chance.choice(WRONG)


def _retype(data: bytes, chance: random.Random) -> bytes:
    try:
        return json.dumps(_retyped(json.loads(data), chance)).encode("utf-8", "replace")
    except ValueError:
        pass
    lines = data.splitlines()
    for _ in range(chance.choice((1, 1, 5))):
        if lines:
            at = chance.randrange(len(lines))
            with contextlib.suppress(ValueError):
                lines[at] = json.dumps(_retyped(json.loads(lines[at]), chance)).encode("utf-8", "replace")
    return b"\n".join(lines) + b"\n"


def _replaced(make: Callable[[Path, Path], None]) -> Way:
    def way(path: Path, chance: random.Random, outside: Path) -> None:
        path.unlink()
        make(path, outside)

    return way


def _half_link(path: Path, outside: Path) -> None:
    """The file whole, and a link where a writer might put its half."""
    path.write_bytes(b"")
    path.with_name(f".{path.name}.part").symlink_to(outside / "secret")


WAYS: Mapping[str, Way] = {
    "truncated": _bytes(lambda data, chance: data[: chance.randrange(len(data) + 1)]),
    "bytes flipped": _bytes(_flip),
    "rows swapped": _lines(_swap),
    "rows doubled": _lines(_double),
    "rows dropped": _lines(_drop),
    "a row torn": _lines(_tear),
    "another type": _bytes(_retype),
    "another type too": _bytes(_retype),
    "and another": _bytes(_retype),
    "empty": _bytes(lambda data, chance: b""),
    "NUL": _bytes(lambda data, chance: bytes(len(data))),
    "nested": _bytes(lambda data, chance: b"[" * 100_000),
    "nested objects": _bytes(lambda data, chance: b'{"a":' * 50_000 + b"\n" + data),
    "no UTF-8": _bytes(lambda data, chance: data.replace(b"a", b"\xff", 3)),
    "a long number": _bytes(
        lambda data, chance: data.replace(b": 1", b": " + b"1" * 5000, 1).replace(b":1", b":" + b"9" * 400, 1)
    ),
    "random": _bytes(lambda data, chance: chance.randbytes(200)),
    "gone": _replaced(lambda path, outside: None),
    "a directory": _replaced(lambda path, outside: path.mkdir()),
    "a FIFO": _replaced(lambda path, outside: os.mkfifo(path)),
    "a link to a secret": _replaced(lambda path, outside: path.symlink_to(outside / "secret")),
    "a link to rows": _replaced(lambda path, outside: path.symlink_to(outside / "torn.ndjson")),
    "a link to /dev/zero": _replaced(lambda path, outside: path.symlink_to("/dev/zero")),
    "a link to itself": _replaced(lambda path, outside: path.symlink_to(path.name)),
    "a link to nothing": _replaced(lambda path, outside: path.symlink_to(outside / "absent")),
    "half": _replaced(_half_link),
}
