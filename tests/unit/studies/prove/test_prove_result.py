"""What prove says of rows: costs, costs together, harm done, what is carried over; who may be held back by a policy."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from contend.analysis.comparisons import compare_all, tabulate
from contend.engine.plan import make_plan
from contend.errors import BadInput
from contend.scenario.yaml_file import read_yaml
from contend.store.cells import planned_cells
from contend.studies.prove import policy, words
from contend.studies.prove import result as results
from contend.studies.prove.levels import HELD, NOBODY, SHAM, together
from contend.studies.prove.model import Prove
from contend.studies.scenarios import parse

MATTERS = 0.03
SECOND = 10**9


def scenario(**more: Any) -> Prove:
    import yaml

    document = {
        "study": "prove",
        "victim": {"process": {"pid": 1}},
        "called": "shop",
        "suspects": ["a.service", "b.service"],
        "measure": {"target": None, "blocks": 20, "trial": "1s", "budget": "4m", "seed": 1},
        **more,
    }
    made = parse(read_yaml(yaml.safe_dump(document), "a test"))
    assert isinstance(made, Prove)
    return made


def read(of: Prove, times: Mapping[str, float], carried: float = 1.0) -> results.Proved:
    """What is made of rows in which a trial takes that time at each level, with 1 % of noise.

    carried: so many times as long where somebody was held back in the trial before.
    """
    rng, rows, at, before = random.Random(7), [], 0, False
    plan = make_plan(of, 1)
    trials = [trial for block in plan.rounds("counted") for trial in block][: 20 * len(plan.cells)]
    for trial in trials:
        cell = plan.cell(trial.cell)
        level = cell.factors[HELD]
        held = list(together(of.suspects).get(level, ()))
        value = times[level] * rng.lognormvariate(0, 0.01) * (carried if before and not held else 1.0)
        rows.append(
            {
                "trial": trial.index, "block": trial.block, "phase": "counted", "cell": cell.id,
                "factors": dict(cell.factors), "status": "ok", "flags": [], "evidence": [],
                "started_ns": at, "ended_ns": at + SECOND,
                "metrics": [{"name": "wall", "value": value, "unit": "s", "better": "lower", "loop": "", "primary": True}],
                "treated": {
                    "held": held, "from_ns": at, "to_ns": at + SECOND,
                    "cpu_s": {"a.service": 0.1 if "a.service" in held else 0.6, "b.service": 0.2},
                },
            }
        )  # fmt: skip
        at, before = at + 2 * SECOND, bool(held)
    table = tabulate(rows)
    compared, _ = compare_all(planned_cells(plan.to_json()), table, rows, of, 1, "pairs")
    proved = results.read(
        of.suspects, [one for one in compared if one.metric.primary], table, rows, 0.95, MATTERS
    )
    assert proved is not None
    return proved


ADDS_UP = {NOBODY: 1.2, SHAM: 1.2, "a.service": 1.0, "b.service": 1.2, "a.service + b.service": 1.0}


def test_who_costs_is_told_from_who_does_not_and_together_they_cost_no_more() -> None:
    of = read(scenario(), ADDS_UP)
    guilty, innocent = of.suspects
    assert guilty.verdict == "costs" and guilty.low is not None and guilty.high is not None
    assert guilty.low < 0.2 < guilty.high
    assert innocent.verdict == "unaffected"
    [both] = of.together
    assert both.cost.verdict == "costs" and not both.beyond.differs
    answer = words.answer(of, "shop", MATTERS, takes_cpu=False)
    assert answer.startswith("a.service costs shop ") and "Together" not in answer
    assert "b.service costs shop nothing that matters" in answer
    by_cpu = words.answer(of, "shop", MATTERS, takes_cpu=True)
    assert "b.service takes no CPU time from shop that matters" in by_cpu, "it lost none: no acquittal"


def test_what_only_both_together_cost_is_said() -> None:
    of = read(scenario(), {**ADDS_UP, "a.service": 1.2, "a.service + b.service": 0.9})
    assert [cost.verdict for cost in of.suspects] == ["unaffected", "unaffected"]
    [both] = of.together
    assert both.beyond.verdict == "higher" and both.beyond.low < 1.2 / 0.9 < both.beyond.high
    assert "Together a.service and b.service cost shop 3" in words.answer(of, "shop", MATTERS, takes_cpu=True)


def test_harm_is_what_a_suspect_would_have_had() -> None:
    of = read(scenario(), ADDS_UP)
    a, b = of.held_back
    assert (a.times, a.held_s, b.times) == (40, 40.0, 40)
    assert a.lost_s == pytest.approx(40 * 0.5) and b.lost_s == pytest.approx(0, abs=1e-9)
    assert sum("a.service" in pause.suspects for pause in of.pauses) == 40
    done = list(words.done(of, MATTERS))
    assert "a.service was held back 40 times, 40 s in all: it lost 20 s of CPU time" in done


@pytest.mark.parametrize(
    ("factor", "says"), [(1.0, "nothing is carried over"), (1.3, "not yet as in other trials")]
)
def test_what_is_carried_over_is_seen(factor: float, says: str) -> None:
    of = read(scenario(), ADDS_UP, carried=factor)
    assert of.carried is not None
    assert says in list(words.done(of, MATTERS))[-1]


def test_every_combination_of_few_and_all_of_many() -> None:
    assert list(together(["a"])) == ["a"]
    assert len(together("abc")) == 7
    assert list(together("abcd").values())[-1] == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"by": "freeze"}, "`allow_freeze: true` allows that"),
        ({"by": "cpuset"}, "`apart` says which"),
        ({"by": "cpuset", "apart": "6-"}, "is no list of CPUs"),
        ({"suspects": ["a", "a"]}, "a suspect is named twice"),
        ({"victim": [{"process": {"pid": 1}}, {"process": {"pid": 2}}]}, "`victim` is one workload"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput, match=error):
        scenario(**more)


def test_cpus_are_read_as_the_kernel_lists_them() -> None:
    assert scenario(by="cpuset", apart="6-7,9").apart == (6, 7, 9)
    assert scenario(by="cpuset", apart=3).apart == (3,)


NOON = datetime.time(12)


@pytest.mark.parametrize(
    ("rule", "more", "why"),
    [
        ("{suspects: ['*.service']}", {}, ""),
        ("{suspects: [a.service]}", {}, "b.service is in none of its rules"),
        ("{suspects: ['*.service'], by: [nice]}", {}, "a.service may be held back not by auto, but by nice"),
        ("{suspects: ['*.service']}", {"by": "freeze", "allow_freeze": True}, "not by freeze"),
        ("{suspects: ['*.service'], longest: 1m}", {}, "for 60 s at most"),
        ("{suspects: ['*.service'], since: 22:00, until: 06:00}", {}, "from 22:00 to 06:00 only"),
        ("{suspects: ['*.service'], since: 08:00, until: 18:00}", {}, ""),
    ],
)  # fmt: skip
def test_a_policy_says_who_how_and_when(tmp_path: Path, rule: str, more: dict[str, Any], why: str) -> None:
    file = tmp_path / "prove.yaml"
    file.write_text(f"allow:\n  - {rule}\n")
    answer = policy.read(file).why_not(scenario(**more), NOON)
    assert why in answer if why else answer == ""


def test_night_goes_on_after_midnight(tmp_path: Path) -> None:
    file = tmp_path / "prove.yaml"
    file.write_text("allow:\n  - {suspects: ['*'], since: 22:00, until: 06:00}\n")
    of = policy.read(file)
    assert [of.why_not(scenario(), datetime.time(hour)) == "" for hour in (21, 22, 23, 0, 5, 6)] == [
        False, True, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("allow: [{}]", "suspects"),
        ("allow: [{suspects: [a], since: 25:00}]", "no time of day"),
        ("", "is empty"),
    ],
)
def test_a_policy_with_a_mistake_is_refused(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "prove.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=error):
        policy.read(file)
    with pytest.raises(BadInput, match="cannot read"):
        policy.read(tmp_path / "absent.yaml")


def test_nothing_is_changed_without_consent(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="only with consent"):
        policy.check(scenario())
    policy.check(scenario(consent=True))
