"""A storage sweep on a cloud: what it may say, what it makes there, which commands run where, what a report says of it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from contend.analysis.schema import analysis_schema
from contend.clouds.instances import disks, fio, heat, tenants
from contend.clouds.instances.disks import Disk
from contend.clouds.instances.volumes import Held
from contend.engine.plan import make_plan
from contend.errors import BadInput, HostFailed, ScenarioError
from contend.report.terminal import render
from contend.studies.registry import study
from contend.studies.scenarios import dump, load
from contend.studies.storage import cloud_pools, pools
from contend.studies.storage import duration as forecast
from contend.studies.storage.cloud_cells import instance_lines, topology_of
from contend.studies.storage.model import Storage
from contend.workloads import parameters_file
from contend.workloads.generators import storage_cloud as generator
from support.made_sweeps import TEXT, made_report

VALUES = {
    "work": "/w",
    "out": "/o",
    "seed": 1,
    "seconds": "1",
    "cpus": 2,
    "native": "python\0-m\0generators",
}
ID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def on_cloud(*settings: str) -> Storage:
    scenario = load("storage-sweep", ("cloud=c", *settings))
    assert isinstance(scenario, Storage)
    return scenario


def fitted(*settings: str) -> Storage:
    return pools.fitted(on_cloud("pools=[ssd,a type of mine]", *settings), Path())[0]


# ---- the study


def test_a_pool_is_a_volume_type_by_its_name_or_with_a_name_of_its_own() -> None:
    scenario = on_cloud("pools=[ssd, {name: slow, volume_type: hdd}]")
    assert [(pool.name, pool.volume_type) for pool in scenario.named] == [("ssd", "ssd"), ("slow", "hdd")]
    assert [pool.volume_type for pool in on_cloud("pools=ssd,hdd").named] == ["ssd", "hdd"]
    assert [pool.name for pool in fitted().named] == ["ssd", "a-type-of-mine"]


def test_it_reads_back_as_it_was_written() -> None:
    scenario = fitted("parameters.image=debian", "points=30")
    again = study("storage").scenario.model_validate(dump(scenario))
    assert isinstance(again, Storage)
    assert make_plan(again, 3).to_json() == make_plan(scenario, 3).to_json()
    assert pools.fitted(again, Path())[0] == again, "and is fitted as it is"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("pools=[{path: /srv}]",), "not a path"),
        (("pools=[{name: x, path: /dev/sdz, destroy: true}]",), "not a path"),
        (("pools=[ssd, {name: x}]",), "volume_type"),
        (("pools=[ssd, ssd]",), "two pools are called 'ssd'"),
        (("parameters.role=neighbour",), "for the study to fill in"),
        (("neighbour=stress-cpu",), "the neighbour is fio"),
        (("cloud=''", "pools=[{volume_type: ssd}]"), "a cloud's"),
        (("cloud=''", "parameters.image=debian"), "of instances"),
    ],
)
def test_what_cannot_be_is_refused(settings: tuple[str, ...], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        on_cloud(*settings)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("parameters.imagge=x", "no parameter 'imagge'"),
        ("parameters.neighbour_host=near", "near"),
        ("parameters.means=hosts", "placed by none"),
        ("parameters.cidrs=ten", "cidrs"),
    ],
)
def test_settings_of_instances_are_checked_before_anything_is_made(setting: str, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        topology_of(fitted(setting))
    assert refused.value.hint


# ---- what it makes


def test_two_instances_with_a_volume_of_each_type_each() -> None:
    wanted, _ = topology_of(fitted("size=1500M", "parameters.neighbour_host=different"))
    assert [guest.role for guest in wanted.guests()] == ["measured", "neighbour"]
    assert Counter((v.guest, v.disk.type, v.disk.gib) for v in wanted.volumes()) == dict.fromkeys(
        itertools.product(("measured", "neighbour"), ("ssd", "a type of mine"), (2,)), 1
    ), "in whole GiB"
    assert [policy for _, policy in wanted.groups()] == ["anti-affinity"]
    assert wanted.tools == ("fio",)
    nowhere, _ = topology_of(fitted())
    assert list(nowhere.groups()) == [] and {guest.group for guest in nowhere.guests()} == {""}


@pytest.mark.parametrize("host", tenants.HOSTS)
def test_the_template_has_every_volume_and_its_attachment(host: str) -> None:
    wanted, _ = topology_of(fitted(f"parameters.neighbour_host={host}", "parameters.install=true"))
    made = yaml.safe_load(heat.text(heat.template(wanted, "contend-r-1", "r")))["resources"]
    volumes = {role: of["properties"] for role, of in made.items() if of["type"] == "OS::Cinder::Volume"}
    assert {role: of["volume_type"] for role, of in volumes.items()} == {
        v.role: v.disk.type for v in wanted.volumes()
    }
    for role, properties in volumes.items():
        assert properties["name"] == f"contend-r-1-{role}" and properties["metadata"] == {"contend_run": "r"}
        attached = made[f"{role}-attached"]
        assert attached["type"] == "OS::Cinder::VolumeAttachment"
        (of,) = [v for v in wanted.volumes() if v.role == role]
        assert attached["properties"] == {
            "instance_uuid": {"get_resource": of.guest},
            "volume_id": {"get_resource": role},
        }
    assert yaml.safe_load(made["measured"]["properties"]["user_data"])["packages"] == ["fio"]
    assert ("scheduler_hints" in made["measured"]["properties"]) == (host != "any")


def test_a_dry_run_tells_what_will_be_made_and_shows_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clouds.yaml").write_text("clouds: {c: {auth: {auth_url: 'http://192.0.2.1/'}}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    scenario = fitted("parameters.external=public", "size=64M")
    told = "\n".join(forecast.lines(scenario, make_plan(scenario, 1), Path()))
    assert "2 instances (measured, neighbour; wherever the cloud puts them)" in told
    assert "2 volumes of type ssd, 1 GiB each, 2 volumes of type a type of mine, 1 GiB each" in told
    assert "2 floating addresses of public" in told and "256M in 4 volumes" in told
    _, _, text = instance_lines(fitted("parameters.by=heat"))
    assert yaml.safe_load(text)["resources"]["neighbour-ssd"]["type"] == "OS::Cinder::Volume"


# ---- the commands


def test_every_party_runs_its_fio_on_its_own_instance_s_volume() -> None:
    scenario = fitted("points=30")
    for cell in make_plan(scenario, 1).cells:
        victim = cell.victim.instance
        (run,) = victim.commands(VALUES).run
        assert victim.parameters["role"] == "measured" and victim.parameters["pool"] == cell.factors["pool"]
        told = run[run.index("fio") :]
        assert "--filename=DEVICE" in told and not any(word.startswith("--output=") for word in told)
        given = dict(word.lstrip("-").split("=", 1) for word in told if "=" in word)
        assert int(given["numjobs"]) * int(given["iodepth"]) == int(cell.factors["depth"])
        assert int(given["offset"]) == 0
        last = int(given["offset_increment"]) * (int(given["numjobs"]) - 1) + int(given["size"])
        assert last <= scenario.size
        for party in cell.neighbours:
            assert party.instance.parameters["role"] == "neighbour"
            workload = party.instance.workload
            assert workload.elsewhere and workload.neighbour.counter == "moved"


def test_commands_are_taken_by_the_generator(tmp_path: Path) -> None:
    """Types may have any name."""
    (cell, *_) = make_plan(fitted("points=30", "parameters.zone=nova"), 1).cells
    values = {**VALUES, "out": tmp_path, "cache": tmp_path, "port": 0, "address": ""}
    cell.victim.instance.write_parameters(values)
    commands = cell.victim.instance.commands(values)
    skip = len(VALUES["native"].split("\0")) + 1  # type: ignore[attr-defined]
    file = str(tmp_path / parameters_file.NAME)
    made, at = parameters_file.read(Path(file), generator.Parameters)
    assert (made.cloud, made.zone, made.image, made.within) == ("c", "nova", "", 540.0)
    assert [disk.type for disk in tenants.disks_of(made.disks)] == ["ssd", "a type of mine"]
    assert (at.out, at.seed) == (tmp_path, VALUES["seed"])
    told = [argv[skip:] for argv in (*commands.prepare, *commands.run, commands.neighbour, *commands.finish)]
    assert told[0] == ("prepare", file)
    assert told[1][:5] == ("layout", file, "fio", "--name=prepare", "--filename=DEVICE")
    assert told[2][:5] == ("run", file, "1s", "fio", "--name=trial")
    assert told[3][:4] == ("neighbour", file, "fio", "--name=neighbour")
    assert told[4] == ("finish", file)


def test_what_runs_in_an_instance_is_checked_first_and_ends_by_itself() -> None:
    volume = Held(ID, "ssd", 1, "", "/dev/vdb", "[ a = a ]")
    text = fio.script("measured", "fio --name=t --filename=DEVICE", volume, 61.0)
    assert text.splitlines()[0] == "[ a = a ] || exit 77"
    assert "timeout 61 fio --name=t --filename=/dev/vdb <&-" in text
    assert "/sys/block/vdb/stat" in fio.script("neighbour", "fio", volume, 61.0, count=True)


# ---- which disk


def disk(name: str, serial: str = "", size: int = 2**30, links: tuple[str, ...] = ()) -> Disk:
    return Disk(name, size, serial, links)


def test_a_volume_is_known_by_its_id_and_by_nothing_else() -> None:
    volume = Held(ID, "ssd", 1)
    others = [disk("vda", "1f1e2d3c-4b5a-6978-8"), disk("vdc"), disk("sr0", links=("ata-QEMU_DVD-ROM",))]
    found = disks.device(volume, [*others, disk("vdb", ID[:20])])
    assert found is not None and found.device == "/dev/vdb"
    scsi = disks.device(volume, [*others, disk("sda", links=(f"scsi-0QEMU_QEMU_HARDDISK_{ID[:20]}",))])
    assert scsi is not None and scsi.device == "/dev/sda"
    assert disks.device(volume, others) is None, "not by its size, nor by being the only one left"
    assert disks.device(volume, [disk("vdb", ID[:8])]) is None


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([disk("vdb", ID[:20], 2**29)], "holds 0.5 GiB"),
        ([disk("sda", ID), disk("sdb", ID)], "sda and sdb both say"),
    ],
)
def test_what_may_be_another_disk_is_refused(there: list[Disk], says: str) -> None:
    with pytest.raises(HostFailed, match=says) as refused:
        disks.device(Held(ID, "ssd", 1), there)
    assert "nothing is written" in refused.value.hint


# ---- the report

STOOD = {
    "hosts": {"measured": "compute-1", "neighbour": "compute-1"},
    "emulated": True,
    "backends": {"fast": "cinder@lvm#lvm", "slow": "cinder@lvm#lvm"},
    "apart": {"slow": "cinder@lvm2#lvm"},
}
CLOUD = TEXT.replace("{name: fast, direct: true}", "{name: fast, volume_type: ssd}").replace(
    "{name: slow, direct: true}", "{name: slow, volume_type: hdd}"
)


def test_nothing_of_this_host_is_blamed_for_what_instances_lose(tmp_path: Path) -> None:
    made = made_report(tmp_path, text=f"cloud: c\n{CLOUD}", event=STOOD)
    found = made.analysis
    jsonschema.validate(found.to_json(), analysis_schema())
    assert {f.subject.split(" ")[0] for f in found.findings} == {"fast", "slow"}
    for finding in found.findings:
        assert finding.kind == "unexplained" and finding.evidence == ()
        assert "cannot be seen from instances" in finding.sentence
        assert "neighbour_host=different" in finding.advice, "they were on one host"
    text = " ".join(render(made, width=100).split())
    assert "both instances on one host (compute-1)" in text and "emulated" in text
    assert "fast and slow are on one backend (cinder@lvm#lvm)" in text
    assert "slow: the neighbour's volume is on another backend (cinder@lvm2#lvm)" in text
    assert "ceiling" not in text and "in another instance, on a volume of its own" in text
    assert json.loads(json.dumps(found.to_json()))["sweep"]["cloud"]["emulated"] is True


def test_where_nothing_is_told_of_backends_that_is_said() -> None:
    told: Any = {"hosts": {"measured": "a", "neighbour": "b"}, "emulated": False, "backends": {}}
    (where, unseen) = cloud_pools.record_lines(told)
    assert where == "instances on a and b; the cloud does not tell this user of backends"
    assert "not seen" in unseen
    assert list(cloud_pools.shared(told)) == []
