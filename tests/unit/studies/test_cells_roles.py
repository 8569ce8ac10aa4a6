"""Cells of a forecast and of crowds: who is beside whom, what each is compared with, and which pairs are held out."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.cell import ALONE, CONTROL, Cell, cell_workload, escape
from contend.studies.interference.cells import rest_of
from contend.studies.model import Scenario, WorkloadRef
from contend.studies.registry import cells_of
from contend.studies.scenarios import parse
from contend.studies.sensitivity.cells import LEAST_HELD_OUT, held_out

FORECAST = """
study: sensitivity
workloads: [fio, nginx, fio]
injectors: {cpu: stress-cpu, disk: {stress-memory: {passes: 3}}}
intensities: [20, 80]
measure: {blocks: 2, target: null}
"""


def scenario(text: str) -> Scenario:
    return parse(read_yaml(text, "mine.yaml", ScenarioError))


def of_pairs(number: int) -> tuple[Cell, ...]:
    """Every workload beside every workload, itself too."""
    one = cell_workload(WorkloadRef(workload="stress-cpu"))
    names = [f"w{n}" for n in range(number)]
    return tuple(
        Cell(f"{v}|{n}", one, (one,), {"victim": v, "neighbour": n, "role": "pair"}, f"{v}|none")
        for v in names
        for n in names
    )


@given(number=st.integers(3, 9), share=st.floats(0.01, 0.6), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_enough_pairs_are_held_out_and_each_workload_keeps_half_of_its_own(
    number: int, share: float, seed: int
) -> None:
    cells = of_pairs(number)
    ids = [cell.id for cell in cells]
    out = held_out(cells, share, seed)
    assert out == held_out(cells, share, seed)
    assert list(out) == [name for name in ids if name in set(out)], "in the order of the cells"
    wanted = min(max(math.ceil(share * number**2), LEAST_HELD_OUT), number**2 // 2)
    assert len(out) <= wanted
    if wanted <= number * ((number + 1) // 2) // 2:
        assert len(out) == wanted
    for end in (0, 1):
        count = Counter(name.split("|")[end] for name in out)
        assert max(count.values()) <= (number + 1) // 2


def test_other_seeds_hold_other_pairs_out_and_only_pairs_are() -> None:
    cells = of_pairs(5)
    assert len({held_out(cells, 0.2, seed) for seed in range(8)}) > 4
    curves = tuple(
        Cell(f"c{n}", cell.victim, cell.neighbours, {**cell.factors, "role": "curve"}, "")
        for n, cell in enumerate(cells)
    )
    assert held_out(cells + curves, 0.2, 3) == held_out(cells, 0.2, 3)
    assert len(held_out(cells, 0.2, 3)) == LEAST_HELD_OUT
    assert len(held_out(cells, 0.4, 3)) == 10


def test_a_forecast_has_curves_calibrations_pressures_and_pairs() -> None:
    cells = cells_of(scenario(FORECAST))
    by_role = Counter(cell.factors["role"] for cell in cells)
    # Two workloads, two probes; two resources at two intensities.
    assert by_role == {"alone": 2 * 4, "curve": 2 * 4, "calibration": 2 * 4, "pressure": 2 * 2, "pair": 2 * 2}
    assert len({cell.id for cell in cells}) == len(cells)
    for cell in cells:
        victim = cell.factors["victim"]
        assert cell.baseline == ("" if cell.id == f"{victim}|{ALONE}" else f"{victim}|{ALONE}")
        assert cell.control == cell.id.endswith(CONTROL)
        assert cell.victim.label == victim
        assert [n.label for n in cell.neighbours] == (
            [] if cell.factors["role"] == "alone" else [cell.factors["neighbour"]]
        )
        probe = victim.startswith("pressure-probe")
        assert ("probe" in cell.factors) == probe
        if probe:
            assert cell.victim.instance.parameters["resource"] == cell.factors["probe"]
    curve = next(c for c in cells if c.id == "nginx|cpu at 80 %")
    assert (curve.factors["resource"], curve.factors["intensity"]) == ("cpu", "80")
    assert curve.neighbours[0].instance.parameters["intensity"] == 80
    disk = next(c for c in cells if c.id == "nginx|disk at 20 %")
    of = disk.neighbours[0].instance.parameters
    assert (of["passes"], of["intensity"]) == (3, 20), "an injector's own parameters stay"
    alone = next(c for c in cells if c.id == f"nginx|{ALONE}")
    assert alone.factors["neighbour"] == ALONE


def test_an_injector_needs_a_dial() -> None:
    with pytest.raises(ScenarioError, match="'fio' has no intensity"):
        cells_of(scenario(FORECAST.replace("stress-cpu", "fio")))


@pytest.mark.parametrize(
    ("mix", "victim", "beside"),
    [
        (["fio", "nginx"], "fio", ["nginx"]),
        (["fio", "nginx", "fio", "fio"], "fio", ["nginx", "fio #2", "fio #3"]),
        (["nginx", "fio", "fio"], "nginx", ["fio", "fio #2"]),
        (["fio"], "fio", []),
        (["nginx"], "fio", None),
    ],
)
def test_the_others_of_a_mix_have_names_of_their_own(
    mix: list[str], victim: str, beside: list[str] | None
) -> None:
    members = [cell_workload(WorkloadRef(workload=label)) for label in mix]
    rest = rest_of(members, cell_workload(WorkloadRef(workload=victim)))
    assert (None if rest is None else [member.label for member in rest]) == beside


def test_victims_run_beside_their_neighbours_their_like_and_their_mix() -> None:
    cells = cells_of(
        scenario(
            "study: interference\nvictims: [fio]\nneighbours: [stress-cpu]\ncopies: [3, 2, 3]\n"
            "mixes: [[fio, nginx]]\ndirections: both\nmeasure: {blocks: 2, target: null}\n"
        )
    )
    told = {cell.id: [n.label for n in cell.neighbours] for cell in cells}
    assert told == {
        "fio|none": [], "fio|none (control)": [], "fio|stress-cpu": ["stress-cpu"], "fio|nginx": ["nginx"],
        "stress-cpu|none": [], "stress-cpu|none (control)": [], "stress-cpu|fio": ["fio"],
        "nginx|none": [], "nginx|none (control)": [], "nginx|fio": ["fio"],
        "fio|1 more of it": ["fio #2"], "fio|2 more of it": ["fio #2", "fio #3"],
    }  # fmt: skip
    assert [cell.baseline for cell in cells if cell.id.startswith("nginx")] == [
        "",
        "nginx|none",
        "nginx|none",
    ]
    labels = {cell.id: cell.label for cell in cells}
    assert labels["fio|none"] == "fio alone"
    assert labels["fio|2 more of it"] == "fio beside fio #2 + fio #3"


def test_a_cap_is_part_of_a_name_and_braces_of_a_command_stay() -> None:
    capped = cell_workload(
        WorkloadRef.model_validate({"fio": {"read": 0, "limit": {"iops": 500, "cpus": 1.5}}})
    )
    assert capped.label == "fio writes limited to cpus=1.5,iops=500"
    assert (capped.limit.cpus, capped.limit.iops) == (1.5, 500)
    assert escape("awk '{print $1}'") == "awk '{{print $1}}'"
