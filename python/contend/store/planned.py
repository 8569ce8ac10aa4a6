"""The shape of plan.json for each study, and whether a row is of a cell of it.

A reader looks up a cell's factors by name: each study has its own. A row's factors are those of its cell, so whoever has
checked the plan, and each row against it, need not ask again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from contend.errors import BadInput
from contend.store.rows import JUDGED, Count, Finite, Host, Name, Text, wrong, wrong_trial
from contend.text.masking import mask_value
from contend.units import parse_duration_ns


def _number(text: str) -> str:
    if not (math.isfinite(value := float(text)) and value >= 0):
        raise ValueError("it is no number of 0 or more")
    return text


def _part_of_cpus(text: str) -> str:
    if float(_number(text)) <= 0:
        raise ValueError("it is no number above 0")
    return text


def _whole(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("it is no whole number")
    return text


def _duration(text: str) -> str:
    try:
        parse_duration_ns(text)
    except BadInput as error:
        raise ValueError(error.message) from error
    return text


Number = Annotated[Name, AfterValidator(_number)]
"""A number of 0 or more, as text."""
Cpus = Annotated[Name, AfterValidator(_part_of_cpus)]
"""A number above 0, as text."""
Whole = Annotated[Name, AfterValidator(_whole)]
"""A whole number, as text."""
Duration = Annotated[Name, AfterValidator(_duration)]


class Beside(TypedDict):
    """Factors of a cell with a victim and a neighbour."""

    victim: Name
    neighbour: Name
    placement: Name
    platform: Name


class Role(Beside):
    """Factors of a forecast's cell that needs no others."""

    role: Literal["alone", "pair"]


class Curve(Beside):
    """Factors of a workload's cell under an injector."""

    role: Literal["curve"]
    resource: Name
    intensity: Number


class Calibration(Beside):
    """Factors of a probe's cell under an injector."""

    role: Literal["calibration"]
    probe: Name
    resource: Name
    intensity: Number


class Pressure(Beside):
    """Factors of a probe's cell beside a workload."""

    role: Literal["pressure"]
    probe: Name


class Varied(TypedDict):
    """Factors of a cell that is one of several variants."""

    variant: Name


class Sized(TypedDict):
    """Factors of a cell of platforms and sizes."""

    victim: Name
    platform: Name
    provisioning: Name
    size: Name
    cpus: Cpus
    period: NotRequired[Duration]
    burst: NotRequired[Duration]
    placement: NotRequired[Name]
    host: NotRequired[Whole]
    host_by: NotRequired[Name]


class Placed(Varied):
    """Factors of a cell of hosts and subnets."""

    host: Name
    subnet: Name
    encapsulation: Name
    protocol: Name
    message: Whole
    pairs: Whole
    ends: Name


class Sent(Varied):
    """Factors of a boot storm's cell."""

    n: Whole
    network: Name


class Grown(Varied):
    """Factors of a growth's cell."""

    kind: Name


class Pooled(TypedDict):
    """Factors of a storage sweep's cell."""

    victim: Name
    neighbour: Name
    pool: Name


Scalar = Name | bool | int | Finite


class Application(TypedDict):
    """A workload and those of its parameters that are not as its file has them."""

    workload: Name
    parameters: dict[Name, Scalar]
    limits: NotRequired[dict[Name, Finite]]


class SizedPlatform(TypedDict):
    """A platform of one size, where a study compares several."""

    kind: Name
    provisioning: Literal["", "vanilla", "pinned"]
    cpus: Annotated[float, Field(allow_inf_nan=False, gt=0)]
    period_us: Count
    burst_us: Count
    placement: Name
    host: NotRequired[Count | None]
    host_by: NotRequired[Name]


class Values(TypedDict):
    """Values that the factors of a cell say in words. An earlier contend wrote none."""

    neighbours: list[Application]
    victim: NotRequired[Application]
    copies: NotRequired[Count]
    platform: NotRequired[SizedPlatform]
    numbers: NotRequired[dict[Name, Finite]]


class Cell(TypedDict):
    id: Name
    label: NotRequired[Name]
    factors: dict[Name, Name]
    baseline: Name
    control: bool
    no_ratio: NotRequired[Text]
    warnings: NotRequired[list[Text]]
    values: NotRequired[Values]


class WorkloadFacts(TypedDict):
    dominant: NotRequired[Name]
    elsewhere: NotRequired[bool]
    run: NotRequired[Any]


class BoundWorkload(TypedDict):
    dominant: Name


class FleetPlan(TypedDict):
    hosts: list[Host]


class ScreenDesign(TypedDict):
    """How good a pool's design is."""

    points: Count
    d_efficiency: Finite
    largest_aliasing: Finite


class Screening(TypedDict):
    rounds: Count
    # Nothing is said of a pool of which every point is measured.
    designs: dict[Name, ScreenDesign | Annotated[dict[Name, Finite], Field(max_length=0)]]


class Package(TypedDict):
    name: Name
    version: Name


class PlanFile(TypedDict):
    """plan.json of any study."""

    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    design: Literal["pairs", "blocks of 8"]
    cells: Annotated[list[Cell], Field(min_length=1)]
    workloads: dict[Name, WorkloadFacts]
    trials: list[Annotated[list[Any], Field(min_length=5, max_length=5)]]
    scenario: NotRequired[Name]
    command: NotRequired[Text]
    fail_above: NotRequired[Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    package: NotRequired[Package]
    held_out: NotRequired[list[Name]]
    screening: NotRequired[Screening]
    focus: NotRequired[dict[Name, Name] | None]
    fleet: NotRequired[FleetPlan]


class OverheadPlan(TypedDict):
    workloads: dict[Name, BoundWorkload]


class StoragePlan(TypedDict):
    screening: Screening
    focus: dict[Name, Name] | None


_FACTORS: Mapping[str, Any] = {
    "interference": Beside,
    "sensitivity": Role | Curve | Calibration | Pressure,
    "compare": Varied,
    "overhead": Sized,
    "placement": Placed,
    "storm": Sent,
    "growth": Grown,
    "storage": Pooled,
}
_NEEDED: Mapping[str, tuple[str, ...]] = {"overhead": ("victim", "platform")}
"""Values that a cell of a study has."""
_PLANS: Mapping[str, Any] = {"overhead": OverheadPlan, "storage": StoragePlan}


def wrong_plan(plan: Any, study: str) -> str:
    """Describe what is wrong with a plan.json, "" for nothing. study: of its scenario; "" where that is unknown."""
    if why := wrong(PlanFile, plan) or (wrong(_PLANS[study], plan) if study in _PLANS else ""):
        return why
    factors = _FACTORS.get(study)
    ids = {cell["id"] for cell in plan["cells"]}
    for number, cell in enumerate(plan["cells"]):
        if cell["baseline"] and cell["baseline"] not in ids:
            return f"cells.{number}.baseline: there is no cell {cell['baseline']!r}"
        if factors is not None and (why := wrong(factors, cell["factors"])):
            return f"cells.{number}.factors.{why}"
        for key in _NEEDED.get(study, ("victim",) if "victim" in cell["factors"] else ()):
            if key not in cell.get("values", {key: None}):
                return f"cells.{number}.values.{key}: it is missing"
    if all(cell["baseline"] for cell in plan["cells"]):
        return "cells: none is a baseline"
    return ""


def wrong_row(plan: Mapping[str, Any]) -> Callable[[Any], str]:
    """Make a check of the rows of that plan's trials: what is wrong, "" for nothing."""
    planned = {str(cell["id"]): cell["factors"] for cell in plan["cells"]}
    on_hosts, imported = "fleet" in plan, not plan["workloads"]

    def check(row: Any) -> str:
        if why := wrong_trial(row):
            return why
        factors = planned.get(row["cell"])
        if factors is None:
            return f"the plan has no cell {row['cell']!r}"
        if row["factors"] != factors and mask_value(row["factors"]) != factors:
            return f"its factors are not those of {row['cell']!r}"
        if on_hosts and "host" not in row:
            return "host: it is missing"
        if row["status"] == "ok" and not any(metric["primary"] for metric in row["metrics"]):
            return "metrics: there is no headline metric"
        known = row["evidence"] is JUDGED or any(e["name"] == "samples" for e in row["evidence"])
        if row["status"] == "ok" and imported and not known:
            return "evidence: it has no number of samples"
        return ""

    return check
