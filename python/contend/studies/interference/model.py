"""Interference: who slows whom on one host."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many, workload_list
from contend.studies.model import OnHosts, PlatformSpec, WorkloadRef, Workloads

Copies = Annotated[
    tuple[Annotated[int, Field(ge=2, le=256)], ...],
    BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
]


class Interference(OnHosts):
    """Victims alone and beside each neighbour; beside copies of themselves; and in mixes.

    copies: how many of the same at once, the measured one among them. mixes: workloads that run at the same time, each
    measured in its turn.
    """

    study: Literal["interference"]
    victims: Workloads
    neighbours: tuple[WorkloadRef, ...] = Field((), validate_default=False)
    copies: Copies = ()
    mixes: tuple[Workloads, ...] = ()
    platform: PlatformSpec = PlatformSpec()
    placement: Literal["same-cpu", "own-cores", "same-host"] = "same-cpu"
    directions: Literal["one", "both"] = "one"

    @model_validator(mode="before")
    @classmethod
    def _neighbours(cls, value: Any) -> Any:
        if isinstance(value, dict) and "neighbours" in value:
            return {**value, "neighbours": workload_list(value["neighbours"])}
        return value

    @model_validator(mode="after")
    def _somebody_beside(self) -> Interference:
        if not (self.neighbours or self.copies or self.mixes):
            raise ValueError("name `neighbours`, `copies` of the victims, or `mixes`")
        if any(len(mix) < 2 for mix in self.mixes):
            raise ValueError("a mix is of two workloads or more")
        return self
