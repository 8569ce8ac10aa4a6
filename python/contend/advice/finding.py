"""A finding: what slowed whom, the evidence, what to do, and the command that checks it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

from contend.stats.estimate import Estimate
from contend.text.shape import OPTIONAL, Limits, Shape


@dataclass(frozen=True, slots=True)
class Evidence(Shape):
    """One observed quantity, as evidence."""

    what: str
    value: float
    unit: str
    where: Annotated[str, "how to see it again: a cell, a counter, an SQL query"]


@dataclass(frozen=True, slots=True)
class CauseShare(Shape):
    """One cause of an effect, by the evidence."""

    resource: str
    share: Annotated[float, Limits(minimum=0, maximum=1), "of the effect"]
    low: Annotated[float | None, OPTIONAL, "end of the share's interval, at the level of the estimate's"] = (
        None
    )
    high: Annotated[float | None, OPTIONAL, "the other end"] = None


@dataclass(frozen=True, slots=True)
class Treatment(Shape):
    """A neighbour to hold back for a victim, as `contend try` does it for moments: names as `contend prove` has them."""

    victim: str
    suspect: str
    by: Annotated[str, "how: auto, weight, quota …"]


@dataclass(frozen=True, slots=True)
class Expected(Shape):
    """How much the subject will be slowed when `verify` runs, where the advice is right: what `contend try` compares."""

    beside: Annotated[tuple[str, ...], "workloads"]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Finding(Shape):
    """A cause that slowed a victim."""

    id: str
    kind: Annotated[str, "the rule"]
    subject: Annotated[str, "the victim"]
    resource: Annotated[str, "run queue, throttling, disk queue, network, unexplained …"]
    sentence: str
    share: Annotated[float | None, "part of the effect that the evidence explains"]
    estimate: Estimate
    evidence: tuple[Evidence, ...]
    advice: str
    verify: Annotated[str, "a command line, or empty where nothing can verify it"]
    causes: Annotated[tuple[CauseShare, ...], OPTIONAL, "the largest first; `share` is of all of them"] = ()
    edit: Annotated[str, OPTIONAL, "of a hunt: the change, as `contend whatif` takes it"] = ""
    treatment: Annotated[Treatment | None, OPTIONAL, "what `contend try` does about it"] = None
    expected: Annotated[Expected | None, OPTIONAL, "what `contend try` looks for when it runs `verify`"] = (
        None
    )

    def trial(self, run: str) -> str:
        """The command that tries it, where it can be tried; else "". run: the path of what it is a finding of."""
        able = bool(run) and (self.treatment is not None or self.expected is not None)
        return f"contend try {shlex.quote(run.rstrip('/'))}#{self.id}" if able else ""


def set_once(command: str) -> str:
    """The command line without each `--set KEY=…` that a later one of the same key overrides.

    >>> set_once("contend run x --set apps=[a,b] --set sizes=1 --set apps=a")
    'contend run x --set sizes=1 --set apps=a'
    """
    words = shlex.split(command)
    last = {words[at + 1].partition("=")[0]: at for at, word in enumerate(words[:-1]) if word == "--set"}
    kept: list[str] = []
    skip = False
    for at, word in enumerate(words):
        overridden = word == "--set" and last.get("".join(words[at + 1 : at + 2]).partition("=")[0], at) != at
        if not overridden and not skip:
            kept.append(word)
        skip = overridden
    return command if len(kept) == len(words) else shlex.join(kept)
