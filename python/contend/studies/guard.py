"""Limits on what a run may cost others on the host."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from contend.scenario.yaml_file import field
from contend.units import parse_fraction
from contend.workloads.spec import Duration, Strict

Fraction = Annotated[float, BeforeValidator(field(parse_fraction), json_schema_input_type=float | str)]


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(f"'{url}' is no web address, like http://127.0.0.1:8080/health")
    return url


class Guard(Strict):
    """The run ends within seconds where a limit is passed for `lasting`: others may not be harmed by it.

    run_delay: of the CPU time that processes of others want, the part that they may wait for a CPU. stall: the part of the
    time that a cgroup of others may stand still for memory or a disk, by its pressure. probe: a URL of theirs, asked every
    `every`; slower_than: when its answer is too late. ramp: the parts of the time that neighbours run at first, each for
    `step`, before anything is measured.
    """

    run_delay: Fraction | None = Field(0.2, gt=0, le=1)
    stall: Fraction | None = Field(0.2, gt=0, le=1)
    probe: Annotated[str, AfterValidator(_web_address)] = ""
    slower_than: Duration = Field(500 * 10**6, gt=0)
    every: Duration = Field(10**9, ge=10**8)
    lasting: Duration = Field(2 * 10**9, ge=10**9)
    ramp: tuple[Annotated[Fraction, Field(gt=0, le=1)], ...] = (0.1, 0.3)
    step: Duration = Field(3 * 10**9, ge=10**9)

    @property
    def sentence(self) -> str:
        """The limits as a sentence.

        >>> Guard(stall=None, ramp=(0.1,)).sentence
        'the run ends if, for 2 s, others wait for a CPU more than 20 % of what they want; neighbours begin at 10 %'
        """
        limits = []
        if self.run_delay is not None:
            limits.append(f"others wait for a CPU more than {100 * self.run_delay:g} % of what they want")
        if self.stall is not None:
            limits.append(
                f"a cgroup of others stands still more than {100 * self.stall:g} % for memory or a disk"
            )
        if self.probe:
            limits.append(f"{self.probe} answers later than {self.slower_than / 1e6:g} ms")
        begin = ", ".join(f"{100 * share:g} %" for share in self.ramp)
        ends = (
            f"the run ends if, for {self.lasting / 1e9:g} s, {' or '.join(limits)}" if limits else "no limits"
        )
        return ends + (f"; neighbours begin at {begin}" if begin else "")


def _on(value: Any) -> Any:
    """`true`, or which limits."""
    if isinstance(value, bool):
        return {} if value else None
    return value


Guarded = Annotated[Guard | None, BeforeValidator(_on, json_schema_input_type=bool | Guard)]
