"""Growth: a cloud's control plane as it fills."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many
from contend.studies.model import Names, PlatformSpec, Scenario
from contend.workloads.spec import Duration, Scalar


class Growth(Scenario):
    """Entities of each kind, more and more, and the latency of calls about them.

    kinds: a cell each; modes: what goes on beside the calls; slo: of a typical call; measure.blocks: passes over each
    kind; measure.budget: shared by them, where no `within` of one is among the parameters.
    """

    study: Literal["growth"]
    workload: str = "control-plane-growth"
    cloud: str = ""
    kinds: Names = ("network", "subnet", "port", "router", "volume", "server", "image", "user")
    modes: Annotated[
        tuple[Literal["quiet", "mixed", "neighbour"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("quiet",)
    slo: Duration = 10**9
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = Field(7200 * 10**9, gt=0)

    @model_validator(mode="after")
    def _of_clouds(self) -> Growth:
        if self.platform.kind != "bare":
            raise ValueError("calls are sent from this host as it is: platform is bare")
        taken = {"kind", "modes", "cloud"} & set(self.parameters)
        if taken:
            raise ValueError(f"`{min(taken)}` is a key of its own here, not one of `parameters`")
        if "quiet" not in self.modes:
            raise ValueError("`modes` needs quiet: the others are compared with it")
        if self.measure.target is not None:
            raise ValueError(
                "growth has no target: `measure.target` is null, `measure.blocks` says how many passes"
            )
        return self
