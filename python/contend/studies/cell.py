"""A cell of a plan: one combination of factor levels, with the workloads in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contend.errors import ScenarioError
from contend.platforms.base import Limit
from contend.store.cells import Application, Values
from contend.studies.model import OwnCommand, WorkloadRef
from contend.studies.platform_settings import PlatformSetting
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload
from contend.workloads.load import names as workload_names
from contend.workloads.parts import Neighbour
from contend.workloads.spec import Metric, Workload

ALONE = "none"
CONTROL = "none (control)"
OWN_BURNS = 0.02
"""CPUs that a command of the user's has to use as a neighbour, whatever else it is after: less is a program that idles."""


@dataclass(frozen=True, slots=True)
class CellWorkload:
    """A victim or neighbour of a cell: the workload with its parameters, and the cap it gets.

    platform: None, where the run has one. group: workloads of one name are one workload with different parameters, and
    take turns on one host, in one directory. caps: the cap by resource, as the scenario has it.
    """

    label: str
    instance: Instance
    limit: Limit = Limit()
    platform: PlatformSetting | None = None
    group: str = ""
    caps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of factor levels. `baseline` is the id of the cell it is compared with, "" for a baseline.

    `control` marks the A/A control: the baseline again, under another label. copies: how many of the victim run at once,
    itself among them; None where that is not varied. numbers: factors that are numbers, by name: the servers of a storm.
    """

    id: str
    victim: CellWorkload
    neighbours: tuple[CellWorkload, ...]
    factors: Mapping[str, str]
    baseline: str
    control: bool = False
    copies: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> Values:
        """The cell's factors as typed values."""
        platform = self.victim.platform
        return Values(
            _application(self.victim),
            tuple(map(_application, self.neighbours)),
            self.copies,
            None if platform is None else platform.values,
            self.numbers,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that its comparison carries."""
        idle = (n.label for n in self.neighbours if n.instance.workload.neighbour.burning == 0)
        return tuple(
            f"{label} is a control: it need not use anything (burning: 0)" for label in dict.fromkeys(idle)
        )

    @property
    def label(self) -> str:
        beside = " + ".join(n.label for n in self.neighbours)
        if "variant" in self.factors or self.victim.platform is not None:
            return self.victim.label
        if beside:
            return f"{self.victim.label} beside {beside}"
        return f"{self.victim.label} alone" if "victim" in self.factors else self.victim.label


def _application(of: CellWorkload) -> Application:
    return Application(of.instance.workload.name, of.instance.changed, of.caps)


def cell_workload(ref: WorkloadRef) -> CellWorkload:
    instance = instance_of(ref)
    limit = ref.limit.value()
    caps: dict[str, float] = ref.limit.model_dump(exclude_none=True)
    words = [f"{k}={v:g}" for k, v in caps.items()]
    label = instance.label + (f" limited to {','.join(words)}" if words else "")
    return CellWorkload(label, instance, limit, caps=caps)


def instance_of(ref: WorkloadRef) -> Instance:
    """The workload that is referred to, with its parameters. Raises BadInput."""
    if ref.command is not None:
        return resolve(_own_workload(ref.workload, ref.command), ref.parameters)
    return resolve(load_workload(ref.workload), ref.parameters)


def _own_workload(name: str, own: OwnCommand) -> Workload:
    """A command of the user's as a workload. Raises ScenarioError where its name is that of a workload of contend's: a file
    of the user's may have it, as contend init makes one, and what a run has kept still means the command."""
    if name in workload_names(own=False):
        raise ScenarioError(
            f"a command is called '{name}', and so is a workload: tables could not tell them apart",
            hint=f"give the command another name: {{command: {{run: …, name: my-{name}}}}}",
        )
    return Workload(
        name=name,
        title=own.run,
        directory=escape(own.directory),
        run=(escape(own.run),),
        metrics=dict(own.metrics) or dict(COMMAND_METRICS),
        dominant="cpu",
        neighbour=Neighbour(burning=OWN_BURNS),
        trial=f"{own.timeout}ns",  # at most
        timeout=f"{own.timeout}ns",
    )


def escape(command: str) -> str:
    """The command with its braces escaped, so that they are not read as placeholders."""
    return command.replace("{", "{{").replace("}", "}}")


COMMAND_METRICS: Mapping[str, Metric] = {
    "wall": Metric(builtin="wall", unit="s", better="lower"),
    "cpu": Metric(builtin="cpu", unit="s", better="lower"),
}
