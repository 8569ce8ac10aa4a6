"""The policy of a host: who may be held back there without being asked about, how, when and for how long."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from contend.errors import BadInput
from contend.scenario.yaml_file import read_yaml, validate
from contend.studies.prove import holding
from contend.studies.prove.model import By, Prove
from contend.workloads.spec import Duration, Strict

FILE = Path("/etc/contend/prove.yaml")
_GENTLE: tuple[By, ...] = ("auto", "weight", "quota", "io-weight", "io-limit", "cpuset", "nice", "group")
_LONGEST_NS = 10 * 60 * 10**9


def _of_day(text: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d|24:00", text):
        raise ValueError(f"'{text}' is no time of day, like 22:00")
    return text


Hour = Annotated[str, AfterValidator(_of_day)]


class Rule(Strict):
    """Who may be held back: names as --against has them, or patterns with * of these.

    by: in these ways, all but by freezing where nothing is said. longest: in an experiment of at most this length. since,
    until: between these times of the host's day.
    """

    suspects: Annotated[tuple[str, ...], Field(min_length=1)]
    by: tuple[By, ...] = _GENTLE
    longest: Duration = Field(_LONGEST_NS, gt=0)
    since: Hour = "00:00"
    until: Hour = "24:00"

    def why_not(self, name: str, by: By, scenario: Prove, now: datetime.time) -> str | None:
        """Why it does not allow that; "" where it does, None where it is about others."""
        if not any(fnmatchcase(name, pattern) for pattern in self.suspects):
            return None
        if by not in self.by:
            return f"not by {by}, but by {', '.join(self.by)}"
        if scenario.measure.budget is None or scenario.measure.budget > self.longest:
            return f"for {self.longest / 1e9:g} s at most (--for)"
        if not self._at(f"{now:%H:%M}"):
            return f"from {self.since} to {self.until} only"
        return ""

    def _at(self, now: str) -> bool:
        if self.since <= self.until:
            return self.since <= now < self.until
        return now >= self.since or now < self.until


class Policy(Strict):
    """Who may be held back on this host without being asked about."""

    allow: tuple[Rule, ...]

    def why_not(self, scenario: Prove, now: datetime.time, moved: Collection[str] = ()) -> str:
        """Why it does not allow the experiment; "" where it does. moved: suspects who get a control group of their own."""
        for name in scenario.suspects:
            by: By = "group" if name in moved else scenario.by
            answers = [
                why for rule in self.allow if (why := rule.why_not(name, by, scenario, now)) is not None
            ]
            if "" not in answers:
                return (
                    f"{name} may be held back {answers[0]}" if answers else f"{name} is in none of its rules"
                )
        return ""


def read(file: Path) -> Policy:
    """Read a policy. Raises BadInput."""
    return validate(Policy, read_yaml(file, str(file), BadInput), BadInput)


def allowed(scenario: Prove, file: Path = FILE) -> str:
    """Why the policy of this host does not allow an experiment; "" where it does."""
    if not file.exists():
        return f"there is no policy, {file}"
    rules, moved = read(file), holding.moved(holding.switches(scenario))
    return rules.why_not(scenario, datetime.datetime.now().astimezone().time(), moved)


def check(scenario: Prove) -> None:
    """Raises BadInput where nobody has consented to an experiment."""
    if not scenario.consent and (why := allowed(scenario)):
        raise BadInput(
            f"others' limits are changed only with consent: {why}",
            hint="contend prove asks; in a scenario `consent: true` says so; --dry-run shows every write",
        )
