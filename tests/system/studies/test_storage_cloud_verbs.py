"""What a sweep on a cloud runs, from the study's own command lines to figures, on a small cloud of this host: instances are
SSH servers, volumes loop devices. On a real one: tests/accept/test_storage_cloud.py."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.engine.plan import make_plan
from contend.store.ledger import leftovers
from contend.studies.cell import Cell
from contend.studies.scenarios import load
from contend.studies.storage import pools
from contend.studies.storage.model import Storage
from contend.workloads.generators import storage_cloud
from contend.workloads.generators.cloud import access_file
from contend.workloads.instance import Commands
from contend.workloads.metrics import read_metrics
from support.command_line import Home, rows
from support.prerequisites import need
from support.small_cloud import SmallCloud, small_cloud

RUN = "storage-sweep-20260102-101500-7f3a"
NATIVE = ("python", "-m", "generators", "storage-cloud")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[SmallCloud]:
    need(os.geteuid() == 0, "root, for devices and to listen on port 22")
    need(shutil.which("fio") and shutil.which("losetup"), "fio and losetup")
    need(Path("/dev/loop-control").exists(), "loop devices")
    with small_cloud(tmp_path) as found:
        yield found


class Sweep:
    """The directory of a run, and its commands as the study has them, by this process."""

    def __init__(self, cloud: SmallCloud, place: Path, *settings: str) -> None:
        self.run = place / RUN
        self.out = self.run / "work/trial"
        (self.out / "neighbour").mkdir(parents=True)
        cloud.access(access_file(self.run / "work", "small"))
        asked = ("cloud=small", "pools=[ssd,hdd]", "size=16M", "points=30", "measure.seed=1")
        scenario = load("storage-sweep", (*asked, "block_sizes=4k", "depths=8", "reads=70", *settings))
        assert isinstance(scenario, Storage)
        self.scenario = pools.fitted(scenario, place)[0]
        plan = make_plan(self.scenario, 1)
        self.beside = next(cell for cell in plan.cells if cell.neighbours)

    def commands(self, cell: Cell, *, neighbour: bool = False) -> Commands:
        party = cell.neighbours[0] if neighbour else cell.victim
        work = self.run / "work" / ("neighbour" if neighbour else "victim")
        work.mkdir(exist_ok=True)
        values = {"work": work, "out": self.out / "neighbour" if neighbour else self.out, "seed": 1}
        values |= {"seconds": "0.3", "cpus": 2, "cache": work, "port": 0, "address": "127.0.0.1"}
        party.instance.write_parameters(values)
        return party.instance.commands({**values, "native": "\0".join(NATIVE[:3])})

    def do(self, argv: tuple[str, ...]) -> int:
        assert argv[: len(NATIVE)] == NATIVE
        return storage_cloud.main(list(argv[len(NATIVE) :]))


def test_all_verbs_in_turn(cloud: SmallCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep(cloud, tmp_path)
    victim = sweep.commands(sweep.beside)
    beside = sweep.commands(sweep.beside, neighbour=True)
    make, lay = victim.prepare
    assert [sweep.do(argv) for argv in (make, lay, *beside.prepare)] == [0] * 4, capsys.readouterr().err
    assert len(cloud.things["/servers"]) == 2 and len(cloud.devices) == 4, "made once"
    assert {volume["status"] for volume in cloud.things["/volumes"].values()} == {"in-use"}
    laid = [told["written_bytes"] for told in pools.preconditioned(sweep.run / "work")]
    assert laid == [16 * 2**20] * 2

    words = [sys.executable, "-m", "contend.workloads.generators", *beside.neighbour[len(NATIVE) - 1 :]]
    with subprocess.Popen(words) as neighbour:
        moved = counted(sweep.out / "neighbour/moved", 0)
        assert sweep.do(victim.run[0]) == 0
        assert counted(sweep.out / "neighbour/moved", moved) > moved, (
            "it worked meanwhile, by its disk's own count"
        )
        neighbour.send_signal(signal.SIGKILL)
    assert sweep.do(victim.run[0]) == 0, "alone: what the kill left there has ended before"
    assert not (sweep.run / "work/instances/neighbour").exists()
    workload = sweep.beside.victim.instance.workload
    figures = {m.name: m.value for m in read_metrics(workload, sweep.out, [], [], {})}
    assert figures["iops"] > 10 and figures["latency_p99"] > 0
    assert {"emulated", "bandwidth"} <= set(figures)
    told = json.loads((sweep.out / "instances.json").read_text())
    assert told["volume"]["backend"] == f"c@{sweep.beside.factors['pool']}#p"
    assert sweep.do(victim.finish[0]) == 0
    assert cloud.left() == [] and leftovers(sweep.run / "ledger.ndjson") == []
    assert not list(sweep.run.rglob("key"))


def counted(file: Path, more_than: int) -> int:
    until = time.monotonic() + 15
    found = 0
    while found <= more_than and time.monotonic() < until:
        time.sleep(0.05)
        found = int(file.read_text()) if file.exists() else 0
    return found


def test_instances_that_stand_elsewhere_than_asked_leave_nothing(
    cloud: SmallCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.hosts = ["a", "b"]
    sweep = Sweep(cloud, tmp_path, "parameters.neighbour_host=same")
    assert sweep.do(sweep.commands(sweep.beside).prepare[0]) == 1
    assert "to be on one host" in capsys.readouterr().err
    assert cloud.left() == [] and leftovers(sweep.run / "ledger.ndjson") == []


def test_a_type_that_is_not_there_is_refused_before_anything_is_made(
    cloud: SmallCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.types = ["ssd"]
    sweep = Sweep(cloud, tmp_path)
    assert sweep.do(sweep.commands(sweep.beside).prepare[0]) == 2
    said = capsys.readouterr().err
    assert "volume type" in said and "hdd" in said and "ssd" in said
    assert cloud.left() == [] and not (sweep.run / "ledger.ndjson").read_text()


@pytest.mark.alone
def test_a_run_from_start_to_end(cloud: SmallCloud, contend: Home) -> None:
    """Two points on two pools, and a block: every trial's row, and what the report says of where it was."""
    cloud.describe(contend.path / "clouds.yaml")
    asked = (
        "size=16M", "block_sizes=[4k,16k]", "depths=8", "engines=async", "reads=70", "patterns=random", "points=2",
        "focus=0", "table.depth=8", "table.block_sizes=4k", "measure.target=null", "measure.blocks=1", "measure.pilot=0",
        "measure.budget=null", "measure.trial=300ms",
    )  # fmt: skip
    words = [word for setting in asked for word in ("--set", setting)]
    env = {"OS_CLIENT_CONFIG_FILE": str(contend.path / "clouds.yaml")}
    said = contend("run", "storage-sweep", "--cloud", "small", *words, "--json", timeout=300, env=env)
    found = rows(contend.the_run())
    assert {row["status"] for row in found} == {"ok"}, [row["error"] for row in found]
    assert len(found) == 2 * 2 * 2 + 2 * 3
    for row in found:
        names = {m["name"] for m in row["metrics"]}
        assert {"iops", "bandwidth", "latency_p99", "emulated"} <= names
        assert row["factors"]["cloud"] == "small" and row["factors"]["pool"] in cloud.types
        assert not [e["name"] for e in row["evidence"] if e["name"].startswith("disk_")], (
            "no disk of this host's"
        )
        for neighbour in row["neighbours"]:
            assert neighbour["burning"] and neighbour["unit"] == "B/s" and neighbour["during"] > 20e3
    swept = said.json()["sweep"]
    assert (
        swept["cloud"]["backends"] == {"ssd": "c@ssd#p", "hdd": "c@hdd#p"} and swept["cloud"]["apart"] == {}
    )
    assert len(swept["preconditioned"]) == 4
    assert cloud.left() == [] and leftovers(contend.the_run() / "ledger.ndjson") == []
