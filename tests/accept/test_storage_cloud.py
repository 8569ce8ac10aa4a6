"""A storage sweep on volumes of a real OpenStack: two types, one of them limited, written to by fio in two real guests,
emulated. All of it goes, also after a kill, and after what the cloud cannot do.

On a bed of the test's own. A quarter of an hour on two processors that have nothing else to do.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.clouds.http import Api
from contend.clouds.login import login
from contend.clouds.openstack import KINDS, Cloud
from contend.errors import ContendError
from contend.store.ledger import leftovers, read_rows
from contend.testbed import virt
from contend.testbed.openstack import guest_tools, hypervisor, network, volumes
from contend.testbed.openstack.bed import CLOUD, Bed
from contend.testbed.openstack.cloud import variables
from contend.workloads.generators.storage_cloud import SERVICES
from results.files import save
from support.clouds import bed_command, need_services
from support.command_line import Home, rows, wait_for
from support.prerequisites import need

pytestmark = pytest.mark.accept

STUDY = ("run", "storage-sweep", "--cloud", CLOUD)
SLOW_IOPS = 100


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """One host with real guests, two backends of real volumes."""
    place = tmp_path_factory.mktemp("volumes") / "bed"
    need_services()
    need(not guest_tools.lacks(guest_tools.STORAGE), guest_tools.lacks(guest_tools.STORAGE))
    try:
        hypervisor.need(Bed(place, "", {}))
        volumes.need()
    except ContendError as error:
        need(False, f"{error.message} ({error.hint})")
    try:
        shape = ("--computes=0", "--libvirt=1", "--web-workers=1", f"--backends=fast,slow={SLOW_IOPS}")
        bed_command(place, "up", *shape)
        found = Bed.load(place)
        assert found is not None
        yield found
    finally:
        bed_command(place, "down", "--wipe")
    assert network.left(found) == []
    assert volumes.left(found) == {}
    assert virt.guests(found.libvirt) == {}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[Api]:
    found = Api(login(CLOUD, str(bed.clouds_yaml), SERVICES))
    yield found
    found.close()


def ours(api: Api) -> list[str]:
    """Whatever contend has on the cloud, of every kind."""
    cloud = Cloud(api, "")
    services = api.access.endpoints
    return [
        i["name"] for kind in KINDS.values() if kind.service in services for i in cloud.list(kind, "contend-")
    ]


def settings(*more: str) -> list[str]:
    asked = (
        "pools=[fast,slow]",
        "size=16M",
        "block_sizes=[4k,16k]",
        "depths=[8]",
        "engines=[async]",
        "reads=[70]",
        "patterns=[random]",
        "focus=0",
        "table.depth=8",
        "table.block_sizes=[4k]",
        "measure.target=null",
        "measure.blocks=8",
        "measure.pilot=0",
        "measure.budget=null",
        "measure.trial=1s",
        "parameters.image=guest-fio",
        "parameters.flavor=medium",
        "parameters.networks=net",
        *more,
    )
    return [word for setting in asked for word in ("--set", setting)]


def gone(bed: Bed, api: Api, run: Path) -> None:
    assert ours(api) == []
    assert leftovers(run / "ledger.ndjson") == []
    wait_for(lambda: not virt.guests(bed.libvirt), "guests are gone", 120)
    wait_for(lambda: volumes.left(bed) == {}, "loop devices are free", 30)
    assert [file for file in volumes.backends_folder(bed).rglob("*") if file.is_file()] == []


def test_the_limited_type_is_found_and_all_of_it_goes(bed: Bed, api: Api, contend: Home) -> None:
    said = contend(*STUDY, *settings(), "--json", timeout=1500, env={**variables(bed)}).fine()
    run = contend.the_run()
    shown = contend("report", str(run), env={"COLUMNS": "110"}).fine().out.replace(str(contend.path), "…")
    lines = (line.rstrip() for line in shown.strip("\n").splitlines())
    save("storage-cloud", {"trials": len(list(rows(run))), "shown": "\n".join(lines)})
    alone: dict[str, list[float]] = {}
    for row in rows(run):
        figures = {m["name"]: m["value"] for m in row["metrics"]}
        assert figures["emulated"] == 1.0, "and every row says so"
        assert row["flags"] == [] or "foreign-cpu" not in row["flags"]
        if row["factors"]["neighbour"] == "none":
            alone.setdefault(row["factors"]["pool"], []).append(figures["iops"])
        elif row["neighbours"]:
            (neighbour,) = row["neighbours"]
            assert neighbour["burning"] and neighbour["during"] > 20e3, "bytes a second of its own volume"
    fast, slow = (statistics.median(alone[pool]) for pool in ("fast", "slow"))
    assert fast > 2 * slow
    # What the hypervisor lets through, but for what it gives at once.
    assert slow < 1.5 * SLOW_IOPS
    swept = said.json()["sweep"]
    assert swept["cloud"]["emulated"] is True
    assert set(swept["cloud"]["hosts"].values()) == {"virt-1"}
    assert {pool: of.partition("#")[0] for pool, of in swept["cloud"]["backends"].items()} == {
        "fast": "cinder@fast",
        "slow": "cinder@slow",
    }
    assert "fast serves more than slow" in said.json()["answer"]
    written = {told["file"]: told["written_bytes"] for told in swept["preconditioned"]}
    assert set(written.values()) == {16 * 2**20} and len(written) == 4
    gone(bed, api, run)
    assert not list(run.rglob("key")), "the private key went with the instances"


@pytest.mark.parametrize("by", ["requests", "heat"])
def test_after_a_kill_destroy_finds_and_removes_all_of_it(bed: Bed, api: Api, contend: Home, by: str) -> None:
    process = contend.start(
        *STUDY,
        *settings(f"parameters.by={by}"),
        env={**variables(bed)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: contend.run_directories() and rows(contend.the_run()), "a trial has ended", 400)
    run = contend.the_run()
    assert len(volumes.left(bed)) == 4, "each volume is a device while it is attached"
    assert (run / "stack.yaml").exists() == (by == "heat")
    announced = {str(row.get("kind")) for row in read_rows(run / "ledger.ndjson")}
    assert ("openstack-stack" if by == "heat" else "openstack-volume") in announced
    process.kill()  # first: it would tidy up after the others
    process.wait()
    for pid, _ in contend._processes():
        os.kill(pid, signal.SIGKILL)
    assert ours(api) != []
    contend("destroy", str(run), timeout=400, env={**variables(bed)}).fine()
    gone(bed, api, run)


def test_a_type_that_no_backend_serves_is_told_in_cinder_s_words_and_leaves_nothing(
    bed: Bed, api: Api, contend: Home
) -> None:
    body = {"name": "nobody", "extra_specs": {"volume_backend_name": "nobody"}}
    made = api.request("POST", "block-storage", "/types", body={"volume_type": body}).json()["volume_type"]
    try:
        words = settings("pools=[fast,nobody]")
        contend(*STUDY, *words, timeout=300, env={**variables(bed)}).error(
            1, "type 'nobody' is in ERROR", "weighted backend"
        )
    finally:
        api.request("DELETE", "block-storage", f"/types/{made['id']}")
    gone(bed, api, contend.the_run())


def test_a_type_that_is_not_there_is_named_before_anything_is_made(bed: Bed, api: Api, contend: Home) -> None:
    contend(*STUDY, *settings("pools=[fsat]"), timeout=300, env={**variables(bed)}).error(2, "fsat", "fast")
    assert ours(api) == []


def test_without_a_pool_every_type_is_one(bed: Bed, contend: Home) -> None:
    words = [word for setting in ("size=16M", "parameters.networks=net") for word in ("--set", setting)]
    said = contend(*STUDY, *words, "--budget", "3h", "--dry-run", timeout=120, env={**variables(bed)}).fine()
    for name in ("fast", "slow", "fake"):
        assert f"2 volumes of type {name}, 1 GiB each" in said.out
