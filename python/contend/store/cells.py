"""The cells of a run, as plan.json has them: each factor in words for tables, and as a value for calculations."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from contend.store.old_labels import described

Scalar = str | int | float | bool
Provisioning = Literal["", "vanilla", "pinned"]


@dataclass(frozen=True, slots=True)
class Application:
    """A workload, those of its parameters that are not as its file has them, and what it is limited to, by resource.

    >>> Application("fio", {"read": 0}).without("read")
    Application(workload='fio', parameters={}, limits={})
    """

    workload: str
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)

    def without(self, parameter: str) -> Application:
        """The same with one parameter left as the workload's file has it."""
        rest = {name: value for name, value in self.parameters.items() if name != parameter}
        return Application(self.workload, rest, self.limits)

    def to_json(self) -> dict[str, Any]:
        limits = {"limits": dict(self.limits)} if self.limits else {}
        return {"workload": self.workload, "parameters": dict(self.parameters), **limits}


@dataclass(frozen=True, slots=True)
class SizedPlatform:
    """A platform of one size. provisioning: how that is given, "" of the bare host; period_us, burst_us: of a quota.

    placement: of a set of CPUs. host: CPUs of the host, where a study varies that, and host_by how it came to have so many.
    """

    kind: str
    provisioning: Provisioning
    cpus: float
    period_us: int
    burst_us: int
    placement: str
    host: int | None = None
    host_by: str = ""


@dataclass(frozen=True, slots=True)
class Values:
    """Contents of a cell, as values.

    victim: None where no workload is named. copies: how many of the victim run at once, the measured one among them; None
    where that is not varied. platform: None where a study does not compare several. numbers: factors that are numbers.
    """

    victim: Application | None = None
    neighbours: tuple[Application, ...] = ()
    copies: int | None = None
    platform: SizedPlatform | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            **({} if self.victim is None else {"victim": self.victim.to_json()}),
            "neighbours": [neighbour.to_json() for neighbour in self.neighbours],
            **({} if self.copies is None else {"copies": self.copies}),
            **({} if self.platform is None else {"platform": asdict(self.platform)}),
            **({"numbers": dict(self.numbers)} if self.numbers else {}),
        }


NO_VALUES = Values()


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell as plan.json has it: enough to compare, without the workload files it was made from.

    repeats: the factors of the cell that a control measures once more; its own of any other cell.
    """

    id: str
    factors: Mapping[str, str]
    baseline: str
    control: bool
    no_ratio: str = ""  # why the order in which it was measured allows no comparison
    warnings: tuple[str, ...] = ()  # what that order leaves to doubt
    values: Values = NO_VALUES
    repeats: Mapping[str, str] = field(default_factory=dict)

    @property
    def measures(self) -> str:
        """Id of the cell whose condition it measures: of a control its baseline's."""
        return self.baseline if self.control else self.id


def planned_cells(plan: Mapping[str, Any]) -> tuple[PlannedCell, ...]:
    """Read the cells of a checked plan.json (`contend.store.planned`), in its order."""
    factors = {str(c["id"]): c["factors"] for c in plan["cells"]}
    return tuple(
        PlannedCell(
            c["id"],
            c["factors"],
            c["baseline"],
            c["control"],
            c.get("no_ratio", ""),
            tuple(c.get("warnings", ())),
            _recorded(c.get("values"), factors[c["baseline"] if c["control"] else c["id"]]),
            factors[c["baseline"] if c["control"] else c["id"]],
        )
        for c in plan["cells"]
    )


def by_id(plan: Mapping[str, Any]) -> dict[str, PlannedCell]:
    """Planned cells by the id that rows have."""
    return {cell.id: cell for cell in planned_cells(plan)}


def values_of(factors: Mapping[str, str]) -> Values:
    """Read the values of a cell that has them in words only."""
    return _values(described(factors))


def _recorded(values: Mapping[str, Any] | None, factors: Mapping[str, str]) -> Values:
    """Values of a cell; what an earlier contend did not write is read from its factors."""
    earlier = described(factors)
    if values is None:
        return _values(earlier)
    return _values({**values, "numbers": {**earlier.get("numbers", {}), **values.get("numbers", {})}})


def _values(of: Mapping[str, Any]) -> Values:
    return Values(
        _application(of["victim"]) if "victim" in of else None,
        tuple(map(_application, of.get("neighbours", ()))),
        of.get("copies"),
        SizedPlatform(**of["platform"]) if "platform" in of else None,
        of.get("numbers", {}),
    )


def _application(of: Mapping[str, Any]) -> Application:
    return Application(of["workload"], of["parameters"], of.get("limits", {}))


def elsewhere(plan: Mapping[str, Any]) -> frozenset[str]:
    """Ids of the cells in which somebody does the work whom contend did not start: a service that runs already, a cloud.

    >>> cells = [{"id": name, "factors": {"victim": name}} for name in ("shop", "fio")]
    >>> sorted(elsewhere({"workloads": {"shop": {"elsewhere": True}, "fio": {}}, "cells": cells}))
    ['shop']
    """
    return _of(plan, {name for name, of in plan["workloads"].items() if of.get("elsewhere")})


def timed(plan: Mapping[str, Any]) -> frozenset[str]:
    """Ids of the cells whose victim is told how long to go on.

    >>> cells = [{"id": name, "factors": {"victim": name}} for name in ("fio", "gzip")]
    >>> runs = {"fio": {"run": ["fio --runtime {seconds}"]}, "gzip": {"run": ["gzip big"]}}
    >>> sorted(timed({"workloads": runs, "cells": cells}))
    ['fio']
    """
    limited = {name for name, of in plan["workloads"].items() if "{seconds}" in str(of.get("run", ""))}
    return _of(plan, limited)


def _of(plan: Mapping[str, Any], workloads: Container[str]) -> frozenset[str]:
    """Cells in which one of these is measured."""
    named = (
        (cell["id"], cell["factors"].get("victim", cell["factors"].get("variant"))) for cell in plan["cells"]
    )
    return frozenset(cell for cell, victim in named if victim in workloads)
