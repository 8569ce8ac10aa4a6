"""Placement: what it costs that two instances are on different hosts, or in different subnets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many
from contend.studies.model import PlatformSpec, Scenario, Size
from contend.testbed.placement.layout import MOST_PAIRS
from contend.workloads.spec import Duration, Scalar

CLOUD_TIMEOUT_S = 600
"""Of a trial between instances, where the scenario says nothing: SSH may be slow in them."""
Where = Annotated[
    tuple[Literal["same", "different"], ...],
    Field(min_length=1),
    BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
]


class NetworkPlacement(Scenario):
    """Pairs of instances on the same or different hosts, in the same or different subnets.

    hosts, subnets: crossed; the same of both is the baseline. encapsulation: between different hosts, each a cell.
    protocols, messages: of a pair, crossed with all of these. pairs: how many at once; more than the least are measured
    with the first protocol and message. cloud: a name in clouds.yaml, whose instances they are; "" has namespaces of this
    machine. ends: what that makes them.
    """

    study: Literal["placement"]
    workload: str = "network-placement"
    cloud: str = ""
    ends: Literal["namespaces", "instances"] = "namespaces"
    hosts: Where = ("same", "different")
    subnets: Where = ("same", "different")
    encapsulation: Annotated[
        tuple[Literal["none", "vxlan", "ovs"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("none", "vxlan")
    protocols: Annotated[
        tuple[Literal["tcp", "udp"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("tcp", "udp")
    messages: Annotated[
        tuple[Size, ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=int | str | list[int | str]),
    ] = (1400, 16384)
    pairs: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MOST_PAIRS)], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=int | str | list[int]),
    ] = (1, 2, 4)
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = Field(300 * 10**9, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _of_a_cloud(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("cloud"):
            return {"ends": "instances", "timeout": f"{CLOUD_TIMEOUT_S}s", **given}
        return given

    @property
    def placement_workload(self) -> str:
        """The workload that measures a pair."""
        own = self.workload == "network-placement" and self.ends == "instances"
        return "network-placement-cloud" if own else self.workload

    @model_validator(mode="after")
    def _can_be_compared(self) -> NetworkPlacement:
        if (self.ends == "instances") != bool(self.cloud):
            raise ValueError(
                "`ends` are instances with a `cloud`, and namespaces without: name the cloud alone"
            )
        if self.platform.kind != "bare":
            raise ValueError("pairs are asked for from this machine as it is: platform is bare")
        taken = {"host", "subnet", "encapsulation", "protocol", "message", "pairs"} & set(self.parameters)
        if self.cloud:
            taken |= {"cloud", "places", "most"} & set(self.parameters)
        if taken:
            raise ValueError(f"`{min(taken)}` is a factor here, not one of `parameters`")
        if "same" not in self.hosts or "same" not in self.subnets:
            raise ValueError("`hosts` and `subnets` need same: the others are compared with it")
        if "udp" in self.protocols and max(self.messages) > 65507:
            raise ValueError("UDP takes messages up to 65507 bytes")
        if min(self.messages) < 16 or max(self.messages) > 1_000_000:
            raise ValueError("`messages` are 16 to 1000000 bytes")
        return self
