"""Parts that mechanisms add to a program, and the words in which edits are named."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

Frame = Callable[[str, str], str]
"""Makes the lines that define a job and drive all of them, from the line that opens a job and the lines of its body."""

BROKER = "rabbitmq-server"
"""Needed like a library: programs find the broker that was brought up for them in ZOO_RABBIT."""


@dataclass(frozen=True, slots=True)
class Change:
    """An edit: contend's words for it, and the program's switch that does it.

    kept: part of the waits for what is edited that would be left if nothing else changed (the naive expectation).
    exists: whether contend has words for it yet. general: it is not of a mechanism, but of what every program has.
    """

    options: tuple[str, ...]
    switch: str
    kept: float
    exists: bool = True
    general: bool = False


@dataclass(frozen=True, slots=True)
class Culprit:
    """Something planted. lost: the name by which the program counts what jobs lost in it, or empty where it cannot; names:
    patterns (* and ?) of what a right hunt may call it."""

    lost: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A mechanism's part of a program, as lines of Python.

    top: beside the storm's function. setup: before the jobs, new for each storm. step: within a job, which knows `number`
    and `size`. close: after the jobs. frame: for a mechanism that drives the jobs. alone_ms: of a job that is alone.
    serial_ms: for how long each job keeps the narrowest part of it busy. at_once: jobs that are let in together, 0 for all.
    sizes: of jobs.
    job: span that is a job, where jobs are not marked.
    """

    step: str = ""
    top: str = ""
    setup: str = ""
    close: str = ""
    frame: Frame | None = None
    imports: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    libraries: tuple[str, ...] = ()
    alone_ms: float = 0.0
    serial_ms: float = 0.0
    at_once: int = 0
    sizes: tuple[float, ...] = ()
    job: str = ""


def hold(lock: str, factor: float) -> Change:
    """Holders of the lock need that part of the time for what they do themselves."""
    return Change(("--hold", f"storm.{lock}={factor}"), f"hold:{lock}={factor}", factor)


def remove(span: str) -> Change:
    """The span is not done."""
    return Change(("--remove", span), f"remove:{span}=", 0.0)


def coalesce(call: str, most: int) -> Change:
    """Up to so many calls in a row of one job are one call."""
    return Change(("--coalesce", f"{call}={most}"), f"coalesce:{call}={most}", 1 / most)


def workers(pool: str, now: int, then: int) -> Change:
    """The pool has so many workers."""
    return Change(("--workers", f"storm.{pool}={then}"), f"workers:{pool}={then}", min(now / then, 1.0))


def unnamed_workers(pool: str, now: int, then: int) -> Change:
    """A pool has so many workers, which contend cannot be told: it has no name there that is the same everywhere."""
    return replace(workers(pool, now, then), exists=False)


def global_queue(pool: str) -> Change:
    """All workers take from one queue."""
    return Change(("--global-queue", pool), f"global:{pool}=", 0.5)


def size(name: str, now: int, then: int) -> Change:
    """The semaphore or the pool of connections has that size."""
    return Change(("--size", f"storm.{name}={then}"), f"size:{name}={then}", min(now / then, 1.0))


def jobs(count: int) -> Change:
    """So many jobs, drawn from those that there are."""
    return Change(("--jobs", str(count)), f"jobs:={count}", 1.0, general=True)


def planted(name: str, *others: str) -> Culprit:
    """A culprit whose loss is counted under its name."""
    return Culprit(name, (f"*{name}*", *others))


def lines(text: str) -> str:
    """The text without the indentation of the source that it stands in."""
    return textwrap.dedent(text).strip("\n")


def indented(text: str, by: int = 1) -> str:
    """The lines, so many levels deeper."""
    return textwrap.indent(text, "    " * by)


@dataclass(frozen=True, slots=True)
class Work:
    """A line that takes time, and how many ms. seconds: the expression in it for its time."""

    line: str
    ms: float
    seconds: str = ""


def milliseconds(rng: Random, low: float, high: float) -> float:
    """A time drawn evenly in its logarithm, in ms."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))), 1)


def work(rng: Random, flavour: str, low: float, high: float, *factors: str, cpu: float = 0.2) -> Work:
    """A line that sleeps, or computes if it is short and the dice say so. Times are in ms."""
    took = milliseconds(rng, low, high)
    computes = took <= 4 and rng.random() < cpu
    call = "burn" if computes else "await asyncio.sleep" if flavour == "asyncio" else "time.sleep"
    seconds = " * ".join((f"{took / 1000:.4f}", *factors))
    return Work(f"{call}({seconds})", took, seconds)


def sized(rng: Random) -> tuple[str, ...]:
    """The factor `size`, or none."""
    return ("size",) if rng.random() < 0.4 else ()
