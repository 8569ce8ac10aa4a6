"""A cell of a plan: one combination of factor levels, with the parties in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contend.platforms.base import Limit
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
    """One workload in a cell: what it is, and the cap it gets. place: None, where the run has one platform. group: parties
    of one name are one workload with different parameters, and take turns on one host, in one directory."""

    label: str
    instance: Instance
    limit: Limit = Limit()
    place: Place | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of factor levels. `baseline` is the id of the cell it is compared with, "" for a baseline.

    `control` marks the A/A control: the baseline again, under another label.
    """

    id: str
    victim: Party
    neighbours: tuple[Party, ...]
    factors: Mapping[str, str]
    baseline: str
    control: bool = False

    @property
    def label(self) -> str:
        beside = " + ".join(n.label for n in self.neighbours)
        if "variant" in self.factors or self.victim.place is not None:
            return self.victim.label
        return f"{self.victim.label} beside {beside}" if beside else f"{self.victim.label} alone"


def party(ref: WorkloadRef) -> Party:
    instance = resolve(load_workload(ref.workload), ref.parameters)
    limit = ref.limit.value()
    caps = [f"{k}={v:g}" for k, v in ref.limit.model_dump(exclude_none=True).items()]
    label = instance.label + (f" limited to {','.join(caps)}" if caps else "")
    return Party(label, instance, limit)


def escape(command: str) -> str:
    """A command whose braces are its own."""
    return command.replace("{", "{{").replace("}", "}}")


COMMAND_METRICS: Mapping[str, Metric] = {
    "wall": Metric(builtin="wall", unit="s", better="lower"),
    "cpu": Metric(builtin="cpu", unit="s", better="lower"),
}
