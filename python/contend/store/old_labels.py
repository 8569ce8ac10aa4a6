"""Labels of earlier contends, read as values: values of cells in plan.json, and flags of trials.

A new plan.json has the values themselves, under `values`, and nothing else parses a label:
tests/unit/project/test_labels.py holds that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from contend.errors import BadInput
from contend.units import parse_duration_ns

_COPIES = re.compile(r"(\d+) more of it")
_APPLICATION = re.compile(
    r"(?P<workload>[^\[ ]+)(?:\[(?P<parameters>.*)\])?(?: limited to (?P<limits>.*))?.*", re.DOTALL
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_OF_A_QUOTA = ("period", "100ms"), ("burst", "0")  # and what it was where it did not say so
_NUMBERS = frozenset({"n", "intensity", "message", "pairs"})
_PROVISIONINGS = ("vanilla", "pinned")


def described(factors: Mapping[str, str]) -> dict[str, Any]:
    """The `values` of a cell's factors, or of those that a control repeats. All parameters are text.

    >>> described({"victim": "http[network=host,rate=9]", "size": "1 CPU"})["victim"]
    {'workload': 'http', 'parameters': {'network': 'host', 'rate': '9'}}
    >>> described({"victim": "x264", "neighbour": "3 more of it"})["copies"]
    4
    >>> described({"victim": "x264", "neighbour": "fio[read=0] limited to iops=100 + fio #2"})["neighbours"]
    [{'workload': 'fio', 'parameters': {'read': '0'}, 'limits': {'iops': 100.0}}, {'workload': 'fio', 'parameters': {}}]
    >>> described({"victim": "x264", "neighbour": "none"})["neighbours"], described({"variant": "A"})
    ([], {'neighbours': []})
    >>> described({"variant": "n=20", "n": "20", "network": "none"})["numbers"]
    {'n': 20.0}
    >>> vm = {"platform": "vm", "provisioning": "vanilla 10ms", "period": "10ms", "cpus": "0.5"}
    >>> described(vm)["platform"]["provisioning"], described(vm)["platform"]["period_us"]
    ('vanilla', 10000)
    """
    values: dict[str, Any] = {"neighbours": []}
    if "victim" in factors:
        values["victim"] = _application(factors["victim"])
    beside = factors.get("neighbour", "none")
    if copies := _COPIES.fullmatch(beside):
        values["copies"] = int(copies[1]) + 1
        values["neighbours"] = [values["victim"]] * int(copies[1]) if "victim" in values else []
    elif beside != "none":
        values["neighbours"] = [_application(label) for label in beside.split(" + ")]
    if {"platform", "provisioning", "cpus"} <= factors.keys():
        with suppress(ValueError, BadInput):  # of a study that is another package's
            values["platform"] = _platform(factors)
    if numbers := {
        key: float(text) for key, text in factors.items() if key in _NUMBERS and _NUMBER.fullmatch(text)
    }:
        values["numbers"] = numbers
    return values


def _platform(factors: Mapping[str, str]) -> dict[str, Any]:
    how = factors["provisioning"].partition(" ")[0]
    period, burst = (parse_duration_ns(factors.get(key, usual)) // 1000 for key, usual in _OF_A_QUOTA)
    return {
        "kind": factors["platform"],
        "provisioning": how if how in _PROVISIONINGS else "",
        "cpus": float(factors["cpus"]),
        "period_us": period,
        "burst_us": burst,
        "placement": factors.get("placement", "packed"),
        **({"host": int(factors["host"]), "host_by": factors["host_by"]} if "host" in factors else {}),
    }


def flag_kind(flag: str) -> str:
    """A trial's flag without the figures that an earlier contend wrote behind it.

    >>> flag_kind("steal: 3 %"), flag_kind("steal")
    ('steal', 'steal')
    """
    return flag.partition(":")[0]


def _application(label: str) -> dict[str, Any]:
    parts = _APPLICATION.fullmatch(label)
    if parts is None:
        return {"workload": label, "parameters": {}}
    limits = {k: float(value) for k, value in _settings(parts["limits"]) if _NUMBER.fullmatch(value)}
    return {
        "workload": parts["workload"],
        "parameters": dict(_settings(parts["parameters"])),
        **({"limits": limits} if limits else {}),
    }


def _settings(text: str | None) -> Iterator[tuple[str, str]]:
    for setting in filter(None, (text or "").split(",")):
        name, _, value = setting.partition("=")
        yield name, value
