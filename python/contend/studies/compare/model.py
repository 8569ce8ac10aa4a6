"""Comparison: commands, or settings of one workload, interleaved."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from contend.studies.model import OnHosts, PlatformSpec
from contend.workloads.spec import Duration, Metric, Scalar, Strict


class Variant(Strict):
    """One side of a comparison: a command, what to do before each of its trials, and its surroundings.

    Or, where a workload is compared with itself, its parameters on this side.
    """

    name: str
    command: str = ""
    parameters: dict[str, Scalar] = {}
    prepare: str = ""  # before every trial of this variant, outside the measured window
    stop: str = ""  # after every trial of this variant: ends what `prepare` or the command has left running
    env: dict[str, str] = {}
    directory: str = ""  # where it runs; a directory of the run when empty
    rev: str = (
        ""  # a git revision of the repository at `directory`: cloned for the run, built once by `build`
    )
    build: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Variant:
        if self.rev and not self.directory:
            raise ValueError("a variant with `rev` needs `directory`, the git repository")
        if self.build and not self.rev:
            raise ValueError("`build` goes with `rev`")
        return self


class Compare(OnHosts):
    """Two or more commands, or settings of one workload, interleaved in one run; the first is the baseline.

    parameters: of the workload, on every side that does not say otherwise.
    """

    study: Literal["compare"]
    workload: str = ""
    parameters: dict[str, Scalar] = {}
    variants: tuple[Variant, ...] = Field(min_length=2)
    metrics: dict[str, Metric] = {}
    platform: PlatformSpec = PlatformSpec()
    randomise: Literal["", "layout"] = (
        ""  # of commands: trials run with layouts in memory that are drawn by chance
    )
    instructions: bool = False  # of commands: those of one run each are counted before the first trial
    timeout: Duration = Field(3600 * 10**9, gt=0)

    @property
    def linked(self) -> bool:
        """True if revisions are built several times, linked in other orders."""
        return bool(self.randomise) and any(variant.build for variant in self.variants)

    @model_validator(mode="before")
    @classmethod
    def _cloud_of_the_workload(cls, value: Any) -> Any:
        """`cloud`, which --cloud sets, is a parameter of workloads that speak to one."""
        if (
            not isinstance(value, dict)
            or "cloud" not in value
            or not isinstance(value.get("parameters", {}), dict)
        ):
            return value
        rest = {k: v for k, v in value.items() if k != "cloud"}
        return rest | {"parameters": {**value.get("parameters", {}), "cloud": value["cloud"]}}

    @model_validator(mode="after")
    def _distinct(self) -> Compare:
        names = [v.name for v in self.variants]
        if len(set(names)) != len(names):
            raise ValueError("two variants have the same name")
        return self

    @model_validator(mode="after")
    def _commands_or_a_workload(self) -> Compare:
        for variant in self.variants:
            if not self.workload and not variant.command:
                raise ValueError(f"variant '{variant.name}' needs a `command`")
            own = {
                "command",
                "prepare",
                "stop",
                "env",
                "directory",
                "rev",
                "build",
            } & variant.model_fields_set
            if self.workload and own:
                raise ValueError(f"variant '{variant.name}': `{min(own)}` is the workload's to say")
            if not self.workload and variant.parameters:
                raise ValueError(f"variant '{variant.name}' has `parameters`, but there is no `workload`")
        if self.parameters and not self.workload:
            raise ValueError("`parameters` are a workload's: name one")
        if self.metrics and self.workload:
            raise ValueError("`metrics` are the workload's own")
        if self.workload and (self.randomise or self.instructions):
            raise ValueError("`randomise` and `instructions` are of commands, and here is a workload")
        return self
