"""A cell of a plan: one combination of factor levels, with the parties in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contend.platforms.base import Limit
from contend.store.cells import Application, Values
from contend.studies.model import WorkloadRef
from contend.studies.places import Place
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Metric

ALONE = "none"
CONTROL = "none (control)"
APP, COMMAND = "app", "command"  # a command of the user's, as a workload


@dataclass(frozen=True, slots=True)
class Party:
    """One workload in a cell: what it is, and the cap it gets.

    place: None, where the run has one platform. group: parties of one name are one workload with different parameters, and
    take turns on one host, in one directory. caps: the cap by resource, as the scenario has it.
    """

    label: str
    instance: Instance
    limit: Limit = Limit()
    place: Place | None = None
    group: str = ""
    caps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of factor levels. `baseline` is the id of the cell it is compared with, "" for a baseline.

    `control` marks the A/A control: the baseline again, under another label. copies: how many of the victim run at once,
    itself among them; None where that is not varied. numbers: factors that are numbers, by name: the servers of a storm.
    """

    id: str
    victim: Party
    neighbours: tuple[Party, ...]
    factors: Mapping[str, str]
    baseline: str
    control: bool = False
    copies: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> Values:
        """Values that its factors say in words."""
        place = self.victim.place
        return Values(
            _application(self.victim),
            tuple(map(_application, self.neighbours)),
            self.copies,
            None if place is None else place.values,
            self.numbers,
        )

    @property
    def label(self) -> str:
        beside = " + ".join(n.label for n in self.neighbours)
        if "variant" in self.factors or self.victim.place is not None:
            return self.victim.label
        if beside:
            return f"{self.victim.label} beside {beside}"
        return f"{self.victim.label} alone" if "victim" in self.factors else self.victim.label


def _application(of: Party) -> Application:
    return Application(of.instance.workload.name, of.instance.changed, of.caps)


def party(ref: WorkloadRef) -> Party:
    instance = resolve(load_workload(ref.workload), ref.parameters)
    limit = ref.limit.value()
    caps: dict[str, float] = ref.limit.model_dump(exclude_none=True)
    words = [f"{k}={v:g}" for k, v in caps.items()]
    label = instance.label + (f" limited to {','.join(words)}" if words else "")
    return Party(label, instance, limit, caps=caps)


def escape(command: str) -> str:
    """A command whose braces are its own."""
    return command.replace("{", "{{").replace("}", "}}")


COMMAND_METRICS: Mapping[str, Metric] = {
    "wall": Metric(builtin="wall", unit="s", better="lower"),
    "cpu": Metric(builtin="cpu", unit="s", better="lower"),
}
