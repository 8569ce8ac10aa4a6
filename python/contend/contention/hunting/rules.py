"""Parts that all rules share: a candidate, its evidence, and where to see it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contend.advice.finding import Evidence
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import Longest
from contend.units import NS_PER_S, format_duration


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding before it is ranked. `ns`: time of the jobs, in sum, that it explains."""

    kind: str
    resource: str
    ns: int
    sentence: str
    evidence: tuple[Evidence, ...]
    advice: str
    edits: str  # of `contend whatif`, "" where none is there
    unsure: bool = False
    """Whether it can be changed is not on record: it stands after what holds jobs up."""
    guessed: bool = False
    """What is looked for is not on record: it may be no waiting at all."""
    key: str = ""
    """Name that is the same in every trace, where `resource` has more in it; else empty."""


Rule = Callable[[Charges], Sequence[Candidate]]


def seconds(what: str, ns: float, where: str) -> Evidence:
    return Evidence(what, round(ns / NS_PER_S, 6), "s", where)


def count(what: str, number: float, unit: str, where: str) -> Evidence:
    return Evidence(what, number, unit, where)


def sql(source: str, query: str) -> str:
    """The command that shows the rows of a table again."""
    return f"contend sql {shlex.quote(source)} {shlex.quote(query)}"


def text(value: str) -> str:
    """A string as a literal of SQL.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def slice_at(source: str, longest: Longest, name: str) -> str:
    """One slice of the exported trace: its name, when and where, and how trace_processor finds it."""
    query = f"select * from slice where ts = {longest.begin_ns} and name = {text(name)}"
    return (
        f"contend export {shlex.quote(source)} --to perfetto: slice '{name}' of {format_duration(longest.ns)} at"
        f" {longest.begin_ns} ns on '{longest.track}' of {longest.process} ({longest.pid}); {query}"
    )


def times(number: float) -> str:
    """
    >>> times(6), times(2.5), times(1234)
    ('6', '2.5', '1,234')
    """
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def went_on(ns: int) -> str:
    """A sentence on who waited for the interpreter's lock when he had what he waited for; empty where nobody did.

    >>> went_on(2_000_000), went_on(0)
    (" Then they waited 2 ms for the interpreter's lock, to go on.", '')
    """
    return f" Then they waited {format_duration(ns)} for the interpreter's lock, to go on." if ns else ""


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
