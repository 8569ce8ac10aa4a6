"""Sensitivity: what presses on each workload, and how hard each presses, to predict pairs that never met."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many, workload_list
from contend.studies.guard import Fraction
from contend.studies.model import PlatformSpec, Scenario, WorkloadRef
from contend.workloads.spec import Resource

Intensities = Annotated[
    tuple[Annotated[int, Field(ge=1, le=100)], ...],
    Field(min_length=2),
    BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
]


class Sensitivity(Scenario):
    """Each workload as a victim of injectors, one a resource, and as a neighbour of small probes; and pairs of workloads.

    injectors: by resource, a workload whose file says which parameter is its intensity (`neighbour.intensity`).
    intensities: in %. held_out: share of the pairs, drawn by the seed, that the forecast is judged on and that nothing is
    fitted to; six at least where that is not more than half.
    """

    study: Literal["sensitivity"]
    workloads: Annotated[
        tuple[WorkloadRef, ...],
        Field(min_length=2),
        BeforeValidator(workload_list, json_schema_input_type=tuple[WorkloadRef, ...] | dict[str, Any] | str),
    ]
    injectors: dict[Resource, WorkloadRef] = Field(min_length=1)
    intensities: Intensities = (20, 40, 60, 80, 100)
    held_out: Annotated[Fraction, Field(gt=0, le=0.5)] = 0.2
    platform: PlatformSpec = PlatformSpec()
    placement: Literal["same-cpu", "own-cores", "same-host"] = "same-cpu"

    @model_validator(mode="after")
    def _rising(self) -> Sensitivity:
        if list(self.intensities) != sorted(set(self.intensities)):
            raise ValueError("`intensities` rise, and each is there once")
        if any(ref.limit.value() for ref in self.injectors.values()):
            raise ValueError("a limit of an injector would be a second dial: `intensities` are its own")
        return self
