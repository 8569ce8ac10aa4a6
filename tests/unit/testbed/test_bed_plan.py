"""The test bed's plan: its ports, its services for each shape, their configuration, what makes a service start anew."""

from __future__ import annotations

import ast
import configparser
import json
import stat
from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.testbed.openstack import __main__ as command
from contend.testbed.openstack import cloud, configuration, install, volumes
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.shape import OPTIONAL, Shape, services

RABBIT = "rabbit://guest:guest@127.0.0.1:5000/"


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    monkeypatch.setenv("CONTEND_OPENSTACK_PACKAGES", str(tmp_path / "packages"))
    paste = install.environment_folder() / "etc/nova/api-paste.ini"
    paste.parent.mkdir(parents=True)
    paste.write_text("[composite:osapi_compute]\n", encoding="ascii")
    return Bed.load_or_make(tmp_path / "bed")


def test_a_bed_keeps_its_ports_and_password(bed: Bed) -> None:
    assert Bed.load_or_make(bed.root) == bed == Bed.load(bed.root)
    assert len(set(bed.ports.values())) == len(bed.ports)
    # Not of those that the kernel hands out to anybody while the bed is down.
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    assert max(bed.ports.values()) < max(lowest, 32000)
    assert stat.S_IMODE((bed.root / "bed.json").stat().st_mode) == 0o600


def test_there_is_no_bed_where_none_was_made(tmp_path: Path) -> None:
    assert Bed.load(tmp_path) is None


@pytest.mark.parametrize("left_out", OPTIONAL)
def test_what_is_left_out_is_not_started(bed: Bed, left_out: str) -> None:
    whole = set(services(bed, Shape()))
    assert whole - set(services(bed, Shape(without=(left_out,)))) == set(OPTIONAL[left_out])


def test_each_compute_has_a_name_and_a_place_of_its_own(bed: Bed) -> None:
    shape = Shape(computes=3)
    made = configuration.files(bed, shape, RABBIT)
    computes = [service for name, service in services(bed, shape).items() if name.startswith("nova-compute")]
    assert [service.reads for service in computes] == [("nova.conf", f"{host}.conf") for host in shape.hosts]
    told = [_parsed(made[f"{host}.conf"])["DEFAULT"] for host in shape.hosts]
    assert len({section["host"] for section in told}) == len({section["state_path"] for section in told}) == 3


def test_real_guests_are_of_a_libvirt_of_the_beds_own(bed: Bed) -> None:
    shape = Shape(computes=0, libvirt=1)
    wanted, made = services(bed, shape), configuration.files(bed, shape, RABBIT)
    assert {name for name in wanted if name.startswith("nova-compute")} == {"nova-compute-virt-1"}
    assert str(bed.libvirt) in wanted["libvirtd"].command
    told = _parsed(made["virt-1.conf"])
    assert told["DEFAULT"]["compute_driver"] == "libvirt.LibvirtDriver"
    assert told["libvirt"]["connection_uri"] == f"qemu+unix:///system?socket={bed.libvirt}/run/libvirt-sock"
    # What asks this host for ways to volumes cannot write to its configuration.
    helper = told["privsep_osbrick"]["helper_command"].split()
    assert helper[:5] == ["unshare", "--mount", "--propagation", "private", "sh"]
    assert Path(helper[5]).relative_to(bed.etc).as_posix() in made
    assert "remount,bind,ro /etc" in made["bin/brick"]
    assert "libvirtd" not in services(bed, Shape())
    with pytest.raises(BadInput, match="computes: 0"):
        Shape(computes=0)


def test_knobs_reach_the_configuration(bed: Bed) -> None:
    shape = Shape(conductors=4, schedulers=3, web_workers=5)
    made = configuration.files(bed, shape, RABBIT)
    nova = _parsed(made["nova.conf"])
    assert (nova["conductor"]["workers"], nova["scheduler"]["workers"]) == ("4", "3")
    assert nova["DEFAULT"]["transport_url"] == RABBIT
    for name in shape.web:
        values = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(made[f"{name}.gunicorn.py"]).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        assert values["workers"] == 5
        assert values["bind"] == f"127.0.0.1:{bed.ports[name]}"


def test_an_option_counts_more_than_what_the_file_has(bed: Bed) -> None:
    plain, shape = Shape(), Shape(options=("nova.conf:conductor.workers=7", "placement.conf:api.x=a.b=c"))
    made = configuration.files(bed, shape, RABBIT)
    assert made["nova.conf"].endswith("[conductor]\nworkers = 7\n")
    assert made["placement.conf"].endswith("[api]\nx = a.b=c\n")
    assert made["glance-api.conf"] == configuration.files(bed, plain, RABBIT)["glance-api.conf"]
    with pytest.raises(BadInput, match=r"'swift\.conf' is no configuration file"):
        configuration.files(bed, Shape(options=("swift.conf:api.x=1",)), RABBIT)
    with pytest.raises(BadInput, match="not FILE:SECTION"):
        Shape(options=("nova.conf:workers=7",))
    assert Shape.from_json(json.loads(json.dumps(shape.as_dict()))) == shape


def test_every_service_reads_files_that_are_written(bed: Bed) -> None:
    shape = Shape()
    made = configuration.files(bed, shape, RABBIT)
    for service in services(bed, shape).values():
        assert set(service.reads) <= set(made), service.name
    for name, text in made.items():
        assert "$" not in text, name
        if name.endswith(".conf"):
            assert _parsed(text).sections() or name.startswith("fake-"), name


def test_secrets_are_in_no_command_line(bed: Bed) -> None:
    for service in services(bed, Shape()).values():
        assert not any(bed.password in word for word in service.command), service.name


def test_a_broker_elsewhere_starts_anew_who_speaks_to_it(bed: Bed) -> None:
    shape = Shape()
    before = configuration.files(bed, shape, RABBIT)
    after = configuration.files(bed, shape, RABBIT.replace("5000", "5001"))
    anew = {
        name
        for name, service in services(bed, shape).items()
        if service.digest(before) != service.digest(after)
    }
    assert set(services(bed, shape)) - anew == {"keystone", "glance", "placement"}


def test_a_change_starts_anew_whom_it_concerns(bed: Bed) -> None:
    def digests(shape: Shape, traced: str = "") -> dict[str, str]:
        files = configuration.files(bed, shape, RABBIT)
        return {name: service.digest(files, traced) for name, service in services(bed, shape).items()}

    usual = digests(Shape())
    assert digests(Shape()) == usual
    assert digests(Shape(computes=2)) == {
        name: usual[name] for name in usual if name != "nova-compute-fake-3"
    }
    green = digests(Shape(threads="eventlet"))
    changed = {name for name in usual if green[name] != usual[name]}
    assert changed == {name for name in usual if name.startswith("nova-")} - {"nova-api"}
    assert not set(digests(Shape(), "somewhere").values()) & set(usual.values())


def test_a_bed_comes_back_in_the_shape_it_had(bed: Bed) -> None:
    assert cloud.shape_of(bed) == Shape()
    shape = Shape(computes=7, without=("volume",), threads="eventlet")
    told = {**shape.as_dict(), "of_a_later_version": 1}
    bed.write("running.json", json.dumps({"shape": told}))
    assert cloud.shape_of(bed) == shape


def test_too_few_of_anything_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="web_workers: 0"):
        Shape(web_workers=0)
    assert command.main(["--root", str(tmp_path / "new"), "up", "--computes", "0"]) == BadInput.exit_code
    assert "hint: --computes 1" in capsys.readouterr().err


def test_nothing_is_up_where_there_is_no_bed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["--root", str(tmp_path), "status"]) == 3
    assert command.main(["--root", str(tmp_path), "down"]) == 0
    assert capsys.readouterr().out == "nothing is up\nnothing was up\n"


@pytest.mark.parametrize("release", install.RELEASES)
def test_all_packages_are_pinned(release: str) -> None:
    text = (Path(install.__file__).parent / f"releases/{release}.txt").read_text(encoding="ascii")
    assert all(line.count("==") == 1 for line in text.splitlines())


def test_releases_have_an_environment_each() -> None:
    assert len({install.environment_folder(release) for release in install.RELEASES}) == len(install.RELEASES)
    newest, before = (install.versions(release) for release in install.RELEASES)
    assert newest.keys() == before.keys()
    assert int(newest["nova"].partition(".")[0]) == int(before["nova"].partition(".")[0]) + 1


def test_a_bed_stays_what_release_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = Bed.load_or_make(tmp_path, install.RELEASES[1])
    assert Bed.load(tmp_path) == Bed.load_or_make(tmp_path) == made
    assert made.venv == install.environment_folder(install.RELEASES[1])
    words = ["--root", str(tmp_path), "up", "--release", install.RELEASES[0]]
    assert command.main(words) == BadInput.exit_code
    assert "down --wipe" in capsys.readouterr().err


def _parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="", allow_no_value=False)
    parser.read_string(text)
    return parser


# ---- volumes that guests can write to


def test_backends_are_beside_the_fake_one_and_their_driver_is_written(bed: Bed) -> None:
    shape = Shape(backends=("fast", "slow=300"))
    made = configuration.files(bed, shape, RABBIT)
    told = _parsed(made["cinder.conf"])
    assert told["DEFAULT"]["enabled_backends"] == "fake,fast,slow"
    places = {told[name]["contend_place"] for name in ("fast", "slow")}
    assert places == {str(bed.data / "volumes" / name) for name in ("fast", "slow")}
    service = services(bed, shape)["cinder-volume"]
    driver = bed.etc / volumes.FILE
    assert service.environment["PYTHONPATH"] == str(driver.parent)
    assert told["fast"]["volume_driver"] == f"{driver.stem}.Driver"
    compile(made[volumes.FILE], volumes.FILE, "exec")
    assert set(service.reads) <= set(made) and str(driver) not in service.command
    assert Shape.from_json(json.loads(json.dumps(shape.as_dict()))) == shape
    plain = services(bed, Shape())["cinder-volume"]
    assert plain.digest(configuration.files(bed, Shape(), RABBIT)) != service.digest(made)


@pytest.mark.parametrize("name", ["", "Fast", "fake", "slow=", "slow=-1", "slow=many", "a b"])
def test_what_names_no_backend(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        Shape(backends=(name,))
    assert "--backends" in refused.value.hint


def test_backends_need_cinder_and_a_name_each() -> None:
    with pytest.raises(BadInput, match="Cinder"):
        Shape(backends=("fast",), without=("volume",))
    with pytest.raises(BadInput, match="'fast=3' names no backend"):
        Shape(backends=("fast", "fast=3"))


def test_loop_devices_of_a_bed_are_known_by_the_file_behind_them(bed: Bed, tmp_path: Path) -> None:
    files = {
        "loop0": f"{bed.data}/volumes/fast/volume-1",
        "loop1": "/srv/somebody/volume-1",
        "loop2": f"{bed.data}/volumes/slow/volume-2 (deleted)",
        "loop3": f"{bed.data}/volumes-of-others/volume-3",
    }
    for name, file in files.items():
        (tmp_path / "block" / name / "loop").mkdir(parents=True)
        (tmp_path / "block" / name / "loop/backing_file").write_text(file + "\n")
    found = volumes.left(bed, tmp_path / "block")
    assert {device: file.name for device, file in found.items()} == {
        "/dev/loop0": "volume-1",
        "/dev/loop2": "volume-2",
    }
