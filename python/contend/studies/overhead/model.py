"""Overhead: applications on platforms of several sizes, against the bare host."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from contend.platforms.base import PERIOD_US
from contend.scenario.settings import workload_list
from contend.studies.model import COMMAND, GUESTS, Hypervisor, PlatformSpec, Scenario, WorkloadRef
from contend.studies.overhead import factors
from contend.workloads.spec import Duration


class Overhead(Scenario):
    """Applications on platforms of several sizes, against the bare host.

    apps: workloads; app: a command of the user's in their place, run in `directory`, which the model keeps as one of
    `apps`. provisioning: vanilla gives the
    size by a quota over all CPUs, pinned by a set of CPUs. periods, bursts: of the quota of vanilla, each a cell.
    placements: which CPUs a pinned set gets, close together or apart, each a cell. sizes: CPUs, CPUs/memory, instance
    types; none: a quarter, half and all of the host. hosts: sizes of the host itself, in CPUs, its own always among them;
    hosts_by: the smaller ones by CPUs taken offline, or, where that is not allowed, confined to so many. without: places
    left out, by name, like `container pinned 1 CPU`; those that this host does not give are added. threads: what workloads
    are told of CPUs (`{cpus}`), the size, or what they would see by themselves. hypervisor: who starts guests, qemu by
    itself, libvirt, or the libvirt of that URI. histograms: of the scheduler, by BPF, where that works here.
    """

    study: Literal["overhead"]
    apps: tuple[WorkloadRef, ...] = Field((), validate_default=False)
    platforms: factors.PlatformKinds = ("container",)
    provisioning: factors.Provisionings = ("vanilla", "pinned")
    periods: factors.Periods = (PERIOD_US,)
    bursts: factors.Bursts = (0,)
    placements: factors.Placements = ("packed",)
    sizes: factors.PlatformSizes = ()
    hosts: factors.Hosts = ()
    hosts_by: factors.HostsBy = "auto"
    without: factors.Labels = ()
    threads: Literal["size", "automatic"] = "size"
    engine: Literal["", "docker", "podman", "runc", "crun"] = ""
    image: str = ""
    hypervisor: Hypervisor = "qemu"
    histograms: bool = True
    timeout: Duration = Field(600 * 10**9, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _apps(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        app, directory = value.pop("app", None), value.pop("directory", None)
        if app:
            longest = {"timeout": value["timeout"]} if "timeout" in value else {}
            value["apps"] = [
                {COMMAND: {"run": app} | ({"directory": directory} if directory else {}) | longest}
            ]
        elif directory:
            raise ValueError("`directory` is where `app` runs: there is none")
        if "apps" in value:
            value["apps"] = workload_list(value["apps"])
        return value

    @model_validator(mode="after")
    def _something_to_run(self) -> Overhead:
        if not self.apps:
            raise ValueError("name `apps`, workloads of the catalogue, or an `app`, a command of yours")
        if any(ref.limit.value() for ref in self.apps):
            raise ValueError("a limit of an app would be a second treatment: `sizes` says what it gets")
        if self.hypervisor != "qemu" and not set(self.platforms) & set(GUESTS):
            raise ValueError(
                f"`hypervisor` is of virtual machines: `platforms` has none of {', '.join(GUESTS)}"
            )
        if self.trace is not None:
            raise ValueError("an overhead is measured without traces: what records is not in a container")
        return self

    @property
    def made_on(self) -> PlatformSpec:
        # Unchecked: an engine or an image of the bare host is that of the containers beside it.
        return PlatformSpec.model_construct(
            kind="bare", engine=self.engine, image=self.image, hypervisor=self.hypervisor
        )
