"""Checks before a run, within its budget: of files on a slow mount, of an engine or a cloud that does not answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from contend.clock import SystemClock
from contend.engine.deadline import Deadline
from contend.errors import BadInput
from contend.interrupts import Interrupts
from contend.units import format_duration

CHECKS_S = 3.0  # even of the shortest budget: to say what would do, instead of that it is spent


@contextmanager
def before_it_began(interrupts: Interrupts, deadline: Deadline) -> Iterator[None]:
    """Raise BadInput where looking at the host alone took the whole budget. No alarm is left when it has not."""
    interrupts.alarm(max(CHECKS_S - deadline.spent_s(), deadline.cut_s()))
    try:
        yield
        interrupts.alarm(math.inf)
    except KeyboardInterrupt:
        if not interrupts.expired:
            raise
        raise BadInput(
            f"the budget of {format_duration(deadline.budget_ns or 0)} was spent on checks, before anything was measured",
            hint="--budget 1m at least; contend doctor says what answers slowly",
        ) from None


@contextmanager
def checking(budget_ns: int | None, began_ns: int | None = None) -> Iterator[None]:
    """As `before_it_began`, for what a command line checks by itself. began_ns: since when the budget is being spent."""
    with (
        Interrupts() as interrupts,
        before_it_began(interrupts, Deadline.of(budget_ns, SystemClock(), began_ns)),
    ):
        yield
