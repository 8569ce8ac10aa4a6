"""Charts as a page carries them, and what draws them there."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Mapping
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


def embedded(specs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Charts by id as their page carries them: Vega-Lite, in which rows that several layers or charts show stand once.

    A chart's `datasets` are names of `rows`, which stand there as `packed`; report.js puts them in their place.

    >>> layers = [{"mark": "point", "data": {"values": [{"x": 1}]}}, {"mark": "rule", "data": {"values": [{"x": 1}]}}]
    >>> page = embedded({"a": {"layer": layers}, "b": {"mark": "bar", "data": {"values": [{"x": 1}]}}})
    >>> [layer["data"] for layer in page["charts"]["a"]["layer"]], page["rows"]
    ([{'name': 'rows-0'}, {'name': 'rows-0'}], {'rows-0': {'keys': ['x'], 'rows': [[1]]}})
    >>> page["charts"]["b"]
    {'mark': 'bar', 'data': {'name': 'rows-0'}, 'datasets': ['rows-0']}
    """
    tables: dict[str, list[Any]] = {}
    charts = {}
    for id_, spec in specs.items():
        names: dict[str, None] = {}
        bare = _without_rows(spec, tables, names)
        charts[id_] = {**bare, "datasets": list(names)}
    return drawable({"charts": charts, "rows": {name: packed(rows) for name, rows in tables.items()}})


def packed(rows: list[Any]) -> dict[str, Any] | list[Any]:
    """Rows without their keys, and these once; as they are where keys differ. Figures are kept to seven digits.

    >>> packed([{"x": 1, "y": 2.000000049}, {"x": 3, "y": 4.5}])
    {'keys': ['x', 'y'], 'rows': [[1, 2.0], [3, 4.5]]}
    """
    keys = list(rows[0]) if rows and isinstance(rows[0], dict) else []
    if not keys or any(not isinstance(row, dict) or list(row) != keys for row in rows):
        return rows
    return {"keys": keys, "rows": [[_short(value) for value in row.values()] for row in rows]}


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def unpacked(table: dict[str, Any] | list[Any]) -> list[Any]:
    """Rows of a table as `packed` gave it.

    >>> unpacked(packed([{"x": 1}, {"x": 2}]))
    [{'x': 1}, {'x': 2}]
    """
    if isinstance(table, list):
        return table
    return [dict(zip(table["keys"], row, strict=True)) for row in table["rows"]]


def _without_rows(spec: Any, tables: dict[str, list[Any]], names: dict[str, None]) -> Any:
    """The spec with its rows in `tables`, by name, the same ones under the same; `names`: those of this spec."""
    if isinstance(spec, list):
        return [_without_rows(each, tables, names) for each in spec]
    if not isinstance(spec, dict):
        return spec
    made = {}
    for key, value in spec.items():
        if key == "data" and isinstance(value, dict) and isinstance(value.get("values"), list):
            rest = {of: each for of, each in value.items() if of not in ("values", "name")}
            name = next((n for n, rows in tables.items() if rows == value["values"]), f"rows-{len(tables)}")
            tables[name] = value["values"]
            names[name] = None
            made[key] = {**rest, "name": name}
        else:
            made[key] = _without_rows(value, tables, names)
    return made
