"""Charts as a page carries them, and what draws them there."""

from __future__ import annotations

import importlib.resources
import json
import re
from typing import Any

from contend.errors import HostFailed
from contend.text.printable import printable

_CONTROL = re.compile(
    r"\\u(00[01][0-9a-f]|007f|00[89][0-9a-f]|20[0-2][0-9a-f]|206[0-9a-f]|feff|d[89a-f][0-9a-f]{2})"
)


def vega_runtime() -> str:
    """`window.vegaEmbed`, with Vega and Vega-Lite in it: a script that may stand inside a page.

    It is made when contend is built (scripts/backend.py). Raises HostFailed where that was left out.
    """
    try:
        return (importlib.resources.files("contend.report") / "templates/vega.js").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HostFailed(
            "this contend was built without what draws charts", hint="make setup builds a checkout whole"
        ) from None


def drawable(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec whose texts hold no control characters: vl-convert ends the process at the first that XML has not."""
    text = json.dumps(spec)
    if _CONTROL.search(text) is None:
        return spec
    made: dict[str, Any] = _printable(spec)
    return made


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, lines=True)
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


def embedded(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart as its page carries it: Vega-Lite, in which rows that several of its layers show stand once.

    >>> rows = [{"x": 1}]
    >>> layers = [{"mark": "point", "data": {"values": rows}}, {"mark": "rule", "data": {"values": [{"x": 1}]}}]
    >>> chart = embedded({"layer": layers})
    >>> [layer["data"] for layer in chart["layer"]], chart["datasets"]
    ([{'name': 'rows-0'}, {'name': 'rows-0'}], {'rows-0': [{'x': 1}]})
    """
    tables: dict[str, list[Any]] = {}
    bare = _without_rows(spec, tables)
    return drawable({**bare, "datasets": tables})


def _without_rows(spec: Any, tables: dict[str, list[Any]]) -> Any:
    """The spec with its rows as `tables`, by name; the same rows under the same name."""
    if isinstance(spec, list):
        return [_without_rows(each, tables) for each in spec]
    if not isinstance(spec, dict):
        return spec
    made = {}
    for key, value in spec.items():
        if key == "data" and isinstance(value, dict) and isinstance(value.get("values"), list):
            rest = {of: each for of, each in value.items() if of not in ("values", "name")}
            name = next((n for n, rows in tables.items() if rows == value["values"]), f"rows-{len(tables)}")
            tables[name] = value["values"]
            made[key] = {**rest, "name": name}
        else:
            made[key] = _without_rows(value, tables)
    return made
