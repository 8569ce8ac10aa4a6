"""Hosts of several sizes: which cells, in which order, and a planted cost of a small share of the host found again."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.document import Analysis
from contend.engine import checks
from contend.engine.plan import make_plan
from contend.errors import CannotHonour
from contend.platforms import hotplug
from contend.platforms.cgroups import Layout
from contend.platforms.topology import Topology, pick
from contend.report.export import export
from contend.report.html import render_html
from contend.report.model import ReportInput
from contend.report.terminal import render
from contend.studies import platform_settings
from contend.studies.overhead.model import Overhead
from contend.studies.overhead.practices import judge
from contend.studies.registry import cells_of, study_of
from contend.studies.scenarios import load
from support.hosts_run import SMT, hosts_run, text
from support.intervals import holds


def overhead(*settings: str) -> Overhead:
    asked = load("platform-overhead", ("apps=mpi-prime", *settings))
    assert isinstance(asked, Overhead)
    return asked


def test_cells_of_each_host_have_the_baseline_of_their_own() -> None:
    asked = overhead("hosts=[4, 2]", "sizes=[1, 2, 4]", "provisioning=vanilla", "hosts_by=offline")
    cells = {c.id.partition("|")[2]: c for c in cells_of(asked)}
    baselines = {name: c.baseline.partition("|")[2] for name, c in cells.items() if c.baseline}
    assert baselines == {
        "container vanilla 1 CPU of 4": "bare 1 CPU of 4",
        "container vanilla 2 CPUs of 4": "bare 2 CPUs of 4",
        "container vanilla 4 CPUs of 4": "bare 4 CPUs of 4",
        "bare 4 CPUs of 4 (control)": "bare 4 CPUs of 4",
        "container vanilla 1 CPU of 2": "bare 1 CPU of 2",
        "container vanilla 2 CPUs of 2": "bare 2 CPUs of 2",
    }
    of = cells["container vanilla 1 CPU of 2"].factors
    assert (of["host"], of["host_by"]) == ("2", "offline")
    assert cells["bare 4 CPUs of 4"].factors["host_by"] == "whole"
    plain = next(iter(cells_of(overhead("sizes=1")))).factors
    assert not {"host", "host_by"} & plain.keys()


def test_trials_of_one_host_stand_together_and_either_may_come_first() -> None:
    plan = make_plan(overhead("hosts=[2, 4]", "sizes=[1, 2]", "hosts_by=offline"), 3)
    first = []
    for block in plan.rounds("counted"):
        hosts = [plan.cell(trial.cell).factors["host"] for trial in block]
        assert sum(a != b for a, b in itertools.pairwise(hosts)) == 1
        first.append(hosts[0])
    assert set(first) == {"2", "4"}


def test_cpus_that_stay_and_what_is_left_out() -> None:
    asked = overhead(
        "hosts=[2, 4, 8]", "sizes=[1, 2]", "hosts_by=offline", "platforms=[container, vm]",
        "placements=[packed, spread]",
    )  # fmt: skip
    of = platform_settings.wired(asked, SMT, [0])
    assert {n: topology.ids for n, topology in of.items()} == {8: tuple(range(8)), 4: (0, 1, 4, 5), 2: (0, 4)}
    refused = {
        p.label: why for p, why in platform_settings.cannot(asked, SMT, Layout(None, {}), fixed=[0]).items()
    }
    assert refused["vm pinned 1 CPU of 4"] == "guests are made on the whole host only"
    assert "vm vanilla 1 CPU of 8" not in refused
    assert "container pinned spread 2 CPUs of 2" in refused, "of two CPUs there is one choice"
    assert "container pinned spread 2 CPUs of 4" not in refused
    confined = platform_settings.wired(asked.model_copy(update={"hosts_by": "confined"}), SMT)
    assert confined[2].ids == pick(SMT, 2) == (3, 7)


@pytest.mark.parametrize(("why", "by"), [("", "offline"), ("only root may", "confined")])
def test_where_no_cpu_may_go_it_is_confined_and_said(
    why: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topology, "read", staticmethod(lambda *_, **__: SMT))
    monkeypatch.setattr(hotplug, "fixed", lambda *_: (0,))
    monkeypatch.setattr(hotplug, "online", lambda *_: SMT.ids)
    monkeypatch.setattr(hotplug, "why_not", lambda *_, **__: why)
    asked = overhead("sizes=[2]", "hosts=[1, 4, 16]")
    fitted, skipped = checks.fitted(asked)
    assert isinstance(fitted, Overhead)
    assert (fitted.hosts, fitted.hosts_by) == ((4, 8), by)
    assert "host of 16 CPUs: this one has 8 for contend" in skipped
    assert "host of 1 CPU: no size fits it" in skipped
    assert any("they are confined instead" in line for line in skipped) == bool(why)
    assert study_of(fitted).wiring(fitted, Path("runs"))["hosts"] == {
        "8": list(range(8)),
        "4": [0, 1, 4, 5] if not why else [2, 3, 6, 7],
    }
    if why:
        with pytest.raises(CannotHonour, match="can be taken offline: only root may"):
            checks.fitted(asked.model_copy(update={"hosts_by": "offline"}))
    none, skipped = checks.fitted(overhead("sizes=[2]", "hosts=8"))
    assert isinstance(none, Overhead) and none.hosts == () and skipped == ()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return hosts_run(tmp_path_factory.mktemp("hosts"))


@pytest.fixture(scope="module")
def analysis(report: ReportInput) -> Analysis:
    return report.analysis


def test_the_effect_of_the_share_is_found_with_its_interval(analysis: Analysis) -> None:
    assert analysis.result is not None
    effects = {
        (e.kind, e.over[0].provisioning, e.over[0].size): e
        for e in analysis.result.effects
        if "CHR" in e.kind
    }
    vanilla = effects["CHR", "vanilla", 1]
    assert holds(vanilla.ratio, 1.4) and vanilla.ratio.verdict == "higher"
    assert (vanilla.over[0].host_cpus, vanilla.under[0].host_cpus) == (4, 2)
    assert effects["CHR", "pinned", 1].ratio.verdict == "unaffected"
    assert effects["CHR", "vanilla", 2].ratio.verdict == "unaffected"
    crossed = effects["CHR × pinning", "vanilla", 1]
    assert holds(crossed.ratio, 1.4)
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())
    said = analysis.result.to_json()
    assert said["hosts"] == [{"cpus": 2, "by": "offline"}, {"cpus": 4, "by": "whole"}]
    assert "the host of 2 CPUs is this one with the others taken offline" in said["notes"]


def test_it_is_advised_how_much_of_a_host_to_give(analysis: Analysis) -> None:
    (finding,) = (f for f in analysis.findings if f.kind == "host-share")
    assert "mpi-prime in a vanilla container takes 1.4" in finding.sentence
    assert (
        "at 1 CPU on a host of 4 CPUs (25 % of the host), of what it takes on one of 2 CPUs (50 % of the host)"
        in finding.sentence
    )
    assert "on the larger it was throttled" in finding.sentence and finding.resource == "throttling"
    assert "a set of CPUs makes that less" in finding.sentence and "confined" not in finding.sentence
    assert "a share ≥ 50 % among those measured (1 CPU on a host of 2 CPUs), or a set" in finding.advice
    assert finding.verify.endswith("--set hosts=[2,4] --set sizes=[1]")
    # What is advised of pinning and size is of the whole host: the smaller one is there to be compared with.
    others = [f for f in analysis.findings if f.kind != "host-share"]
    assert all("host of 2" not in f.sentence for f in others)


def test_the_practice_is_judged_by_it(analysis: Analysis) -> None:
    practice = next(p for p in analysis.result.practices if p.id == "enough-of-the-host")
    assert practice.verdict == "refuted", (
        "it costs at 0.25 of the host, where it should have faded from 0.14 on"
    )
    (said,) = practice.answers
    assert (
        said.startswith("mpi-prime: by hosts of several sizes: 1.4") and "25 % of the host over 50 %" in said
    )


@pytest.mark.parametrize(
    ("between", "verdict"),
    [
        ([0.07, 0.14], "refuted"),
        ([0.2, 0.5], "confirmed"),
        ([0.3, 0.6], "cannot tell"),
        ([0.1, 0.2], "refuted"),
    ],
)
def test_what_a_share_says_of_what_is_claimed(
    analysis: Analysis, between: list[float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 0.25 of the host it costs, at 0.5 certainly not."""
    assert analysis.result is not None
    from contend.studies.overhead import practices

    made: Mapping[str, object] = {
        "id": "x", "claim": "x", "of": {"platform": "container", "provisioning": "vanilla"}, "figure": "fades",
        "between": {"cpu": between},
    }  # fmt: skip
    monkeypatch.setattr(practices.yaml, "safe_load", lambda _: [made])
    primary = [c for c in analysis.cells if c.metric.primary]
    (found,) = judge(analysis.result, primary, {"mpi-prime": "cpu"})
    assert found.verdict == verdict


def test_a_confined_host_is_labelled_everywhere(tmp_path: Path) -> None:
    report = hosts_run(tmp_path, "confined")
    shown = render(report, width=200)
    assert "1 CPU of 2 confined" in shown and "over 2 confined" in shown
    assert "confined to 2 CPUs: all of the run was kept on so many" in shown
    (finding,) = (f for f in report.analysis.findings if f.kind == "host-share")
    assert "the smaller host was confined, not made by taking CPUs offline" in finding.sentence
    practice = next(p for p in report.analysis.result.practices if p.id == "enough-of-the-host")
    assert not any("hosts of several sizes" in said for said in practice.answers)


def test_hosts_on_the_page_and_in_tables(report: ReportInput, tmp_path: Path) -> None:
    page = render_html(report)
    assert "mpi-prime, container vanilla, 1 CPU of 4 over 2" in page
    assert "container pinned, 1 CPU of 2" in page, "which CPUs the sets of the smaller host got"
    export(report, "csv", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open() as file:
        hosts = {(row["host"], row["host_by"]) for row in csv.DictReader(file)}
    assert hosts == {("4", "whole"), ("2", "offline")}
    export(report, "latex", tmp_path / "x.tex")
    tex = (tmp_path / "x.tex").read_text()
    assert (
        "mpi-prime, 1 CPU of 2 &" in tex
        and "CHR & mpi-prime, container vanilla, 1 CPU of 4 over 2 & 1.4" in tex
    )
    assert text("offline").count("hosts") == 2
