"""Layouts in memory, the differences that they make alone, and instructions as a second witness."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from contend.document import CellResult, Level, MetricInfo
from contend.errors import ScenarioError
from contend.probes.observed import Observations
from contend.scenario.yaml_file import read_yaml
from contend.stats.estimate import Estimate
from contend.store.directory import Row
from contend.studies.compare.cells import cells
from contend.studies.compare.layouts import (
    LAYOUTS,
    Instructions,
    Layouts,
    Witnesses,
    read,
    spread,
    words,
)
from contend.studies.compare.model import Compare
from contend.studies.scenarios import parse

METRIC = MetricInfo("wall", "s", "lower", "", True)
ESTIMATE = Estimate(1.02, 1.01, 1.03, "ratio", 20, 0.95, "HL", "higher")
LEVEL = Level(ESTIMATE, (1.0,), (0,), ())
NEITHER = Observations()


def scenario(**more: object) -> Compare:
    lines = "".join(f"{name}: {str(value).lower()}\n" for name, value in more.items())
    text = f"study: compare\nvariants: [{{name: A, command: 'true {{x}}'}}, {{name: B, command: 'true'}}]\n{lines}"
    made = parse(read_yaml(text, "mine.yaml", ScenarioError))
    assert isinstance(made, Compare)
    return made


def result(value: float, verdict: str = "higher") -> CellResult:
    estimate = replace(ESTIMATE, value=value, low=0.99 * value, high=1.01 * value, verdict=verdict)
    return CellResult("B", {"variant": "B"}, METRIC, LEVEL, LEVEL, estimate, NEITHER, NEITHER)


@pytest.mark.parametrize("between", [0.0, 0.02, 0.05])
def test_the_spread_over_layouts_is_apart_from_that_of_trials(between: float) -> None:
    rng = np.random.default_rng(3)
    known = []
    for _ in range(100):
        of = rng.normal(0, between, LAYOUTS)
        side = [(k, math.exp(of[k] + rng.normal(0, 0.02))) for k in range(LAYOUTS) for _ in range(5)]
        known.append(spread([side]))
    squares = [one[0] ** 2 for one in known if one is not None]
    assert math.sqrt(np.mean(squares)) == pytest.approx(between, abs=0.007)
    seen = sum(one[1] <= 0.05 for one in known if one is not None)
    assert seen <= 12 if between == 0 else seen > 60, "of 100: by chance, or nearly always"


def test_few_trials_tell_no_spread() -> None:
    assert spread([[(0, 1.0), (0, 1.1), (1, 1.0), (2, 1.0)]]) is None


def row(cell: str, layout: int, value: float) -> Row:
    metrics = [{"name": "wall", "value": value}]
    return {"cell": cell, "status": "ok", "layout": layout, "layouts": 8, "metrics": metrics}


def test_the_sides_spreads_are_of_each_side_alone() -> None:
    """One side takes twice as long: that is no spread of its layouts."""
    rows = [
        row(cell, k, base * (1 + 0.01 * k))
        for cell, base in (("A", 1.0), ("B", 2.0))
        for k in range(4)
        for _ in "ab"
    ]
    events = [{"event": "instructions", "variant": "A", "count": 5.0, "by": "perf"}, {"event": "other"}]
    witnesses = read(rows, "wall", linked=False, addresses=True, events=events)
    assert witnesses.layouts is not None and witnesses.layouts.count == 8
    assert witnesses.layouts.spread == pytest.approx(0.0128, abs=0.001)
    assert witnesses.instructions == (Instructions("A", 5.0, "perf"),)
    assert read([], "wall", linked=False, addresses=True, events=[]) == Witnesses(None, ())


def test_a_difference_below_the_spread_is_doubted_and_a_larger_one_is_not() -> None:
    wide = Witnesses(Layouts(8, False, True, 0.03, 0.001), ())
    assert "may be no change of the code" in words(wide, result(1.02), "A")
    assert "differ by 4.2 %" in words(wide, result(1.02), "A")
    assert "may be no change" not in words(wide, result(1.2), "A")
    nothing = "no difference that these trials show"
    for over, p, text in ((0.0, 0.6, nothing), (0.03, 0.2, nothing), (None, None, "too few trials of each")):
        assert text in words(Witnesses(Layouts(4, False, True, over, p), ()), result(1.02), "A")
    fixed = Witnesses(Layouts(4, False, False, 0.0, 0.6), ())
    assert "kernel.randomize_va_space" in words(fixed, result(1.02), "A")
    assert "may be no change" not in words(wide, result(1.001, "unaffected"), "A")


def test_time_that_moved_without_instructions_is_suspect() -> None:
    def counted(second: float) -> Witnesses:
        return Witnesses(None, (Instructions("A", 1e9, "perf"), Instructions("B", second, "perf")))

    assert "instructions did not: suspect layout" in words(counted(1.0001e9), result(1.05), "A")
    text = words(counted(1.05e9), result(1.05), "A")
    assert text == "It executes 5 % more instructions."
    absent = Witnesses(None, (Instructions("A", None, "no counters"),))
    assert words(absent, result(1.05), "A") == "Instructions were not counted: no counters."


def test_cells_run_with_layouts_only_where_that_is_wanted() -> None:
    assert {cell.victim.instance.workload.layouts for cell in cells(scenario())} == {0}
    assert {cell.victim.instance.workload.layouts for cell in cells(scenario(randomise="layout"))} == {
        LAYOUTS
    }
    made = scenario(instructions=True)
    (line,) = cells(made)[0].victim.instance.workload.prepare
    assert line.startswith("{native} instructions --variant A --out {work}/") and line.endswith(
        "-- true {{x}}"
    )
    assert not made.linked
    with pytest.raises(ScenarioError, match="of commands"):
        text = "study: compare\nworkload: fio\nvariants: [{name: A}, {name: B}]\nrandomise: layout\n"
        parse(read_yaml(text, "mine.yaml", ScenarioError))
