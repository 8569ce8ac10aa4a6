"""Budgets before anything is made: what does not hold the smallest useful design is refused, with the one that would do."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from contend import cli
from contend.engine import checks, experience
from contend.engine import duration as forecast
from contend.engine.experience import Experience
from contend.engine.plan import make_plan
from contend.errors import ContendError
from contend.studies.model import Scenario
from contend.studies.needs import Needs, least_blocks
from contend.studies.plan import Plan
from contend.studies.scenarios import builtin_names, load
from contend.units import parse_duration_ns
from support.prerequisites import Cannot, cannot, need

SCENARIOS = sorted(builtin_names())
CLOUDS = {"boot-storm": "local", "control-plane-growth": "c"}
AS_LONG_AS_GIVEN = {
    "control-plane-growth"
}  # passes are made as long as a budget has room for; see the last test
REFUSED_WITHIN_CPU_S = 3.0  # on the clock it is as long as the host lets it be


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CONTEND_RUNS", str(tmp_path / "runs"))
    (tmp_path / "clouds.yaml").write_text("clouds: {c: {auth: {auth_url: 'http://192.0.2.1/'}}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))


def planned(name: str, *settings: str) -> tuple[Scenario, Plan]:
    """As a run would plan it. Skips where this host cannot."""
    cloud = (f"cloud={CLOUDS[name]}",) if name in CLOUDS else ()
    try:
        scenario, _ = checks.fitted(load(name, (*cloud, *settings)))
        checks.check(scenario)
    except ContendError as error:
        if name == "apps":  # kernel sources, Hadoop
            cannot(Cannot.CAMPAIGNS, error.message)
        need(False, f"{name} cannot be planned here: {error.message}")
    return scenario, make_plan(scenario, 1)


def options(name: str) -> list[str]:
    return ["--cloud", CLOUDS[name]] if name in CLOUDS else []


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in AS_LONG_AS_GIVEN])
def test_half_a_block_is_refused_at_once_with_the_budget_that_would_do(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, plan = planned(name)
    of = forecast.needs(scenario, plan)
    began = time.process_time()
    code = cli.run(["run", name, *options(name), "--budget", f"{max(1.0, of.block_s / 2):.0f}s"])
    cpu_s = time.process_time() - began
    said = capsys.readouterr().err
    assert code == 2, said
    assert "is too short for an answer" in said
    assert "--budget" in said
    print(f"refused after {cpu_s:.3f} s of CPU time")
    assert cpu_s < REFUSED_WITHIN_CPU_S
    assert not (tmp_path / "runs").exists()
    (would_do,) = re.findall(r"hint: --budget (\d+[sm])", said)
    if scenario.study != "storage":  # whose plan becomes larger with a budget
        again, plan = planned(name, f"measure.budget={would_do}")
        assert forecast.needs(again, plan).refusal(parse_duration_ns(would_do)) is None


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("times", [0.5, 0.99, 1.01, 1.7, 50])
def test_a_dry_run_promises_the_blocks_that_the_scheduler_has_room_for(
    name: str, times: float, capsys: pytest.CaptureFixture[str]
) -> None:
    smallest_s = forecast.needs(*planned(name)).smallest_s
    budget = f"{max(1.0, times * smallest_s):.1f}s"
    scenario, plan = planned(name, f"measure.budget={budget}")
    of = forecast.needs(scenario, plan)
    capsys.readouterr()
    code = cli.run(["run", name, *options(name), "--budget", budget, "--dry-run"])
    said = capsys.readouterr()
    fit = of.blocks_within(parse_duration_ns(budget) / 1e9)
    assert code == (0 if fit else 2), said.err
    assert ("too short for an answer" in said.err) is not bool(fit)
    promised = re.findall(r"(\d+) blocks in the budget", said.out)
    assert [int(n) for n in promised] in ([], [fit])
    if not promised:
        assert fit == of.planned
    assert fit == 0 or fit >= of.least


@pytest.mark.parametrize("name", ["interference-forecast", "storm-lab", "rpc-envelope"])
def test_these_can_be_planned_anywhere(name: str) -> None:
    """So that not every test above is skipped."""
    plan = make_plan(load(name, ()), 1)
    assert forecast.needs(load(name, ()), plan).smallest_s > 60


def test_the_smallest_design_is_what_an_interval_needs() -> None:
    scenario = load("rpc-envelope", ())
    pairs, of_8 = make_plan(scenario, 1, "pairs"), make_plan(scenario, 1, "blocks of 8")
    assert least_blocks(scenario, pairs) == 6  # 2 · 2⁻⁶ is the first below 5 %
    assert least_blocks(scenario, of_8) == 2
    few = load("rpc-envelope", ("measure.blocks=3", "measure.target=null"))
    assert least_blocks(few, make_plan(few, 1)) == 3  # no more than the user asked for


def test_a_pilot_is_cut_short_before_an_answer_is_given_up() -> None:
    of = Needs(preparing_s=1, screening_s=0, round_s=5, pilot_s=15, block_s=10, least=6, planned=60)
    assert of.smallest_s == 70
    assert of.blocks_within(69.9) == 0
    assert of.blocks_within(70) == 6
    assert of.blocks_within(90) == 7
    assert of.blocks_within(1e6) == 60


def test_what_was_measured_here_before_is_the_better_estimate() -> None:
    scenario = load("noisy-neighbour", ())
    plan = make_plan(scenario, 1)
    beside = next(cell for cell in plan.cells if cell.neighbours)
    learnt = Experience()
    for seconds in (9.0, 4.0, 5.0):
        learnt = learnt.with_(forecast.trial_key(beside, scenario), seconds)
    assert forecast.trial_s(beside, scenario, learnt) == 4.0
    assert forecast.block_s(plan, scenario, learnt) > forecast.block_s(plan, scenario)
    longer = load("noisy-neighbour", ("measure.trial=2s",))
    assert forecast.trial_s(beside, longer, learnt) != 4.0  # another trial


def test_experience_is_kept_bounded_and_what_is_damaged_is_nothing(tmp_path: Path) -> None:
    learnt = Experience()
    for number in range(experience.MOST_KEYS + 50):
        learnt = learnt.with_(f"trial/{number}", 1.0)
    learnt = learnt.with_("trial/nan", float("nan")).with_("trial/negative", -1.0)
    experience.write(learnt)
    again = experience.read()
    assert len(again.known) == experience.MOST_KEYS
    assert again.seconds(f"trial/{experience.MOST_KEYS + 49}") == 1.0
    assert again.seconds("trial/nan") is None
    for damage in (b"", b"\xff", b"[]", b'{"seconds": {"a": 3}}', b'{"seconds": {"a": ["x", -1, 1e999]}}'):
        experience.path().write_bytes(damage)
        assert experience.read().seconds("a") is None
    experience.path().unlink()
    experience.path().symlink_to("/dev/zero")
    assert experience.read() == experience.NOTHING


def test_a_population_does_not_grow_in_less_time_than_its_slope_needs() -> None:
    """A share of a budget that is too short for three populations is not handed out: the budget is refused."""
    of = ("cloud=c", "measure.budget=100s")
    scenario = load("control-plane-growth", of)
    told = forecast.needs(scenario, make_plan(scenario, 1)).refusal(scenario.measure.budget)
    assert told is not None
    one = load("control-plane-growth", (*of, "kinds=[network]"))
    assert forecast.needs(one, make_plan(one, 1)).refusal(one.measure.budget) is None
