"""Documents from types: what the marks of `contend.text.shape` do, and that every document of contend has its schema."""

from __future__ import annotations

import importlib
import math
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import jsonschema
import pytest

import contend
from contend.text.shape import (
    FLAT,
    HIDDEN,
    OPTIONAL,
    Count,
    Finite,
    Limits,
    Named,
    Shape,
    Through,
    computed,
    members,
    schema,
)


@dataclass(frozen=True, slots=True)
class Spread(Shape):
    """A spread."""

    low: Finite
    high: Annotated[Finite, "null where the data give no bound"]


def _doubled(value: int) -> Count:
    return 2 * value


@dataclass(frozen=True, slots=True)
class Everything(Shape):
    """One of each
    mark.

    What follows is for who reads the code.
    """

    schema_version: Literal[1] = field(default=1, init=False)
    name: Annotated[str, Named("title")]
    spread: Annotated[Spread, FLAT]
    inner: Annotated[Spread | None, "or none"]
    copies: Annotated[int, Through(_doubled)]
    secret: Annotated[object, HIDDEN]
    share: Annotated[float, Limits(minimum=0, maximum=1)]
    by_size: Mapping[int, tuple[Spread, ...]]
    note: Annotated[str, OPTIONAL] = ""
    maybe: Annotated[float | None, OPTIONAL] = None

    @property
    @computed(before="share")
    def early(self) -> Annotated[bool, Named("soon")]:
        """comes before `share`"""
        return True

    @property
    @computed
    def late(self) -> int | None:
        return None


def everything(**more: Any) -> Everything:
    spread = Spread(1.0, math.inf)
    return Everything("x", spread, spread, 3, object(), 0.5, {2: (spread,)}, **more)


def test_a_document_has_its_keys_in_the_order_of_the_class() -> None:
    nothing_above = {"low": 1.0, "high": None}
    assert list(everything().to_json().items()) == [
        ("schema_version", 1),
        ("title", "x"),
        *nothing_above.items(),
        ("inner", nothing_above),
        ("copies", 6),
        ("soon", True),
        ("share", 0.5),
        ("by_size", {"2": [nothing_above]}),
        ("late", None),
    ]


def test_what_is_optional_is_there_where_it_says_something() -> None:
    told = everything(note="read this", maybe=0.0).to_json()
    assert (told["note"], told["maybe"]) == ("read this", 0.0)
    assert not {"note", "maybe"} & everything().to_json().keys()


def test_the_schema_says_what_the_type_says() -> None:
    made = schema(Everything, "a title")
    jsonschema.Draft202012Validator.check_schema(made)
    assert (made["title"], made["description"]) == ("a title", "One of each mark.")
    own = made["properties"]
    assert list(own)[:5] == ["schema_version", "title", "low", "high", "inner"]
    assert own["high"]["description"] == "null where the data give no bound"
    assert own["soon"] == {"type": "boolean", "description": "comes before `share`"}
    assert own["share"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert own["maybe"] == {"type": "number"}
    assert own["copies"] == {"type": "integer", "minimum": 0}
    assert set(own) - set(made["required"]) == {"note", "maybe"}


@pytest.mark.parametrize(
    "wrong", [{"more": 1}, {"share": 2}, {"copies": -1}, {"low": "low"}, {"schema_version": 2}, {"late": "x"}]
)
def test_a_document_that_is_not_so_is_refused(wrong: Mapping[str, Any]) -> None:
    document = everything(note="x").to_json()
    jsonschema.validate(document, schema(Everything))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, **wrong}, schema(Everything))


def test_a_key_of_another_may_stand_besides() -> None:
    made = schema(Spread, besides={"own": tuple[Spread, ...]})
    jsonschema.validate({**Spread(1, 2).to_json(), "own": [Spread(1, 2).to_json()]}, made)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**Spread(1, 2).to_json(), "own": [{"low": 1}]}, made)


def test_a_value_without_a_place_in_json_is_an_error() -> None:
    @dataclass(frozen=True)
    class Odd(Shape):
        """Odd."""

        value: object

    with pytest.raises(TypeError, match="set has no place in a document"):
        Odd({1}).to_json()


def _shapes(of: type[Shape] = Shape) -> Iterator[type[Shape]]:
    for shape in of.__subclasses__():
        if shape.__module__.startswith("contend.") and hasattr(shape, "__dataclass_fields__"):
            yield shape
        yield from _shapes(shape)


def test_every_document_of_contend_has_a_schema_with_a_description() -> None:
    for module in pkgutil.walk_packages(contend.__path__, "contend."):
        if not module.name.endswith("__main__") and ".testbed" not in module.name:
            importlib.import_module(module.name)
    every = list(_shapes())
    assert len(every) > 100
    for shape in every:
        made = schema(shape)
        assert made["additionalProperties"] is False, shape
        assert list(made["properties"]) == [member.key for member in members(shape)], shape
        assert made["description"] and not made["description"].startswith(f"{shape.__name__}("), shape


def test_documents_are_made_without_pydantic() -> None:
    code = (
        "import sys; from contend.stats.estimate import Estimate\n"
        "Estimate(1.0, 0.9, 1.1, 'ratio', 6, 0.95, '', 'level').to_json()\n"
        "import contend.trace\n"
        "assert not any(name.partition('.')[0] in ('pydantic', 'pydantic_core') for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
