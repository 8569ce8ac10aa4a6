"""Storms: batches of jobs, of several sizes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many
from contend.studies.model import Names, PlatformSpec, Scenario
from contend.workloads.spec import Duration, Scalar

Sizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1000)], ...],
    Field(min_length=1),
    BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
]

LOCAL = "local"


class Storm(Scenario):
    """Batches of several sizes: how long each takes, and by how much another job stretches it.

    n: sizes; network: of the servers, none, auto (the cloud's choice), or a network's name; both make cells. The
    smallest, on the first network, is the baseline and the control. cloud: a name in clouds.yaml, or `local`: containers
    or virtual machines of this host.
    """

    study: Literal["storm"]
    workload: str = "boot-storm"
    cloud: str = ""
    n: Sizes = (1, 5, 10, 20)
    network: Names = ("none",)
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = Field(900 * 10**9, gt=0)

    @model_validator(mode="after")
    def _of_clouds(self) -> Storm:
        if self.platform.kind != "bare":
            raise ValueError("a storm is sent from this host as it is: platform is bare")
        taken = {"n", "network", "cloud"} & set(self.parameters)
        if taken:
            raise ValueError(f"`{min(taken)}` is a key of its own here, not one of `parameters`")
        return self

    @property
    def local(self) -> bool:
        """True if its machines are made on this host."""
        return self.cloud == LOCAL

    @property
    def storm_workload(self) -> str:
        """The workload that makes one storm."""
        return "boot-storm-local" if self.local and self.workload == "boot-storm" else self.workload
