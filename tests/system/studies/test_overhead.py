"""`contend run platform-overhead` on this host: every place is what it was asked to be, and a planted cost is found."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.platforms.topology import Topology, pick
from support.command_line import Home, check_files, rows
from support.planted_quota import (
    ITS_OWN_CLOCK,
    PERIOD_S,
    TICK_S,
    burner,
    changed,
    middle,
    planted,
    ratios,
    slowed,
    told,
    updated,
)
from support.prerequisites import need

SLOWER = 2.5  # enough of a quota to bind also where others leave a burner little more than half a CPU


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    need(os.geteuid() == 0, "root")
    need(shutil.which("podman") or shutil.which("runc"), "podman or runc")
    need(len(Topology.read().cpus) >= 2, "two CPUs")
    home = Home(tmp_path)
    yield home
    home.nothing_left()


def words(app: str, blocks: int, *settings: str) -> list[str]:
    asked = [f"app={app}", "measure.target=null", f"measure.blocks={blocks}", "measure.pilot=0", *settings]
    return ["run", "platform-overhead", *(word for setting in asked for word in ("--set", setting))]


def test_every_place_is_what_was_asked(contend: Home) -> None:
    """Read back from the kernel, trial by trial: sets of CPUs, quotas, and nothing of either on the bare host."""
    said = contend(*words("true", 1, "sizes=[0.5,1,2/1GB]", "measure.design=pairs"), timeout=240).fine()
    run = contend.the_run()
    check_files(run)
    every = tuple(sorted(os.sched_getaffinity(0)))
    (one,) = pick(Topology.read(), 1)
    given = {row["cell"]: row["honoured"] for row in rows(run)}
    wanted: dict[str, tuple[list[int], float | None]] = {
        "bare 1 CPU": ([one], None),
        "container vanilla 0.5 CPU": (list(every), 0.5),
        "container pinned 0.5 CPU": ([one], 0.5),
        "container vanilla 1 CPU": (list(every), 1),
        "container pinned 1 CPU": ([one], None),
        "bare 2 CPUs": (list(pick(Topology.read(), 2)), None),
        "container vanilla 2 CPUs 1 GiB": (list(every), 2),
        "container pinned 2 CPUs 1 GiB": (list(pick(Topology.read(), 2)), None),
    }
    assert given.keys() >= {f"true|{name}" for name in wanted}
    for name, (cpus, quota) in wanted.items():
        got = given[f"true|{name}"]
        assert got["cpus"] == cpus, name
        assert got.get("quota_cpus") == quota, name
        if name.endswith("1 GiB"):
            assert got["memory_bytes"] == 1 << 30
    document = json.loads((run / "findings.json").read_text())
    jsonschema.validate(document, analysis_schema())
    assert document["answer"].startswith("No answer yet") and "cannot tell" in said.out
    seen = {of["cell"]: of for of in document["schedules"]}
    assert all(of["switches"] > 0 and of["counts"]["on_cpu"] for of in seen.values())
    # A command of some milliseconds can end before a late sample's first look, and is told of the trial before.
    assert len(seen.keys() & {f"true|{name}" for name in wanted}) > len(wanted) / 2


def test_periods_and_bursts_are_what_was_asked(contend: Home) -> None:
    """Read back from the kernel; what it would refuse is left out and said."""
    asked = ("sizes=[0.05,0.5]", "periods=[10ms,100ms]", "bursts=[0,5ms]", "placements=[packed,spread]")
    said = contend(*words("true", 1, *asked, "measure.design=pairs"), timeout=240).fine()
    run = contend.the_run()
    given = {row["cell"]: row["honoured"] for row in rows(run) if "vanilla" in row["cell"]}
    usual, short = (100_000, 0), (10_000, 0)
    wanted = {
        "0.05 CPU": usual, "burst 5ms 0.05 CPU": (100_000, 5_000), "0.5 CPU": usual, "10ms 0.5 CPU": short,
        "burst 5ms 0.5 CPU": (100_000, 5_000), "10ms burst 5ms 0.5 CPU": (10_000, 5_000),
    }  # fmt: skip
    assert given.keys() == {f"true|container vanilla {name}" for name in wanted}
    for name, (period, burst) in wanted.items():
        got = given[f"true|container vanilla {name}"]
        assert (got["period_us"], got["burst_us"] or 0) == (period, burst), name
        assert got["quota_cpus"] == float(name.split()[-2]), name
    document = json.loads((run / "findings.json").read_text())
    jsonschema.validate(document, analysis_schema())
    assert any("none below 1 ms" in line for line in document["skipped"])
    assert "Which CPUs each set got" in said.out


def test_one_set_of_inputs_serves_all_places(contend: Home) -> None:
    contend.workload(
        "once",
        "name: once\nprepare: \"sh -c 'date +%s%N >> {work}/made'\"\n"
        "run: \"sh -c 'cp {work}/made {out}/made'\"\nkeep: [made]\n"
        "metrics: {wall: {builtin: wall, unit: s, better: lower}}\ndominant: cpu\ntrial: 100ms\n",
    )
    settings = ("apps=once", "sizes=[1,2]", "measure.target=null", "measure.blocks=1", "measure.pilot=0")
    asked = [word for setting in settings for word in ("--set", setting)]
    contend("run", "platform-overhead", *asked, timeout=240).fine()
    made = {path.read_text() for path in contend.the_run().glob("outputs/*/made")}
    assert len(made) == 1 and len(made.pop().split()) == 1


@pytest.mark.alone
def test_a_planted_cost_is_found_and_put_down_to_throttling(contend: Home) -> None:
    """Held to what the burner's own clock says of the same turns: others on this machine slow the burner on the bare host,
    whose CPU they share, and not one that has to wait anyway, so no ratio known beforehand is the truth."""
    need(shutil.which("runc"), "runc")
    contend.workload("itself-timed", ITS_OWN_CLOCK)

    def prefer() -> None:  # other work on this machine is no part of the test
        os.nice(-15)

    with slowed(contend, SLOWER) as seen:
        contend(*burner(8, app="apps=itself-timed"), timeout=300, preexec_fn=prefer).fine()
    assert seen, "the planted quota was written"
    waits = {
        of["factors"]["platform"]: of
        for of in json.loads((contend.the_run() / "findings.json").read_text())["schedules"]
    }
    assert {"bare", "container"} <= waits.keys(), "a burner is on a CPU in every trial"
    trials = told(contend.the_run())
    assert len(trials) == 16
    quota_s = PERIOD_S / SLOWER
    for one in trials:
        assert one.took_s - TICK_S < one.measured_s, "it began before the burner did, and ended after"
        if one.platform == "container":  # it had no more than its quota in each period that it touched
            assert one.took_s + TICK_S > (one.cpu_s / quota_s - 2) * PERIOD_S, (
                "the planted quota held it back"
            )
    estimate, findings = planted(contend)
    truth, low, high = middle(ratios(trials)), estimate["low"], estimate["high"]
    print(f"{estimate['value']:.3f} [{low:.3f}, {high:.3f}]; by the burner's own clock {truth:.3f}")
    clocks = 2 * TICK_S / min(one.took_s for one in trials)
    assert abs(math.log(estimate["value"] / truth)) < max(math.log(high / low) / 2, clocks)
    assert estimate["verdict"] == "higher" and high < SLOWER * low, (
        "the planted quota held back more than others did"
    )
    (finding,) = findings
    assert (finding["kind"], finding["resource"]) == ("platform-cost", "throttling")
    assert finding["share"] > 0.7 and re.search(
        r"was limited by the CPU quota of \S+ CPUs in \S+containers", finding["sentence"]
    )


@pytest.mark.alone
def test_a_quota_changed_from_outside_gets_no_verdict(contend: Home) -> None:
    """As by `docker update --cpus` meanwhile: neither the platform's cost nor a neighbour's."""
    need(shutil.which("runc"), "runc")
    with changed(contend, SLOWER) as seen:
        contend(*burner(3), timeout=120)
    assert seen, "the quota was written"
    estimate, findings = planted(contend)
    assert estimate["verdict"] == "refused" and findings == []
    assert "somebody else changed a limit while it was measured" in estimate["warnings"][0]
    counted = [row for row in rows(contend.the_run()) if row["phase"] == "counted"]
    of = {row["factors"]["platform"]: row for row in counted}
    assert "limit-changed" in of["container"]["flags"] and "limit-changed" not in of["bare"]["flags"]
    (change,) = of["container"]["limits_changed"]
    assert (
        Path(change["file"]).name in ("cpu.cfs_quota_us", "cpu.max") and change["before"] != change["after"]
    )
    assert "limit-changed" in contend("report", str(contend.the_run())).out


@pytest.mark.alone
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("--cpus=0.6",), "cpu.cfs_quota_us cpu.max"),
        # 1024, its default, is what it has.
        (("--cpu-shares=333",), "cpu.shares cpu.weight"),
        (("--cpuset-cpus=0-1",), "cpuset.cpus"),
    ],
)
def test_what_podman_update_changes_gets_no_verdict(words: tuple[str, ...], file: str, contend: Home) -> None:
    need(shutil.which("podman"), "podman")
    with updated(contend, *words) as seen:
        contend(*burner(3, "podman"), timeout=200)
    assert seen, "podman has changed it"
    estimate, findings = planted(contend)
    assert estimate["verdict"] == "refused" and findings == []
    counted = [row for row in rows(contend.the_run()) if row["phase"] == "counted"]
    of = {row["factors"]["platform"]: row for row in counted if "limit-changed" in row["flags"]}
    assert of.keys() == {"container"}
    assert any(Path(one["file"]).name in file.split() for one in of["container"]["limits_changed"])


def test_in_guests_too(contend: Home) -> None:
    """Emulated or not, they say so."""
    need(shutil.which("qemu-system-x86_64"), "qemu-system-x86_64")
    asked = words("gzip -1 -k -c /bin/true", 1, "sizes=1", "platforms=[vm]", "provisioning=pinned")
    contend(*asked, timeout=240).fine()
    run = contend.the_run()
    given = {row["cell"]: row["honoured"] for row in rows(run)}
    guest = given["gzip|vm pinned 1 CPU"]
    assert guest["vcpus"] == 1 and guest["cpus"] == list(pick(Topology.read(), 1))
    document = json.loads((run / "findings.json").read_text())
    jsonschema.validate(document, analysis_schema())
    assert document["overhead"]["emulated"] == (["vm"] if guest["emulated"] else [])
    assert document["overhead"]["startup_s"]["vm"] > 0
