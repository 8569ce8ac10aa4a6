"""`--set a.b=c`: one value of a scenario changed before it is validated."""

from __future__ import annotations

import re
from typing import Any

from contend.errors import BadInput, ScenarioError, suggest
from contend.scenario.yaml_file import read_yaml
from contend.text.command import command_name
from contend.text.printable import short

TEXTS = (
    "app",
    "directory",
)  # keys whose value is a text, whatever YAML would make of it: a command `true`, or `sh -c 'a: b'`


MOST_KEYS = 32  # of one --set, one inside the other
MOST_ITEMS = 1000
"""Values that one list of a scenario may hold: each makes cells, and a run of thousands would never end."""


def workload_list(value: Any) -> Any:
    """Make a list of `ffmpeg, fio`, of a mapping of names to parameters, or of a list."""
    if isinstance(value, str):
        return _parts(value)
    if isinstance(value, dict):
        value = [{name: parameters} for name, parameters in value.items()]
    return _bounded(value) if isinstance(value, list) else value


def apply_setting(data: dict[str, Any], setting: str) -> dict[str, Any]:
    """A copy of the scenario with `a.b=c` applied. Lists of workloads are indexed by name, which is every workload of that
    name, or by number, which is one.

    >>> apply_setting({"neighbours": ["fio"]}, "neighbours.fio.limit.iops=40000")
    {'neighbours': [{'fio': {'limit': {'iops': 40000}}}]}
    >>> apply_setting({"measure": {"blocks": 3}}, "measure.blocks=5")
    {'measure': {'blocks': 5}}
    >>> apply_setting({"victims": "fio, nginx"}, "victims.fio.depth=4")
    {'victims': [{'fio': {'depth': 4}}, 'nginx']}
    >>> apply_setting({"apps": [{"http": {"network": "host"}}, "http"]}, "apps.http.rate=100")
    {'apps': [{'http': {'network': 'host', 'rate': 100}}, {'http': {'rate': 100}}]}
    >>> apply_setting({"apps": [{"http": {"network": "host"}}, "http"]}, "apps.1.rate=100")
    {'apps': [{'http': {'network': 'host'}}, {'http': {'rate': 100}}]}
    >>> apply_setting({"neighbours": [{"command": "./other -x"}]}, "neighbours.other.limit.iops=100")
    {'neighbours': [{'command': {'run': './other -x', 'limit': {'iops': 100}}}]}
    >>> apply_setting({}, "app=sh -c 'echo yes: no'")
    {'app': "sh -c 'echo yes: no'"}
    """
    path, equals, text = setting.partition("=")
    keys = path.strip().split(".", MOST_KEYS)
    if not equals or not all(keys) or len(keys) > MOST_KEYS:
        raise ScenarioError(
            f"--set '{short(setting)}' is not KEY=VALUE",
            hint="like --set placement=own-cores or --set measure.blocks=20",
        )
    value = text if path.strip() in TEXTS else _value(setting, text)
    if keys[0] in ("victims", "neighbours", "apps", "workloads") and len(keys) > 1:
        data = {**data, keys[0]: workload_list(data.get(keys[0]))}
    changed: dict[str, Any] = _put(data, keys, value, setting)
    return changed


def _value(setting: str, text: str) -> Any:
    """Read the text behind the `=` as it would be in a file, with its bounds on size, depth and aliases."""
    try:
        return read_yaml(text, "the value", ScenarioError).data
    except ScenarioError as error:
        what = re.sub(r"^the value(, line 1)?:? ", "", error.message)
        raise ScenarioError(
            f"--set '{short(setting)}': {what}", hint="quote it for the shell, and for YAML"
        ) from error


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _bounded(text.split(",", MOST_ITEMS))]


def _bounded(values: list[Any]) -> list[Any]:
    if len(values) > MOST_ITEMS:
        raise BadInput(
            f"a list of more than {MOST_ITEMS:,} values", hint="name fewer; several runs can be compared"
        )
    return values


def _put(node: Any, keys: list[str], value: Any, setting: str) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(node, list):
        names = [_name(item) for item in node]
        chosen = [index for index, name in enumerate(names) if name == key]
        chosen = chosen or [index for index in range(len(node)) if key == str(index)]
        if not chosen:
            raise ScenarioError(
                f"--set '{short(setting)}': no '{short(key)}' in that list",
                hint=suggest(key, [name for name in names if name is not None]),
            )
        if not rest:
            raise ScenarioError(
                f"--set '{short(setting)}' replaces a whole workload",
                hint=f"name a parameter: {short(setting.partition('=')[0])}.PARAMETER=…",
            )
        changed = list(node)
        for index in chosen:
            item = node[index]
            if isinstance(item, dict) and "command" in item:
                changed[index] = {"command": _put(_own(item), rest, value, setting)}
                continue
            body = item[names[index]] if isinstance(item, dict) else {}
            changed[index] = {names[index]: _put(body or {}, rest, value, setting)}
        return changed
    if node is None:
        node = {}
    if not isinstance(node, dict):
        raise ScenarioError(
            f"--set '{short(setting)}': '{short(key)}' is inside a plain value",
            hint="contend validate --show prints the scenario's keys",
        )
    return {**node, key: _put(node.get(key), rest, value, setting)}


def _name(item: Any) -> str | None:
    """Name of a workload in a list, written as its name, as a mapping of its name to parameters, or as a command."""
    if isinstance(item, dict) and item:
        if "command" in item:
            own = _own(item)
            return str(own.get("name") or command_name(str(own.get("run", ""))))
        return str(next(iter(item)))
    return item if isinstance(item, str) else None


def _own(item: dict[str, Any]) -> dict[str, Any]:
    """An item of a list, as far as it tells of a command of the user's."""
    body = item["command"]
    return body if isinstance(body, dict) else {"run": body}


def one_or_many(value: Any) -> Any:
    """Make a list of one value, or of `a, b`.

    >>> one_or_many("10ms, 100ms"), one_or_many(2), one_or_many([1])
    (['10ms', '100ms'], [2], [1])
    """
    if isinstance(value, str):
        return _parts(value)
    if isinstance(value, int | float):
        return [value]
    return _bounded(value) if isinstance(value, list) else value
