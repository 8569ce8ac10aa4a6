"""The two steps of a sweep's plan: what the screening runs, and which cells it says are worth blocks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contend.errors import BadInput
from contend.stats.surface import surface
from contend.studies.cell import ALONE, Cell
from contend.studies.storage.cells import by_label, pair
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.points import Coding, Point, full, screened, table

if TYPE_CHECKING:
    from contend.stats.surface import Surface

Row = Mapping[str, Any]
TABLE, EFFECT, UNSURE = "the table", "largest neighbour effect", "least certain"
APART = 0.9  # of the coded range of 2: two chosen cells differ by so much in some factor, or one would stand for both


def screen(scenario: Storage, seed: int) -> tuple[list[tuple[int, Cell]], Mapping[str, Any]]:
    """The screening's trials in their order, each with the round it is of, and how good their design is.

    A round is one point on every pool that allows it, alone and beside, in random order: what drifts over the screening
    falls out of the difference between the two, and of that between pools.
    """
    chosen = screened(scenario, seed)
    trials = []
    for number, (point, pools) in enumerate(chosen.rounds):
        cells = [cell for pool in pools for cell in pair(scenario, pool, point)]
        random.Random(f"{seed}/screening/{number}").shuffle(cells)
        trials += [(number, cell) for cell in cells]
    return trials, chosen.to_json()


@dataclass(frozen=True)
class Fits:
    """The surfaces of one pool. iops, latency: alone, in IOPS and s; slowdown: time beside over time alone."""

    pool: Pool
    coding: Coding
    iops: Surface | None
    latency: Surface | None
    slowdown: Surface | None
    points: tuple[
        tuple[Point, float, float, float], ...
    ]  # each with IOPS alone, p99 alone, IOPS beside (NaN: none)


def fits(scenario: Storage, rows: Iterable[Row]) -> tuple[Fits, ...]:
    """The surfaces of every pool from the screening's rows; None where there are too few points."""
    measured = _measured(rows)
    known = by_label(scenario)
    fitted = []
    for pool in scenario.named:
        coding = Coding(scenario, pool)
        mine = [
            (known[victim][1], values)
            for victim, values in measured.items()
            if victim in known and known[victim][0].name == pool.name
        ]
        alone = [(coding.at(p), v) for p, v in mine if "alone" in v]
        both = [(coding.at(p), v["alone"][0] / v["beside"][0]) for p, v in mine if len(v) == 2]
        points = tuple(
            (p, *v.get("alone", (math.nan, math.nan)), v.get("beside", (math.nan, math.nan))[0])
            for p, v in mine
        )
        fitted.append(
            Fits(
                pool,
                coding,
                _fit([(at, v["alone"][0]) for at, v in alone]),
                _fit([(at, v["alone"][1]) for at, v in alone if math.isfinite(v["alone"][1])]),
                _fit(both),
                points,
            )
        )
    return tuple(fitted)


def _measured(rows: Iterable[Row]) -> dict[str, dict[str, tuple[float, float]]]:
    """IOPS and p99 by victim, alone and beside."""
    by_victim: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        if row["phase"] != "screening" or row["status"] != "ok":
            continue
        values = {m["name"]: float(m["value"]) for m in row["metrics"]}
        side = "alone" if row["factors"]["neighbour"] == ALONE else "beside"
        if values.get("iops", 0) > 0:
            latency = values.get("latency_p99", math.nan)
            by_victim.setdefault(row["factors"]["victim"], {})[side] = (
                values["iops"],
                latency if latency > 0 else math.nan,
            )
    return by_victim


def _fit(values: Sequence[tuple[Sequence[float], float]]) -> Surface | None:
    try:
        return surface([at for at, _ in values], [v for _, v in values])
    except BadInput:
        return None


def choose(scenario: Storage, rows: Iterable[Row]) -> dict[str, str]:
    """The victims whose cells are measured in blocks, with the reason: those of the table, and those that the screening's
    fit points at.

    Of each pool, half of `focus` are where the fit has the largest effect of the neighbour, half where it is least certain
    of it. Each is apart from those chosen before. The same rows give the same choice.
    """
    chosen: dict[str, str] = {}
    for of in fits(scenario, rows):
        mine = table(scenario, of.pool)
        chosen |= {f"{of.pool.name} {point.label}": TABLE for point in mine}
        if of.slowdown is None:
            continue
        candidates = [(p, of.slowdown.at(of.coding.at(p))) for p in full(scenario, of.pool)]
        by_effect = sorted(candidates, key=lambda c: -abs(c[1].value))
        by_doubt = sorted(candidates, key=lambda c: -c[1].half_width)
        wanted = {EFFECT: (scenario.focus + 1) // 2, UNSURE: scenario.focus // 2}
        taken = [of.coding.at(p) for p in mine]
        for why, ordered in ((EFFECT, by_effect), (UNSURE, by_doubt)):
            for point in _apart((p for p, _ in ordered), of.coding, taken, wanted[why]):
                chosen[f"{of.pool.name} {point.label}"] = why
    return chosen


def _apart(
    ordered: Iterable[Point], coding: Coding, taken: list[tuple[float, ...]], wanted: int
) -> Iterator[Point]:
    """The first so many that are no near neighbours of what is taken; they are taken then."""
    for point in ordered:
        if wanted <= 0:
            return
        at = coding.at(point)
        if all(max(abs(a - b) for a, b in zip(at, other, strict=True)) >= APART for other in taken):
            taken.append(at)
            wanted -= 1
            yield point
