"""Why one side of a comparison of platforms is slower, as far as was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from contend.document import CellResult
from contend.stats.estimate import Estimate
from contend.stats.platform_effects import Effect
from contend.stats.platform_size import Setting
from contend.studies.causes.cause import Cause
from contend.studies.causes.explain import clauses, explain
from contend.studies.overhead.variants import is_of, of_setting, platform_of


@dataclass(frozen=True, slots=True)
class Why:
    """Causes, and these in words as clauses, with what may be one; "" where nothing was seen."""

    causes: tuple[Cause, ...] = ()
    words: str = ""


def of_cell(cell: CellResult) -> Why:
    """Why a cell is slower than its baseline.

    Of a part of a CPU nothing is said: most of what it is throttled for is what was asked for.
    """
    cpus = platform_of(cell.values).cpus
    return _why(cell) if cpus == math.ceil(cpus) else Why()


def of_setting_s_cell(cells: Sequence[CellResult], setting: Setting) -> Why:
    """The same of the cell of a setting."""
    return next((of_cell(cell) for cell in cells if is_of(cell, setting)), Why())


def of_slower_side(cells: Sequence[CellResult], effect: Effect) -> Why:
    """Why the slower side of an effect is slower than the other one: the baseline has no part in it."""
    sides = of_setting(cells, effect)
    if sides is None:
        return Why()
    slow, fast = sides if effect.ratio.value >= 1 else reversed(sides)
    against = replace(slow, estimate=turned(effect.ratio), baseline=fast.treatment)
    return _why(replace(against, baseline_evidence=fast.evidence, worked=None))


_OPPOSITE: dict[str, str] = {"higher": "lower", "lower": "higher"}


def turned(of: Estimate) -> Estimate:
    """The ratio turned so that it is above 1."""
    if of.value >= 1:
        return of
    verdict = _OPPOSITE.get(of.verdict, of.verdict)
    return replace(of, value=1 / of.value, low=1 / of.high, high=1 / of.low, verdict=verdict)


def _why(result: CellResult) -> Why:
    causes = explain(result)
    return Why(tuple(causes), clauses(result, causes))
