"""The data files below docs/results: read, written, and compressed where they are large."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from results import record

RESULTS = record.ROOT / "docs/results"
LARGE_BYTES = 50_000

Data = Mapping[str, Any]


def path_of(name: str, place: Path = RESULTS) -> Path:
    """NAME.json, or NAME.json.xz where that is there."""
    packed = place / f"{name}.json.xz"
    return packed if packed.exists() else place / f"{name}.json"


def load(name: str, place: Path = RESULTS) -> dict[str, Any]:
    """A data file by its name."""
    path = path_of(name, place)
    raw = path.read_bytes()
    document = json.loads(lzma.decompress(raw) if path.suffix == ".xz" else raw)
    if not isinstance(document, dict):
        raise TypeError(f"{path}: not an object")
    return document


def store(name: str, document: Data, place: Path = RESULTS) -> Path:
    """Write it, compressed beyond LARGE_BYTES; the same data give the same bytes."""
    place.mkdir(parents=True, exist_ok=True)
    text = dumps(document).encode()
    plain, packed = place / f"{name}.json", place / f"{name}.json.xz"
    if len(text) > LARGE_BYTES:
        packed.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        plain.unlink(missing_ok=True)
        return packed
    plain.write_bytes(text)
    packed.unlink(missing_ok=True)
    return plain


def save(
    name: str,
    found: Data,
    *,
    seed: int | None = None,
    command: str = "",
    place: Path = RESULTS,
    made: Data | None = None,
) -> dict[str, Any]:
    """What a writer calls: the data with its head, or that of the recording that is on; and the page of it."""
    from results import render  # rendering reads data files

    head = made or record.current().head(seed=seed, command=command)
    document = {"schema_version": 1, "made": head, **found}
    store(name, document, place)
    render.write_pages_of(name, place)
    return document


def save_at(path: Path, found: Data, *, seed: int | None = None, made: Data | None = None) -> dict[str, Any]:
    """`save()` to what `--write` of a program in bench/ names: a path without its suffix."""
    path = path.absolute()
    return save(path.name, found, seed=seed, place=path.parent, made=made)


def dumps(document: Data) -> str:
    """JSON with a line for each part of a part: short, and a change is seen in a diff.

    >>> print(dumps({"a": 1, "rows": [{"x": 1}, {"x": 2}]}))
    {
     "a": 1,
     "rows": [
      {"x": 1},
      {"x": 2}
     ]
    }
    <BLANKLINE>
    """
    return "{\n" + ",\n".join(f" {json.dumps(k)}: {_part(v)}" for k, v in document.items()) + "\n}\n"


def _part(value: object) -> str:
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(f"  {_flat(one)}" for one in value) + "\n ]"
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        return "{\n" + ",\n".join(f"  {json.dumps(k)}: {_flat(v)}" for k, v in value.items()) + "\n }"
    return _flat(value)


def _flat(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
