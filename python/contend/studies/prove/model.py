"""Prove: what each suspect costs a service that runs already, by holding it back for moments."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from contend.studies.model import Names, Scenario, Workloads
from contend.workloads.spec import Duration

By = Literal["auto", "weight", "quota", "io-weight", "nice"]


class Prove(Scenario):
    """A victim as it is, and with each suspect held back for the length of a trial.

    victim: a workload that asks or follows what runs already. called: its name in the answer. suspects: units, cgroups,
    containers, machines, processes or programs of this host. by: how they are held back; auto: by a tenth of their weight
    for CPUs and disks, or else by nice. cpus: with a quota, of so many CPUs. settle: between a change and what is measured.
    """

    study: Literal["prove"]
    victim: Workloads
    called: str = ""
    suspects: Names
    by: By = "auto"
    cpus: float = Field(0.1, gt=0, le=1024)
    settle: Duration = Field(200 * 10**6, ge=0, le=10 * 10**9)

    @model_validator(mode="after")
    def _one_victim(self) -> Prove:
        if len(self.victim) != 1:
            raise ValueError("`victim` is one workload")
        return self

    @field_validator("suspects")
    @classmethod
    def _apart(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a suspect is named twice")
        return names
