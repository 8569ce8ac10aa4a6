"""Documents that machines read, from types: a dataclass below `Shape` says once what stands in its JSON and in its schema.

A field's name is its key, its type is what may stand there, and a string in its `Annotated` describes it. The first
paragraph of the docstring describes the object. Marks in `Annotated` change this where a value and its document differ.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Size(Shape):
...     '''How large something is.'''
...     bytes: Annotated[Count, "of the file"]
...     name: Annotated[str, OPTIONAL] = ""
...     @property
...     @computed
...     def kibibytes(self) -> float:
...         '''the same in KiB'''
...         return self.bytes / 1024
>>> Size(512).to_json()
{'bytes': 512, 'kibibytes': 0.5}
>>> schema(Size)["properties"]["bytes"]
{'description': 'of the file', 'minimum': 0, 'type': 'integer'}
>>> schema(Size)["required"]
['bytes', 'kibibytes']

The JSON is made without pydantic, which takes longer to import than most documents take to make; the schema is pydantic's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, reduce
from operator import attrgetter, or_
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints, overload

DIALECT = "https://json-schema.org/draft/2020-12/schema"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Named:
    """A mark for `Annotated`: the key in the document, where that is not the field's name."""

    key: str


@dataclass(frozen=True)
class Through:
    """A mark for `Annotated`: converts the value for the document. The function's return type is what the schema
    says."""

    convert: Callable[[Any], Any]


class Limits:
    """Keywords of JSON Schema that the type does not imply, such as `minimum`."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core), **self.keywords}


class _Mark:
    pass


HIDDEN = _Mark()
"""Is not in the document."""
OPTIONAL = _Mark()
"""Is left out where it is None, an empty string or an empty tuple."""
FLAT = _Mark()
"""A Shape whose own keys stand in the place of its name."""


def finite(value: float) -> float | None:
    """None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


Count = Annotated[int, Limits(minimum=0)]
Finite = Annotated[float, Through(finite)]
"""A number, or null where there is none: NaN, or an infinite bound."""


@overload
def computed(getter: F) -> F: ...
@overload
def computed(*, before: str) -> Callable[[F], F]: ...
def computed(getter: Any = None, *, before: str = "") -> Any:
    """A property that stands in the document: after all fields, or before the member of that name."""

    def mark(of: F) -> F:
        of.__dict__["computed_before"] = before
        return of

    return mark if getter is None else mark(getter)


@dataclass(frozen=True, slots=True)
class Member:
    """One key of a document: how its value is read and made plain, what its schema is made of."""

    key: str
    get: Callable[[Any], Any]
    type: Any
    about: str
    optional: bool
    plain: Callable[[Any], Any]


class Shape:
    """The base of dataclasses that stand in documents."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The document as plain values: str, int, float, bool, None, lists, and dicts by str."""
        row: dict[str, Any] = {}
        for member in members(type(self)):
            value = member.get(self)
            if not (member.optional and (value is None or value in ("", ()))):
                row[member.key] = member.plain(value)
        return row

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _closed(cls, members(cls), handler)


def _closed(of: type, keys: Iterable[Member], handler: Any) -> Any:
    """Give pydantic an object that has no more keys than these."""
    from pydantic_core import core_schema

    made = {
        member.key: core_schema.typed_dict_field(
            handler.generate_schema(member.type),
            required=not member.optional,
            metadata=_described(member.about),
        )
        for member in keys
    }
    return core_schema.typed_dict_schema(
        made,
        extra_behavior="forbid",
        ref=f"{of.__module__}.{of.__qualname__}:{id(of)}",
        metadata=_described(_first_paragraph(of)),
    )


def _described(about: str) -> dict[str, Any]:
    return {"pydantic_js_updates": {"description": about} if about else {}}


def plain(value: Any) -> Any:
    """Make plain values of shapes, mappings and sequences."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Shape):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} has no place in a document")


def members(of: type) -> tuple[Member, ...]:
    """Keys of a document in their order. of: a class below Shape."""
    return _read(of)


@cache
def _read(of: Any) -> tuple[Member, ...]:
    hints = get_type_hints(of, include_extras=True)
    made = [m for field in fields(of) for m in _members(field.name, hints[field.name])]
    for name, value in vars(of).items():
        getter: Any = getattr(value, "func" if isinstance(value, cached_property) else "fget", None)
        if getter is not None and "computed_before" in vars(getter):
            hint = get_type_hints(getter, include_extras=True)["return"]
            about = _first_paragraph(getter)
            at = [m.key for m in made].index(getter.computed_before) if getter.computed_before else len(made)
            made[at:at] = _members(name, Annotated[hint, about])
    return tuple(made)


def _members(name: str, hint: Any) -> list[Member]:
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if HIDDEN in marks:
        return []
    get: Callable[[Any], Any] = attrgetter(name)
    for mark in marks:
        if isinstance(mark, Through):
            kind = get_type_hints(mark.convert, include_extras=True)["return"]
            get = _then(get, mark.convert)
    if FLAT in marks:
        return [replace(m, get=_then(get, m.get)) for m in members(kind)]
    optional = OPTIONAL in marks
    if optional and type(None) in get_args(kind):
        kind = reduce(or_, (of for of in get_args(kind) if of is not type(None)))
    key = next((mark.key for mark in marks if isinstance(mark, Named)), name)
    about = next((mark for mark in reversed(marks) if isinstance(mark, str)), "")
    made_plain = _plainer(kind)
    for mark in marks:
        kind = Annotated[kind, mark] if isinstance(mark, Limits) else kind
    return [Member(key, get, kind, about, optional, made_plain)]


def _plainer(kind: Any) -> Callable[[Any], Any]:
    """The quickest way to plain values of a type: a document may hold a figure of every trial."""
    parts = {get_args(part)[0] if get_origin(part) is Annotated else part for part in get_args(kind)}
    if parts <= {str, int, float, bool, Ellipsis}:
        if get_origin(kind) in (tuple, list, Sequence):
            return list
        if kind in (str, int, float, bool):
            return _same
    return plain


def _same(value: Any) -> Any:
    return value


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: second(first(value))


def _first_paragraph(of: Any) -> str:
    return " ".join((inspect.getdoc(of) or "").partition("\n\n")[0].split())


def schema(of: Any, title: str = "", besides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON Schema of a type. title: of a document; without one it is part of another. besides: types by keys that may
    stand in it too.

    Every object is closed: what its type does not say must not stand in it.
    """
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Keys are names enough."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    class Whole:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            more = (
                Member(key, attrgetter(key), kind, "", True, plain) for key, kind in (besides or {}).items()
            )
            return _closed(of, (*members(of), *more), handler)

    made = TypeAdapter(Whole if besides else of).json_schema(mode="serialization", schema_generator=Untitled)
    return {"$schema": DIALECT, "title": title, **made} if title else made
