"""What a run on several hosts says, from rows that were made: over hosts from five on, else each by itself."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.advice.finding import Finding, Treatment
from contend.analysis.hosts_words import notes, rows
from contend.analysis.schema import analysis_schema
from contend.fleet.following import Following, Settings
from contend.fleet.ssh import Way
from contend.fleet.up import Fleet
from contend.report.html import render_html
from contend.report.model import ReportInput
from contend.report.progress import NoProgress
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.studies.scenarios import load
from support.analysed import analyse
from support.made_fleets import made_run


def of(run: RunDirectory) -> Any:
    analysis = analyse(run, load(str(run.path / "scenario.yaml")))
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())
    return analysis


def test_five_hosts_that_differ_have_one_interval(tmp_path: Path) -> None:
    """t over the hosts' own ratios: as wide as the hosts differ, not as their many blocks would have it."""
    ratios = {f"h{n}": 1.5 + 0.1 * n for n in range(5)}
    analysis = of(made_run(tmp_path, ratios))
    (cell,) = analysis.cells
    assert cell.estimate.n == 5 and cell.estimate.verdict == "higher" and analysis.fleet.pooled
    # By hand: t(0.975, 4) = 2.776 times the standard error of the logarithms.
    logs = [math.log(r) for r in ratios.values()]
    mean = sum(logs) / 5
    reach = 2.776 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 4 / 5)
    assert cell.estimate.low == pytest.approx(math.exp(mean - reach), rel=0.02)
    assert cell.estimate.high == pytest.approx(math.exp(mean + reach), rel=0.02)
    assert analysis.controls and "over 5 hosts" in analysis.answer
    assert len(cell.baseline.values) == 5, "a host is one point"
    assert analysis.design.intervals.startswith("95 % over hosts, 1 together")


def test_four_hosts_are_each_by_themselves(tmp_path: Path) -> None:
    analysis = of(made_run(tmp_path, {f"h{n}": 1.5 + 0.1 * n for n in range(4)}))
    assert analysis.cells == () and not analysis.fleet.pooled
    assert "needs 5" in analysis.fleet.reason and "each by itself" in analysis.answer
    for number, host in enumerate(analysis.fleet.hosts):
        (ratio,) = host.ratios
        assert (
            ratio.estimate.low < 1.5 + 0.1 * number < ratio.estimate.high
            or ratio.estimate.value == pytest.approx(1.5 + 0.1 * number, rel=0.02)
        )


def test_a_finding_on_several_hosts_is_not_offered_to_be_tried(tmp_path: Path) -> None:
    analysis = of(made_run(tmp_path, {f"h{n}": 1.5 for n in range(5)}))
    (cell,) = analysis.cells
    finding = Finding(
        id="F1", subject="fio", share=None, estimate=cell.estimate, evidence=(),
        kind="", resource="run queue", sentence="", advice="", verify="",
        treatment=Treatment("fio", "stress-cpu", "quota"),
    )  # fmt: skip
    report = ReportInput(analysis, {}, "", [], None, "contend run s.yaml", str(tmp_path))
    assert finding.trial(report.run_dir) and report.trial_of(finding) == ""


def test_one_block_of_each_host_is_no_answer(tmp_path: Path) -> None:
    analysis = of(made_run(tmp_path, {f"h{n}": 1.5 + 0.1 * n for n in range(3)}, blocks=1))
    assert analysis.answer == "No answer yet: no host has blocks enough for an interval."


def test_what_is_missing_is_said_by_host(tmp_path: Path) -> None:
    analysis = of(made_run(tmp_path, {f"h{n}": 1.5 for n in range(6)}, lost=("h2",)))
    (line,) = analysis.fleet.missing
    assert line == "h2: 12 of 24 trials (lost for 120 s)"
    assert any("given up: lost for 120 s" in cell for cell in rows(analysis.fleet)[2])
    assert notes(analysis.fleet) == [f"missing: {line}"]
    assert analysis.skipped == (line,)


@pytest.mark.parametrize(("spent_s", "given_up"), [(20, False), (1000, True)])
def test_who_is_far_behind_is_not_waited_for(tmp_path: Path, spent_s: float, given_up: bool) -> None:
    """Half of the hosts took 10 s: after 5 times as long, and 30 s at least, the others are given up."""
    run = made_run(tmp_path, {"h1": 1.5, "h2": 1.5, "h3": 1.5, "h4": 1.5}, lost=("h3",))
    fleet = Fleet("f", tmp_path, (), Way(), keep=False, by_hand=True, lost_s=60)
    scenario = load(str(run.path / "scenario.yaml"))
    asked = Settings(fleet, "", scenario, dict.fromkeys(["h1", "h2", "h3", "h4"], 7), {}, "x", False, 60, 5)

    async def judged() -> Following:
        with Ledger(run.ledger_path) as ledger:
            following = Following(asked, run, ledger, NoProgress())
            for name in ("h1", "h2", "h4"):
                following.states[name].state, following.states[name].took_s = "ended", 10.0
            following.states["h3"].state = "running"
            following._began -= spent_s
            waiting = asyncio.create_task(asyncio.sleep(60))
            with suppress(TimeoutError):
                await asyncio.wait_for(following._stragglers(dict.fromkeys(following.states, waiting)), 1.2)
            assert waiting.cancelled() == given_up or waiting.cancelling() == given_up
            waiting.cancel()
        return following

    state = asyncio.run(judged()).states["h3"]
    assert (state.state == "given up") == given_up
    assert ("behind" in state.why) == given_up


def test_each_host_has_its_dot(tmp_path: Path) -> None:
    run = made_run(tmp_path, {"h1": 1.5, "h2": 1.2, "h3": 1.0})
    analysis = of(run)
    report = ReportInput(analysis, run.environment(), {}, run.rows(), None, "contend run", str(run.path))
    [plot] = analysis.own.plots(report)
    assert (plot.id, plot.role) == ("hosts-1", "hosts")
    assert [row[0] for row in plot.table] == ["h1", "h2", "h3"], "the largest effect first"
    assert [row["colour"] for row in plot.spec["data"]["values"]] == [
        "var(--bad)",
        "var(--bad)",
        "var(--warn)",
    ], "undecided on h3"
    assert 'id="figure-hosts-1"' in render_html(report)
