"""Errors of pydantic in a YAML file, in the words of the file's author.

Used by `contend.scenario.yaml_file.validate`; nothing else needs it.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from contend.errors import suggest

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from contend.scenario.yaml_file import Loc, YamlFile

_EXPECTED = (  # beginning of pydantic's error type → what the value is not
    ("string_type", "text"),
    ("int_", "a whole number"),
    ("float_", "a number"),
    ("bool_", "true or false"),
    ("tuple_type", "a list"),
    ("list_type", "a list"),
    ("dict_type", "a mapping (key: value)"),
    ("model_", "a mapping (key: value)"),
)


MOST = 200  # mistakes of one file that are looked at: each is searched for in it, and one is told
_ELSEWHERE = dict.fromkeys(
    ("metric", "metrics"),
    "figures stand where they are read: `metrics` of a workload file, or `victims: [{command: {run: ./mine, metrics: …}}]`",
)
"""Keys that stand elsewhere, by what users take them for."""


def describe_all(
    model: type[BaseModel],
    file: YamlFile,
    error: ValidationError,
    advise: Callable[[YamlFile, Loc], str] | None,
) -> list[tuple[int, str, str]]:
    """Describe every error as (line, message, hint), by line; the branches of one union are one error."""
    grouped: dict[Loc, list[Mapping[str, Any]]] = {}
    for item in error.errors(include_url=False)[:MOST]:
        cause = item.get("ctx", {}).get("error")
        loc: Loc = (*item["loc"], *getattr(cause, "loc", ()))  # a MisplacedError says more than its model
        if loc and loc[-1] == "[key]":
            loc = loc[:-1]
        if item["type"] == "missing":
            grouped.setdefault(loc, []).append(item)
        else:
            grouped.setdefault(file.nearest_known(loc), []).append(item)
    unknown = [loc for loc, items in grouped.items() if items[0]["type"] == "extra_forbidden"]
    misspelt = {
        loc
        for loc, items in grouped.items()
        if items[0]["type"] == "missing"
        and any(
            other[:-1] == loc[:-1] and suggest(str(other[-1]), [str(loc[-1])]).startswith("did you mean")
            for other in unknown
        )
    }  # a key that is there under a name much like it is one mistake
    result = [
        (file.line_of(loc), *_describe(model, file, loc, items, advise))
        for loc, items in grouped.items()
        if not _follows(loc, items, grouped) and loc not in misspelt
    ]
    return sorted(result, key=lambda problem: problem[0])


def _follows(loc: Loc, items: list[Mapping[str, Any]], grouped: Mapping[Loc, object]) -> bool:
    """True if a list is too short only because what stands in it is wrong, which is a mistake of its own."""
    within = (other for other in grouped if len(other) > len(loc) and other[: len(loc)] == loc)
    return all(item["type"] == "too_short" for item in items) and any(within)


def _describe(
    model: type[BaseModel],
    file: YamlFile,
    loc: Loc,
    items: list[Mapping[str, Any]],
    advise: Callable[[YamlFile, Loc], str] | None,
) -> tuple[str, str]:
    """Message and hint of the errors at one location."""
    first = items[0]
    kind = first["type"]
    if kind == "missing":
        owner = ".".join(str(part) for part in loc[:-1]) or "the file"
        return f"{owner} needs '{loc[-1]}'", _about(model, loc)
    if kind == "extra_forbidden":
        known = _keys(model, loc[:-1])
        hint = _ELSEWHERE.get(str(loc[-1]), "") if not {"metrics", "metric"} & set(known) else ""
        return f"unknown key '{loc[-1]}'", hint or suggest(str(loc[-1]), known)
    shown = _shown(file, loc)
    hint = (advise(file, loc) if advise else "") or _about(model, loc)
    if kind == "literal_error":
        allowed = [a or b for a, b in re.findall(r"'([^']*)'|(\b\d+\b)", str(first["ctx"]["expected"]))]
        names = [a for a in allowed if a]
        near = suggest(str(file.value_at(loc)), names)
        near = near if near.startswith("did you mean") else ""
        if isinstance(file.value_at(loc), list):
            near = "one value, not a list: make a run of each"
        return f"{shown} is not one of: {', '.join(names)}", hint or near
    if kind == "value_error":
        cause = first["ctx"]["error"]
        return str(cause), getattr(cause, "hint", "") or hint
    expected = list(dict.fromkeys(w for i in items for p, w in _EXPECTED if i["type"].startswith(p)))
    if expected:
        return f"{shown} is not {' or '.join(expected)}", hint
    if kind == "string_pattern_mismatch":
        return f"{shown} does not match {first['ctx']['pattern']}", hint
    return f"{shown}: {first['msg'][:1].lower()}{first['msg'][1:]}", hint


def _shown(file: YamlFile, loc: Loc) -> str:
    """`'key: value'` as it stands in the file, shortened."""
    value = file.value_at(loc)
    text = (
        str(value)
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else json.dumps(value, ensure_ascii=False)
    )
    text = text if len(text) <= 60 else text[:57] + "…"
    keys = [part for part in loc if isinstance(part, str)]
    return f"'{keys[-1]}: {text}'" if keys else f"'{text}'"


def _models(annotation: Any) -> list[Any]:
    """The annotation without Annotated, Optional and Union: what a value of it may be."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _models(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [m for a in typing.get_args(annotation) for m in _models(a)]
    return [annotation]


def _below(annotation: Any, part: str | int) -> list[Any]:
    """Annotations that may stand under key or index `part` of a value of this annotation."""
    result: list[Any] = []
    for candidate in _models(annotation):
        fields = getattr(candidate, "model_fields", None)
        if fields is not None:
            result += [f.annotation for name, f in fields.items() if part in (name, f.alias)]
        elif typing.get_args(candidate):
            result.append(typing.get_args(candidate)[-1 if isinstance(part, str) else 0])
    return result


def _at(model: type[BaseModel], loc: Loc) -> list[Any]:
    annotations: list[Any] = [model]
    for part in loc:
        annotations = [below for annotation in annotations for below in _below(annotation, part)]
    return [candidate for annotation in annotations for candidate in _models(annotation)]


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    """The keys known to the model or models at `loc`, as they are written in a file."""
    names: list[str] = []
    for candidate in _at(model, loc):
        for name, info in getattr(candidate, "model_fields", {}).items():
            if not info.exclude:
                names.append(info.alias or name)
    return names


def _about(model: type[BaseModel], loc: Loc) -> str:
    """The description the model gives of the field at `loc`, if it gives one."""
    for candidate in _at(model, loc[:-1]) if loc else []:
        for name, info in getattr(candidate, "model_fields", {}).items():
            if loc[-1] in (name, info.alias) and info.description:
                return str(info.description)
    return ""


def required(model: type[BaseModel]) -> list[str]:
    """The keys a file of this model cannot do without."""
    return [info.alias or name for name, info in model.model_fields.items() if info.is_required()]
