"""Prove: what each suspect costs a service that runs already, by holding it back for moments."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from contend.platforms.topology import parse_cpu_list
from contend.studies.model import Names, Scenario, Size, Workloads
from contend.workloads.spec import Duration

By = Literal["auto", "weight", "quota", "io-weight", "io-limit", "cpuset", "nice", "group", "freeze"]
TAKES_CPU: frozenset[By] = frozenset(("auto", "weight", "quota", "nice", "group"))
"""By these a suspect is held back where it loses CPU time, and not otherwise."""


def _cpus(value: Any) -> Any:
    """CPUs as the kernel lists them."""
    if isinstance(value, int):
        return (value,)
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", value):
        raise ValueError(f"'{value}' is no list of CPUs, like 6-7,9")
    return parse_cpu_list(value)


Cpus = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...],
    BeforeValidator(_cpus, json_schema_input_type=str | int | list[int]),
]


class Prove(Scenario):
    """A victim as it is, and with each suspect held back for the length of a trial.

    victim: a workload that asks or follows what runs already. called: its name in the answer. pid: a process of it, which
    is never held back; 0: the one that is followed, or that serves what is asked. figure: the metric of the victim that the
    answer is about, "" for its workload's first. suspects: units, cgroups, containers, machines, processes or programs of
    this host. by: how they are held back; auto: by a tenth of their weight for CPUs and disks, or else by nice, or by group
    where that means nothing; group: moved into a control group of their own with a tenth of a weight. cpus: with a quota,
    of so many CPUs. io: with an io-limit, bytes a second from and to each disk that it has used. apart: with a cpuset, the
    CPUs it may use then. allow_freeze: freezing stops it, and all who wait for it; it is let go at once where the victim
    stands still. settle: between a change and what is measured. consent: others' settings may be changed; without it a
    policy of the host's must allow it.
    """

    study: Literal["prove"]
    victim: Workloads
    called: str = ""
    pid: int = Field(0, ge=0)
    figure: str = ""
    suspects: Names
    by: By = "auto"
    cpus: float = Field(0.1, gt=0, le=1024)
    io: Annotated[Size, Field(ge=4096)] = 10**6
    apart: Cpus = ()
    allow_freeze: bool = False
    consent: bool = False
    settle: Duration = Field(200 * 10**6, ge=0, le=10 * 10**9)

    @property
    def consented(self) -> tuple[str, ...]:
        return self.suspects if self.consent else ()

    @model_validator(mode="after")
    def _one_victim(self) -> Prove:
        if len(self.victim) != 1:
            raise ValueError("`victim` is one workload")
        return self

    @model_validator(mode="after")
    def _allowed(self) -> Prove:
        if self.by == "freeze" and not self.allow_freeze:
            raise ValueError(
                "`by: freeze` stops a suspect and all who wait for it: `allow_freeze: true` allows that"
            )
        if self.by == "cpuset" and not self.apart:
            raise ValueError("`by: cpuset` moves a suspect to other CPUs: `apart` says which, as 6-7")
        return self

    @field_validator("suspects")
    @classmethod
    def _apart(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a suspect is named twice")
        return names
