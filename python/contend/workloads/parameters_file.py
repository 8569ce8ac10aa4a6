"""Parameters of contend's own generators: one JSON file, which `{parameters}` names in a workload's commands.

The file holds the workload's parameters and the placeholders of the moment, as values and not as text. A generator has one
type with a field for each parameter of its workload, and reads the file into it: a dataclass, or a NamedTuple where the
generator's own start is to cost little. Only its owner can read the file: a parameter may hold a secret of the
environment's.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from contend.errors import BadInput

Fields = TypeVar("Fields")
NAME = "parameters.json"
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}


class Placeholders(NamedTuple):
    """Directories, port and seed of a generator: see `contend.workloads.placeholders`. seconds: its duration if given,
    else 0."""

    work: Path
    out: Path
    cache: Path = Path()
    seed: int = 0
    port: int = 0
    address: str = "127.0.0.1"
    seconds: float = 0.0

    @property
    def run(self) -> Path:
        """Directory of the run, with its ledger: {work} lies two below it."""
        return self.work.parent.parent


def write(path: Path, parameters: Mapping[str, object], placeholders: Placeholders) -> None:
    """Write the file, readable by its owner alone."""
    document = {"schema_version": 1, "parameters": dict(parameters), "placeholders": placeholders._asdict()}
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")


def read(path: Path, kind: type[Fields], seconds: float = 0.0) -> tuple[Fields, Placeholders]:
    """Read the parameters as a `kind`, and the placeholders, with absolute paths. Raises BadInput, with every key that
    is wrong."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}", hint="it is the JSON file of {parameters}"
        ) from error
    parts = document if isinstance(document, dict) else {}
    fields = filled(kind, parts.get("parameters", {}), f"{path}: parameters")
    at = filled(Placeholders, parts.get("placeholders", {}), f"{path}: placeholders")
    return fields, at._replace(work=at.work.resolve(), out=at.out.resolve(), seconds=seconds)


def filled(kind: type[Fields], values: Mapping[str, Any], where: str) -> Fields:
    """Make a `kind` of these values: text, numbers, booleans and paths. Raises BadInput.

    >>> filled(Placeholders, {"work": "/w", "out": "/o", "seconds": 2}, "FILE").seconds
    2.0
    >>> filled(Placeholders, {"work": 1, "home": "/h"}, "FILE")
    Traceback (most recent call last):
    contend.errors.BadInput: FILE: 'home' is unknown; 'work' is 1, not a path; 'out' is missing
    """
    types, optional = typing.get_type_hints(kind), _defaults(kind)
    wrong = [f"'{name}' is unknown" for name in values if name not in types]
    taken: dict[str, Any] = {}
    for name, type_ in types.items():
        if name not in values:
            wrong += [] if name in optional else [f"'{name}' is missing"]
            continue
        try:
            taken[name] = _value(values[name], type_)
        except ValueError:
            wrong.append(f"'{name}' is {json.dumps(values[name])}, not {_word(type_)}")
    if wrong:
        raise BadInput(f"{where}: {'; '.join(wrong)}", hint=f"known: {', '.join(types)}")
    try:
        return kind(**taken)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error


def _defaults(kind: type[Any]) -> frozenset[str]:
    """Names of the fields that may be missing."""
    if issubclass(kind, tuple):
        return frozenset(kind._field_defaults)  # type: ignore[attr-defined]
    from dataclasses import MISSING, fields  # 10 ms that a client of a storm does without

    return frozenset(field.name for field in fields(kind) if field.default is not MISSING)


def _value(value: object, type_: Any) -> object:
    """`value` in that type. Raises ValueError."""
    if choices := typing.get_args(type_):
        if value not in choices:
            raise ValueError
        return value
    if type_ is Path and isinstance(value, str):
        return Path(value)
    if type_ is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type_:
        raise ValueError
    return value


def _word(type_: Any) -> str:
    choices = typing.get_args(type_)
    return f"one of: {', '.join(map(str, choices))}" if choices else _WORDS.get(type_, str(type_))
