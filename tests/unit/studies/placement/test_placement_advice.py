"""Which workloads go on one host: against every assignment, written down by brute force."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from contend.advice.document import AdviceDocument
from contend.errors import BadInput
from contend.studies.sensitivity import assignment
from contend.studies.sensitivity.assignment import assign, slowdowns
from contend.studies.sensitivity.findings import best_placement, claims
from contend.text.shape import schema
from support.analysed import analyse
from support.command_line import Home
from support.made_forecast import WORKLOADS, forecast_run, scenario
from support.made_runs import Made


def table(n: int, seed: int) -> np.ndarray:
    return np.abs(np.random.default_rng([seed, n]).normal(0, 0.4, (n, n)))


def brute(of: np.ndarray, hosts: int, worst: bool) -> float:
    """The least cost over every way to number the hosts, as even as it goes."""
    n, best = len(of), math.inf
    for numbers in itertools.product(range(hosts), repeat=n):
        sizes = [numbers.count(h) for h in range(hosts)]
        if max(sizes) - min(sizes) > 1:
            continue
        groups = tuple(tuple(i for i in range(n) if numbers[i] == h) for h in range(hosts))
        each = slowdowns(of, groups)
        best = min(best, max(each) if worst else statistics.fmean(each))
    return best


@pytest.mark.parametrize(("n", "hosts"), [(2, 1), (4, 2), (5, 2), (6, 3), (6, 4), (7, 2), (3, 3)])
@pytest.mark.parametrize("worst", [False, True])
def test_the_best_assignment_is_found(n: int, hosts: int, worst: bool) -> None:
    for seed in range(5):
        of = table(n, seed)
        found = assign(of, hosts, aim="worst" if worst else "total")
        assert found.exact
        assert (found.worst if worst else found.mean) == pytest.approx(brute(of, hosts, worst))
        assert sorted(i for group in found.groups for i in group) == list(range(n))
        assert found.mean <= found.random + 1e-12


@pytest.mark.parametrize(("n", "hosts"), [(6, 3), (7, 3), (8, 4)])
def test_the_search_of_larger_ones_finds_as_good_a_one(
    n: int, hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        of = table(n, seed)
        exact = assign(of, hosts)
        with monkeypatch.context() as patch:
            patch.setattr(assignment, "EXACT", 1)
            searched = assign(of, hosts)
        assert exact.exact
        assert not searched.exact
        assert searched.mean == pytest.approx(exact.mean)
        assert searched.random == pytest.approx(exact.random, rel=0.05)


def test_many_workloads_are_placed_and_it_is_said_that_not_all_was_looked_at() -> None:
    found = assign(table(20, 1), 10)
    assert not found.exact
    assert [len(group) for group in found.groups] == [2] * 10
    assert found.mean < found.random


def test_two_that_hate_each_other_are_kept_apart(tmp_path: Path) -> None:
    run, _ = forecast_run(tmp_path)
    asked = scenario()
    of = analyse(run, asked).result
    assert of is not None
    assert not of.refused
    placed = best_placement(of, 3)
    assert placed.best is not None
    assert placed.best.mean <= placed.measured <= placed.measured_random
    told = claims(of, asked, placed)
    assert [f.kind for f in told].count("together") == 3
    fio = next(f for f in told if "fio writes" in f.sentence)
    assert "'" in fio.verify
    assert "{fio: {read: 0}}" in fio.verify
    assert all(f.verify.startswith("contend run noisy-neighbour --set ") for f in told)
    for hosts in (0, 7):
        with pytest.raises(BadInput, match="there are 6 workloads"):
            best_placement(of, hosts)


def test_each_claims_check_is_a_scenario(tmp_path: Path) -> None:
    """What a claim says to run is read as it would be."""
    import shlex

    from contend.studies.scenarios import load

    run, _ = forecast_run(tmp_path)
    asked = scenario()
    of = analyse(run, asked).result
    assert of is not None
    found_claims = claims(of, asked, best_placement(of, 2))
    assert found_claims
    for finding in found_claims:
        words = shlex.split(finding.verify)
        found = load(words[2], tuple(words[4::2]))
        assert found.study == "interference"


@pytest.fixture
def contend(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_advise_says_where_and_how_to_check(contend: Home) -> None:
    run, _ = forecast_run(contend.path)
    said = contend("advise", str(run.path)).fine().out
    assert "On 3 hosts" in said
    assert "verify: contend run noisy-neighbour --set victims=" in said
    document = contend("advise", str(run.path), "--hosts", "2", "--worst", "--json").fine().json()
    jsonschema.validate(document, schema(AdviceDocument))
    (one,) = document["runs"]
    assert one["placement"]["aim"] == "worst"
    assert sorted(name for group in one["placement"]["assignment"] for name in group) == sorted(WORKLOADS)
    assert one["placement"]["more_than_pairs"]


def test_a_refused_forecast_gives_no_advice(contend: Home) -> None:
    run, _ = forecast_run(contend.path, "interaction")
    ended = contend("advise", str(run.path))
    assert ended.code == 5
    assert "No advice: " in ended.out
    assert "verify" not in ended.out


def test_of_another_study_it_shows_what_its_findings_advise(contend: Home) -> None:
    made = Made(contend.path, 12, {"ffmpeg|stress-cpu": 2.0}, {})
    said = contend("advise", str(made.run.path)).fine().out
    (finding,) = made.analyse().findings
    assert finding.advice.split(";")[0].split()[0] in said
    assert f"verify: {finding.verify}" in said
    one = contend("advise", str(made.run.path), "--json").fine().json()["runs"][0]
    assert (one["study"], one["refused"], one["placement"]) == ("interference", "", None)
    assert [f["id"] for f in one["findings"]] == ["F1"]
    contend("advise", str(made.run.path), "--hosts", "2").error(2, "are of a forecast's workloads")
