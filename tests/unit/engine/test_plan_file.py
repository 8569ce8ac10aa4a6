"""What a plan.json and a trial's row must be before anything is computed of them, study by study."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.planned import wrong_plan, wrong_row
from contend.store.rows import JUDGED
from contend.studies.scenarios import parse
from contend.text.masking import mask_value

MATRIX = """
study: interference
victims: [ffmpeg]
neighbours: [stress-cpu]
measure: {blocks: 2, target: null}
"""
BESIDE = {"victim": "v", "neighbour": "n", "placement": "p", "platform": "bare"}
SIZED = {"victim": "v", "platform": "p", "provisioning": "q", "size": "1", "cpus": "0.5"}
PLACED = {
    "variant": "a", "host": "same", "subnet": "same", "encapsulation": "none", "protocol": "tcp", "message": "64",
    "pairs": "1", "ends": "namespaces",
}  # fmt: skip
POOLED = {"victim": "v", "neighbour": "n", "pool": "p"}
DESIGN = {"points": 3, "d_efficiency": 1.0, "largest_aliasing": 0.0}


def plan(factors: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "design": "pairs",
        "cells": [{"id": "a", "factors": factors or BESIDE, "baseline": "", "control": False}],
        "workloads": {"v": {"dominant": "cpu"}},
        "trials": [[0, 0, "counted", "a", 7]],
        **more,
    }


def test_a_plan_that_was_made_is_sound_and_so_is_its_row() -> None:
    made = make_plan(parse(read_yaml(MATRIX, "mine.yaml", ScenarioError)), seed=1).to_json()
    assert wrong_plan(made, "interference") == ""
    assert [len(cell["factors"]) for cell in made["cells"]] == [4, 4, 4]


@pytest.mark.parametrize(
    ("study", "factors"),
    [
        ("interference", BESIDE),
        ("compare", {"variant": "a"}),
        ("overhead", SIZED),
        ("overhead", {**SIZED, "period": "100ms", "burst": "0s", "host": "4", "host_by": "hotplug", "placement": "x"}),
        ("placement", PLACED),
        ("storm", {"variant": "a", "n": "20", "network": "none"}),
        ("growth", {"variant": "a", "kind": "port"}),
        ("sensitivity", {**BESIDE, "role": "alone"}),
        ("sensitivity", {**BESIDE, "role": "pair"}),
        ("sensitivity", {**BESIDE, "role": "curve", "resource": "cpu", "intensity": "0"}),
        ("sensitivity", {**BESIDE, "role": "calibration", "probe": "p", "resource": "cpu", "intensity": "12.5"}),
        ("sensitivity", {**BESIDE, "role": "pressure", "probe": "p"}),
        ("", {"anything": "goes where the study is unknown"}),
        ("imported", {"anything": "is a factor of somebody else's"}),
    ],
)  # fmt: skip
def test_each_study_has_its_factors_and_needs_every_one_of_them(study: str, factors: dict[str, str]) -> None:
    assert wrong_plan(plan(factors), study) == ""
    free = {"period", "burst", "placement", "host", "host_by"} if study == "overhead" else set()
    for name in factors if study not in ("", "imported") else ():
        without = wrong_plan(plan({key: value for key, value in factors.items() if key != name}), study)
        assert bool(without) == (name not in free), name
        assert not without or without.startswith("cells.0.factors.")


@pytest.mark.parametrize(
    ("study", "factors", "fits", "does_not"),
    [
        ("overhead", SIZED, {"cpus": "0.001", "host": "123456789"}, {}),
        ("overhead", SIZED, {"period": "1us"}, {"period": "soon"}),
        ("overhead", SIZED, {"burst": "2m"}, {"burst": "-1s"}),
        ("overhead", SIZED, {}, {"cpus": "0"}),
        ("overhead", SIZED, {}, {"cpus": "-1"}),
        ("overhead", SIZED, {}, {"cpus": "inf"}),
        ("overhead", SIZED, {}, {"cpus": "many"}),
        ("overhead", SIZED, {}, {"host": "²"}),
        ("overhead", SIZED, {}, {"host": "1.5"}),
        ("overhead", SIZED, {}, {"host": "1234567890"}),
        ("placement", PLACED, {"message": "0"}, {"message": "-1"}),
        ("sensitivity", {**BESIDE, "role": "curve", "resource": "r", "intensity": "5"}, {"intensity": "0.0"},
         {"intensity": "-0.1"}),
        ("sensitivity", {**BESIDE, "role": "curve", "resource": "r", "intensity": "5"}, {"intensity": "1e3"},
         {"intensity": "nan"}),
    ],
)  # fmt: skip
def test_numbers_are_checked_before_they_are_read(
    study: str, factors: dict[str, str], fits: dict[str, str], does_not: dict[str, str]
) -> None:
    assert wrong_plan(plan({**factors, **fits}), study) == ""
    if does_not:
        (name,) = does_not
        told = wrong_plan(plan({**factors, **does_not}), study)
        assert told.startswith("cells.0.factors.")
        assert name in told


def test_what_is_compared_must_be_there_and_something_must_be_a_baseline() -> None:
    second = {"id": "b", "factors": BESIDE, "baseline": "a", "control": False}
    two = plan()
    two["cells"].append(second)
    assert wrong_plan(two, "interference") == ""
    two["cells"][1] = {**second, "baseline": "gone"}
    assert wrong_plan(two, "interference") == "cells.1.baseline: there is no cell 'gone'"
    two["cells"] = [{**second, "id": "a", "baseline": "b"}, second]
    assert wrong_plan(two, "interference") == "cells: none is a baseline"


@pytest.mark.parametrize(
    ("damage", "at"),
    [
        (lambda p: p.pop("seed"), "seed"),
        (lambda p: p.update(seed=-1), "seed"),
        (lambda p: p.update(seed=1 << 63), "seed"),
        (lambda p: p.update(design="AAA…BBB"), "design"),
        (lambda p: p.update(cells=[]), "cells"),
        (lambda p: p["trials"].append([1, 2, 3, 4]), "trials.1"),
        (lambda p: p["trials"].append([1, 2, 3, 4, 5, 6]), "trials.1"),
        (lambda p: p.update(fleet={"hosts": [".."]}), "fleet.hosts.0"),
        (lambda p: p.update(workloads=None), "workloads"),
    ],
)
def test_the_place_of_what_is_wrong_is_named(damage: Callable[[Any], object], at: str) -> None:
    damaged = copy.deepcopy(plan())
    damage(damaged)
    for study in ("interference", ""):
        assert wrong_plan(damaged, study).startswith(f"{at}: ")


def test_what_a_study_has_besides_is_asked_of_that_study_only() -> None:
    unbound = plan(SIZED, workloads={"v": {}})
    assert wrong_plan(unbound, "overhead").startswith("workloads.v.dominant: ")
    assert wrong_plan(plan(BESIDE, workloads={"v": {}}), "interference") == ""
    assert wrong_plan(plan(POOLED), "storage").startswith("screening: ")
    screening = {"rounds": 2, "designs": {"p": DESIGN, "every point": {}}}
    assert wrong_plan(plan(POOLED, screening=screening, focus=None), "storage") == ""
    assert wrong_plan(plan(POOLED, screening=screening, focus={"v": "largest"}), "storage") == ""
    screening["designs"] = {"p": {"points": 3}}
    assert wrong_plan(plan(POOLED, screening=screening, focus=None), "storage").startswith(
        "screening.designs"
    )


def row(**more: Any) -> dict[str, Any]:
    metric = {"name": "wall", "value": 1.0, "unit": "s", "better": "lower", "loop": "", "primary": True}
    return {
        "trial": 0, "block": 0, "phase": "counted", "cell": "a", "factors": BESIDE, "status": "ok",
        "metrics": [{**metric, "name": "cpu", "primary": False}, metric], "evidence": [], "flags": [], **more,
    }  # fmt: skip


def test_a_row_is_of_a_cell_of_the_plan_with_its_factors() -> None:
    check = wrong_row(plan())
    assert check(row()) == ""
    assert check(row(cell="b")) == "the plan has no cell 'b'"
    assert "factors are not those of 'a'" in check(row(factors={**BESIDE, "victim": "w"}))
    assert check(row(trial="0")).startswith("trial: ")


def test_a_row_s_factors_may_be_those_before_secrets_were_taken_out_of_the_plan() -> None:
    factors = {**BESIDE, "victim": "curl https://me:hunter2@host/"}
    masked = mask_value(factors)
    assert masked != factors
    assert wrong_row(plan(masked))(row(factors=factors)) == ""


def test_a_trial_that_ended_well_has_a_headline_and_one_that_did_not_has_an_error() -> None:
    check = wrong_row(plan())
    minor = row()["metrics"][:1]
    assert check(row(metrics=minor)) == "metrics: there is no headline metric"
    assert check(row(metrics=minor, status="failed")) == "error: it is missing"
    assert check(row(metrics=[], status="failed", error="it ended with 1")) == ""


def test_rows_of_a_fleet_name_their_host() -> None:
    check = wrong_row(plan(fleet={"hosts": ["one"]}))
    assert check(row()) == "host: it is missing"
    assert check(row(host="one")) == ""


def test_imported_rows_say_of_how_many_samples_they_are() -> None:
    check = wrong_row(plan(workloads={}))
    samples = {"name": "samples", "value": 30.0, "unit": ""}
    assert check(row()) == "evidence: it has no number of samples"
    assert check(row(evidence=[{**samples, "name": "else"}])) == "evidence: it has no number of samples"
    assert check(row(evidence=[{**samples, "name": "else"}, samples])) == ""
    assert check(row(evidence=JUDGED)) == ""
    assert check(row(status="failed", error="x")) == ""
    assert wrong_row(plan())(row()) == "", "what contend measured needs none"
