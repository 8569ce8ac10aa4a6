"""More of the same at once, and mixes: which cells that makes, and what is said of a curve."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import pytest

from contend.document import CellResult, Level, MetricInfo
from contend.errors import ScenarioError
from contend.probes.observed import Observations
from contend.scenario.yaml_file import read_yaml
from contend.stats.estimate import MATTERS, Estimate, verdict_of
from contend.store.cells import Application, Values
from contend.studies.cell import ALONE, CONTROL
from contend.studies.interference.copies import CopiesCurve, lines, read
from contend.studies.interference.plots import copies_plots
from contend.studies.model import Scenario
from contend.studies.registry import cells_of
from contend.studies.scenarios import parse
from contend.text.shape import schema


def scenario(text: str) -> Scenario:
    return parse(read_yaml("study: interference\n" + text, "mine.yaml", ScenarioError))


def test_copies_run_beside_the_measured_one_each_in_a_place_of_its_own() -> None:
    cells = cells_of(scenario("victims: [stress-cpu]\ncopies: [4, 2]\nplacement: same-host"))
    assert [cell.factors["neighbour"] for cell in cells] == [ALONE, CONTROL, "1 more of it", "3 more of it"]
    four = cells[-1]
    assert [party.label for party in four.neighbours] == [f"stress-cpu #{n}" for n in (2, 3, 4)]
    assert all(party.instance == four.victim.instance for party in four.neighbours)
    assert (
        four.baseline == "stress-cpu|none"
        and four.label == "stress-cpu beside stress-cpu #2 + stress-cpu #3 + stress-cpu #4"
    )


def test_every_member_of_a_mix_is_measured_in_its_turn() -> None:
    cells = cells_of(scenario("victims: [fio]\nmixes: [[fio, redis, redis], [redis, nginx]]"))
    found = {(cell.factors["victim"], cell.factors["neighbour"]) for cell in cells if cell.neighbours}
    assert found == {
        ("fio", "redis + redis #2"), ("redis", "fio + redis #2"), ("redis", "nginx"), ("nginx", "redis"),
    }  # fmt: skip
    assert all(len({n.label for n in cell.neighbours}) == len(cell.neighbours) for cell in cells)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("victims: [fio]", "`copies`"),
        ("victims: [fio]\ncopies: [1]", "2"),
        ("victims: [fio]\nmixes: [[fio]]", "a mix is of two"),
    ],
)
def test_nobody_beside_is_no_study(text: str, word: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        scenario(text)
    assert word in f"{raised.value.message} {raised.value.hint}"


def cell(copies: int, low: float, value: float, high: float, *, cpu: float = 1.9) -> CellResult:
    verdict = "too few" if math.isinf(high) else verdict_of(low, high)
    estimate = Estimate(value, low, high, "ratio", 10, 0.95, "HL", verdict).judged(MATTERS)
    level = Level(Estimate(1.0, 1.0, 1.0, "s", 10, 0.95, "median", "level"), (1.0,), (0,), ())
    metric = MetricInfo("wall", "s", "lower", "", True)
    alone = Observations({"cpu": (cpu, "s"), "wall": (1.0, "s")})
    factors = {"victim": "build", "neighbour": f"{copies - 1} more of it"}
    return CellResult(
        f"build|{copies - 1} more of it",
        factors,
        metric,
        level,
        level,
        estimate,
        Observations(),
        alone,
        values=Values(Application("build"), (Application("build"),) * (copies - 1), copies),
    )


def crowd(*cells: CellResult, cpus: int = 4) -> CopiesCurve:
    (found,) = read(cells, cpus)
    return found


def test_cpu_time_alone_explains_a_fair_share() -> None:
    found = crowd(cell(8, 3.6, 3.8, 4.1), cell(2, 0.98, 1.0, 1.02), cell(4, 1.85, 1.9, 1.96))
    assert [point.copies for point in found.points] == [2, 4, 8]
    assert [round(point.fair, 6) for point in found.points] == [1.0, 1.9, 3.8]
    assert found.slowed_from == 4 and found.full_from == pytest.approx(4 / 1.9)
    assert lines(found) == [
        "build alone uses 1.9 of 4 CPUs: 2.1 of it fill them",
        "slowed from 4 at once, not yet by 2",
        "CPU time alone may explain that: none is certainly above what it would make",
    ]


@pytest.mark.parametrize(
    ("smaller", "words"),
    [
        (((2, 0.9, 1.1, 1.3),), ", undecided at 2"),
        (((2, 0.99, 1.0, 1.01), (4, 0.9, 1.1, 1.3)), ", undecided at 4, not yet by 2"),
        (((2, 0.9, 1.1, 1.3), (4, 0.8, 1.1, 1.4)), ", undecided at 2 and 4"),
        (((2, 0.9, 1.1, 1.3), (4, 0.99, 1.0, 1.01)), ", not yet by 4"),
        ((), ""),
    ],
)
def test_an_undecided_number_is_named_as_such(
    smaller: tuple[tuple[int, float, float, float], ...], words: str
) -> None:
    curve = crowd(*(cell(*one) for one in smaller), cell(8, 3.6, 3.8, 4.1))
    assert lines(curve)[1] == f"slowed from 8 at once{words}"


def test_a_number_without_a_ratio_is_in_the_table_only() -> None:
    """A figure of 0, or a limit that was changed meanwhile."""
    none = replace(
        cell(2, 0.9, 1.0, 1.1), estimate=Estimate(math.nan, 0.0, math.inf, "ratio", 9, 0.95, "", "refused")
    )
    (plot,) = copies_plots((crowd(none, cell(4, 1.2, 1.3, 1.4)),))
    assert "NaN" not in json.dumps(plot.spec) and [row[1] for row in plot.table] == ["2", "4"]


def test_what_is_above_it_is_something_else() -> None:
    found = crowd(cell(2, 1.2, 1.3, 1.4), cell(4, 2.5, 2.6, 2.8))
    assert [point.beyond for point in found.points] == [True, True]
    assert lines(found)[-1].startswith(
        "at 4 it takes 2.60 [2.50, 2.80] times as long, where CPU time alone would make 1.9"
    )


def test_what_cannot_be_told_is_not() -> None:
    unknown = crowd(cell(2, 0.0, 1.3, math.inf))
    assert unknown.slowed_from is None and "too few blocks" in lines(unknown)[-1]
    still = crowd(cell(2, 0.9, 1.0, 1.1, cpu=0.0))
    assert still.wants is None and lines(still) == ["up to 2 at once it is not shown to be slowed"]
    assert not still.points[0].beyond, "nothing is above a line that is not known"


def test_its_document_and_picture() -> None:
    found = crowd(cell(2, 1.2, 1.3, 1.4), cell(4, 2.5, 2.6, 2.8))
    jsonschema.validate([found.to_json()], schema(tuple[CopiesCurve, ...]))
    (plot,) = copies_plots((found,))
    assert [row[:2] for row in plot.table] == [("build", "2"), ("build", "4")]
    assert copies_plots(()) == []
