"""A component's cost in a whole: a run and storms whose true ratios and shares are known."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.cli.common import load_report
from contend.context import words as context_words
from contend.context.choose import put
from contend.context.costs import costs
from contend.context.effect import context, stated
from contend.context.storm import boots
from contend.document.context import AT_MOST, CARRIED, ROLE, STATED, Context, StatedContext
from contend.errors import BadInput
from contend.report.html import render_html
from contend.report.terminal import render
from contend.store.directory import RunDirectory
from contend.text.shape import schema
from support.made_context import CALL, DOWNLOAD, IMAGE, RPC, costs_run, storms_run

# Of 1 CPU second a boot: 20 calls of 1.2 ms are 2.4 %, the broker 3 %.
ROLES = {"API": 0.5, "conductor": 0.37, "broker": 0.03, "glance": 0.1}
ENDS, BROKER = 20 * CALL["ends_cpu"], 0.03
RATIOS = {"ends_cpu": 0.85, "broker_cpu": 0.95, "latency_p50": 0.9, "paced_cpu": 0.8}
EFFECT = ENDS * (0.85 - 1) + BROKER * (0.95 - 1)


def holds(estimate: Any, truth: float, within: float) -> bool:
    """The interval holds the truth, and is no wider than that part of it."""
    return estimate.low <= truth <= estimate.high and estimate.high - estimate.low < within * abs(truth)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """What a call costs, alone in its directory."""
    return costs_run(tmp_path_factory.mktemp("costs"), RATIOS)


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return storms_run(tmp_path_factory.mktemp("storm"), ROLES)


@pytest.fixture(scope="module")
def found(run: RunDirectory, storm: RunDirectory) -> Context:
    return put(run, storm.path)


def test_a_share_that_is_stated_needs_no_storm(run: RunDirectory) -> None:
    told = stated(costs(run), 0.05)
    (variant,) = told.variants
    ends, broker = CALL["ends_cpu"], CALL["broker_cpu"]
    truth = (0.85 * ends + 0.95 * broker) / (ends + broker)
    assert holds(variant.cost, truth, 0.1)
    assert holds(variant.effect, 0.05 * (truth - 1), 0.5)
    assert variant.effect.value == pytest.approx(0.05 * (variant.cost.value - 1), rel=1e-9)
    assert variant.effect.verdict == "lower"
    jsonschema.validate(told.to_json(), schema(StatedContext))
    (line,) = context_words.stated_lines(told)
    assert line.startswith("JSON once in the place of envelope: an RPC takes 13.") and "5 % of all" in line


def test_known_shares_and_ratios_give_the_known_effect(found: Context) -> None:
    (variant,) = found.variants
    ends, broker = found.shares
    assert (ends.how, broker.how) == (CARRIED, ROLE)
    assert holds(ends.estimate, ENDS, 0.2) and holds(broker.estimate, BROKER, 0.2)
    assert holds(found.share, ENDS + BROKER, 0.2)
    assert holds(variant.effect, EFFECT, 0.6) and variant.effect.verdict == "lower"
    assert variant.cost.low < 1 + EFFECT / (ENDS + BROKER) < variant.cost.high
    assert (found.n, found.storms, found.blocks) == (20, 8, 15)
    assert variant.effect.value == pytest.approx(found.share.value * (variant.cost.value - 1), rel=1e-9)
    # All RPCs of a boot in series: 20 of 5 ms in 4 s.
    assert found.path is not None and variant.path is not None
    assert found.path.bound == AT_MOST
    assert holds(found.path.estimate, 20 * 5e-3 / 4.0, 0.2)
    assert holds(variant.path, 20 * 5e-3 / 4.0 * (0.9 - 1), 0.8)


def test_the_sample_of_the_guide_is_a_storm_to_put_a_cost_in(run: RunDirectory, tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parents[3] / "docs/samples/boot-storm.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    found = put(run, tmp_path / "boot-storm")
    (broker,) = (share.estimate for share in found.shares if share.what == "broker")
    assert 0.005 < broker.low < broker.high < 0.2 and found.storms == 12
    lines = (tmp_path / "boot-storm/ledger.ndjson").read_text().splitlines()
    assert {json.loads(line)["event"] for line in lines} == {"run-start", "run-end"}


def test_the_three_numbers_are_told_in_one_sentence(found: Context) -> None:
    said = context_words.answer(found)
    for words in (
        "JSON once in the place of envelope: an RPC takes ",
        "less CPU time",
        "RPC took 5.",
        "of all CPU time in this boot storm; so the cloud would take 0.",
        "Apart from that, the way to ACTIVE: at most 0.",
        "all RPCs of a boot one after the other",
    ):
        assert words in said, said


@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_for_other_draws(tmp_path: Path, seed: int) -> None:
    """Sampled; how often they hold is in test_joint."""
    run = costs_run(tmp_path, RATIOS, seed=100 + seed, noise=0.05)
    storm = storms_run(tmp_path, ROLES, seed=200 + seed, noise=0.05)
    (variant,) = put(run, storm.path).variants
    slack = (variant.effect.high - variant.effect.low) / 2
    assert variant.effect.low - slack <= EFFECT <= variant.effect.high + slack


def test_what_goes_on_anyway_is_a_part_of_the_cpu_time_and_not_of_the_way(
    tmp_path: Path, run: RunDirectory
) -> None:
    """400 messages a second in one second, 20 boots: 20 messages more of each."""
    found = put(run, storms_run(tmp_path, ROLES, background_per_s=400.0).path)
    assert holds(found.shares[0].estimate, 1.5 * ENDS, 0.2)
    assert found.path is not None and holds(found.path.estimate, 20 * 5e-3 / 4.0, 0.2)


def test_no_difference_is_told_as_none(tmp_path: Path, storm: RunDirectory) -> None:
    found = put(costs_run(tmp_path, {}), storm.path)
    assert found.variants[0].effect.verdict == "unaffected"
    assert "the cloud would take neither more nor less (" in context_words.answer(found)


def test_a_cast_is_one_message(tmp_path: Path, storm: RunDirectory) -> None:
    text = RPC.replace("workload: rpc", "workload: rpc\nparameters: {kind: cast}")
    found = put(costs_run(tmp_path, RATIOS, text=text), storm.path)
    assert holds(found.shares[0].estimate, 2 * ENDS, 0.2)


def test_a_broker_that_the_run_does_not_know_keeps_its_share(tmp_path: Path, storm: RunDirectory) -> None:
    known = {name: value for name, value in CALL.items() if name != "broker_cpu"}
    found = put(costs_run(tmp_path, RATIOS, base=known), storm.path)
    assert [share.known for share in found.shares] == [True, False]
    assert holds(found.share, ENDS, 0.2)
    assert holds(found.variants[0].effect, ENDS * (0.85 - 1), 0.6)
    assert any("does not tell what the broker spends" in note for note in found.notes)


def test_a_broker_on_another_host_is_carried_over(tmp_path: Path, run: RunDirectory) -> None:
    found = put(run, storms_run(tmp_path, {"API": 0.6, "conductor": 0.4}).path)
    assert [share.how for share in found.shares] == [CARRIED, CARRIED]
    assert holds(found.shares[1].estimate, 20 * CALL["broker_cpu"], 0.2)


def test_few_storms_give_figures_without_intervals(tmp_path: Path, run: RunDirectory) -> None:
    found = put(run, storms_run(tmp_path, ROLES, storms=3).path)
    assert found.variants[0].effect.verdict == "too few"
    assert found.share.value == pytest.approx(ENDS + BROKER, rel=0.1)
    assert "[no interval]" in context_words.answer(found)
    assert any("3 storms and 15 blocks" in note for note in found.notes)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["share"]["low"] is None


def test_what_is_stated_is_said_to_be(tmp_path: Path, run: RunDirectory) -> None:
    storm = storms_run(tmp_path, ROLES, messages=None)
    with pytest.raises(BadInput, match="nobody counted messages") as refused:
        put(run, storm.path)
    assert "--calls" in refused.value.hint and "CONTEND_BROKER_URL" in refused.value.hint
    found = put(run, storm.path, calls=20)
    assert found.shares[0].how == STATED
    assert holds(found.shares[0].estimate, ENDS, 0.2)


def test_a_download_is_bound_by_the_server_or_stated(tmp_path: Path, storm: RunDirectory) -> None:
    run = costs_run(tmp_path, {"client_cpu": 0.5, "server_cpu": 0.9, "time": 0.8}, text=IMAGE, base=DOWNLOAD)
    found = put(run, storm.path)
    assert found.bound == AT_MOST
    assert holds(found.variants[0].effect, 0.1 * (0.9 - 1), 0.6)
    assert found.path is None and "not known" in context_words.answer(found)
    gib = 2**30
    found = put(run, storm.path, image=gib)
    client, server = (gib / 1e9 * DOWNLOAD[name] for name in ("client_cpu", "server_cpu"))
    assert [share.how for share in found.shares] == [STATED, STATED]
    # On top of the second that a boot takes without, and of the four until it is ACTIVE: an image is two of the run's.
    whole = 1 + client + server
    assert holds(found.share, (client + server) / whole, 0.2)
    assert holds(found.variants[0].effect, (client * (0.5 - 1) + server * (0.9 - 1)) / whole, 0.3)
    assert found.path is not None and holds(found.path.estimate, 2 / (4 + 2), 0.2)
    assert "downloading images would be 7" in context_words.answer(found)


def test_another_host_and_the_pace_are_told(tmp_path: Path, run: RunDirectory) -> None:
    other = {"cpu": "another", "cpus": 2, "skipped": [], "tools": {}}
    found = put(run, storms_run(tmp_path, ROLES, environment=other).path)
    assert any("different hosts" in note for note in found.notes)
    assert any("2.0 times as much of both ends" in note for note in found.notes)


def test_runs_that_tell_nothing_are_refused(tmp_path: Path, run: RunDirectory, storm: RunDirectory) -> None:
    with pytest.raises(BadInput, match="no boot storm: it is of a compare study"):
        put(run, run.path)
    with pytest.raises(BadInput, match="tells no component's cost: it is of boot-storm"):
        put(storm, storm.path)
    with pytest.raises(BadInput, match="not finished") as refused:
        put(costs_run(tmp_path, RATIOS, ended=""), storm.path)
    assert "--resume" in refused.value.hint
    with pytest.raises(BadInput, match="not finished: it was interrupted"):
        put(run, storms_run(tmp_path, ROLES, ended="interrupted").path)
    with pytest.raises(BadInput, match="they run elsewhere"):
        put(run, storms_run(tmp_path, {}).path)
    with pytest.raises(BadInput, match="--image"):
        put(run, storm.path, image=5)


def test_a_report_puts_it_in_the_newest_storm_beside(tmp_path: Path) -> None:
    run = costs_run(tmp_path, RATIOS)
    assert load_report(run).analysis.context is None
    older = storms_run(tmp_path, ROLES)
    newer = storms_run(tmp_path, ROLES)
    os.utime(older.path / "plan.json", (1, 1))
    report = load_report(run)
    found = report.analysis.context
    assert found is not None and found.of == newer.id
    jsonschema.validate(json.loads(json.dumps(report.analysis.to_json())), analysis_schema())
    jsonschema.validate(json.loads(json.dumps(found.to_json())), schema(Context))
    page = render_html(report)
    assert '<h2 id="context">' in page and newer.id in page
    assert "RPC took 5." in page
    assert "In context" in render(report)
    # The newest tells nothing: the one before does.
    (newer.path / "ledger.ndjson").write_text("")
    again = load_report(run).analysis.context
    assert again is not None and again.of == older.id


def test_the_same_runs_give_the_same_figures(run: RunDirectory, storm: RunDirectory, found: Context) -> None:
    again = context(costs(run), boots(storm), directory=str(storm.path))
    assert again.to_json() == found.to_json()
