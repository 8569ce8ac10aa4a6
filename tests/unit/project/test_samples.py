"""Which tests a run with --sampled leaves out, and that the rest, and other runs, leave out none."""

from __future__ import annotations

import json

import pytest

from support import costs
from support.samples import BUDGET_S, LARGE_BUDGET_S

FILE = """\
import pytest
@pytest.mark.parametrize("n", range(40))
def test_cheap(n): pass
@pytest.mark.parametrize("n", range(40))
def test_dear(n): pass
@pytest.mark.parametrize("n", range(3))
def test_seldom(n): pass
"""
LARGE = """\
def test_first(): pass
def test_second(): pass
"""
FUNCTIONS = {
    "test_many.py::test_cheap": [0.1, 0.3],
    "test_many.py::test_dear": [1.0, 1.0],
    "test_many.py::test_seldom": [2.0, 2.0],
    **{
        f"test_large_{file}.py::{name}": [0.4 * LARGE_BUDGET_S] * 2
        for file in "ab"
        for name in ("test_first", "test_second")
    },
}


def run(pytester: pytest.Pytester, *words: str) -> list[str]:
    """Names of the tests that ran."""
    result = pytester.inline_run("-q", "-p", "support.samples", *words)
    return [
        report.nodeid for report in result.getreports("pytest_runtest_logreport") if report.when == "call"
    ]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makepyfile(test_many=FILE, test_large_a=LARGE, test_large_b=LARGE)
    known = pytester.path / "costs.json"
    known.write_text(json.dumps({"functions": FUNCTIONS}))
    monkeypatch.setattr(costs, "COSTS", known)
    return pytester


def test_what_takes_long_is_drawn_and_what_is_cheap_runs(project: pytest.Pytester) -> None:
    ran = run(project, "--sampled", "--sample-seed", "a")
    assert sum("test_cheap" in name for name in ran) == 40
    dear, seldom = (sum(what in name for name in ran) for what in ("test_dear", "test_seldom"))
    assert dear >= 1, "each function's first comes before any second"
    assert seldom >= 1
    assert BUDGET_S - 2 < dear + 2 * seldom <= BUDGET_S


def test_what_no_file_can_pay_is_drawn_from_all_of_them(project: pytest.Pytester) -> None:
    drawn = set()
    for seed in "abcdefgh":
        ran = sorted(
            name for name in run(project, "--sampled", "--sample-seed", seed) if "test_large" in name
        )
        assert [name.partition("::")[0] for name in ran] == ["test_large_a.py", "test_large_b.py"]
        drawn.update(ran)
    assert len(drawn) == 4, "each has its day"


def test_the_draw_is_the_seeds(project: pytest.Pytester) -> None:
    drawn = [run(project, "--sampled", "--sample-seed", seed) for seed in ("a", "a", "b")]
    assert drawn[0] == drawn[1] != drawn[2]


def test_without_being_asked_for_everything_runs(project: pytest.Pytester) -> None:
    assert len(run(project)) == 87


def test_costs_of_what_did_not_run_are_kept(project: pytest.Pytester) -> None:
    """A run of a sample can renew the file too."""
    new = costs.Cost(tests=1, wall_s=3.0, cpu_s=1.5)
    text = costs.took(
        {"test_many.py::test_dear[0]": new, "test_many.py::test_dear[1]": costs.Cost(1, 1.0, 0.5)}
    )
    told = json.loads(text)["functions"]
    assert told.pop("test_many.py::test_dear") == [1.0, 2.0]
    assert told == {name: mean for name, mean in FUNCTIONS.items() if name != "test_many.py::test_dear"}
