"""A finding: what slowed whom, the evidence, what to do, and the command that checks it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from contend.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observed quantity. `where` says how to see it again: a cell, a counter, an SQL query."""

    what: str
    value: float
    unit: str
    where: str

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "value": self.value, "unit": self.unit, "where": self.where}


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` names the rule; `share` is the part (0–1) of the effect that the evidence explains, None unknown."""

    id: str
    kind: str
    subject: str  # the victim
    resource: str  # run queue, throttling, disk queue, network, unexplained …
    sentence: str
    share: float | None
    estimate: Estimate
    evidence: tuple[Evidence, ...]
    advice: str
    verify: str  # a command line, or "" where nothing can verify it
    edit: str = ""  # of a hunt: the edits of `contend whatif` that make the change

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "resource": self.resource,
            "sentence": self.sentence,
            "share": self.share,
            "estimate": self.estimate.to_json(),
            "evidence": [e.to_json() for e in self.evidence],
            "advice": self.advice,
            "verify": self.verify,
            **({"edit": self.edit} if self.edit else {}),
        }


def set_once(command: str) -> str:
    """A command line without the `--set KEY=…` that a later one of the same key overrides.

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
