"""Whose ledger is obeyed, and what a row may name: everything a hostile run directory can ask for is listed and left."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from contend import names
from contend.elsewhere import builds, hadoop
from contend.engine.removal import REMOVERS
from contend.engine.run import resume
from contend.errors import BadInput, HostFailed
from contend.platforms import cgroups, destroy, hotplug, obedience, procfs, resources, strays
from contend.platforms.guests import virsh
from contend.platforms.obedience import Obeyed, ReadOnly
from contend.report.progress import NoProgress
from contend.store import claims, state
from contend.store.ledger import Ledger, leftovers
from support.made_big import big_run
from support.own_runs import own_state
from support.prerequisites import need

RUN = "hostile-run"
NOBODY = 65534
root = pytest.mark.needs(os.geteuid() == 0, "only root can give files away")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    # Strays of whatever else is tested on this machine at the moment are not for these tests.
    monkeypatch.setattr(destroy, "survey", lambda run_id=None: strays.Survey())


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True, env={"PATH": os.environ["PATH"]})
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server, and the paths and secrets that it was asked with."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_response(404)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


class Trap:
    """A run directory whose ledger names everything that is not a run's, and what tells whether it was obeyed."""

    def __init__(self, place: Path, sleeper: int, url: str, path: Path) -> None:
        self.run = place / RUN
        self.run.mkdir()
        self.sleeper = sleeper
        self.kept = place / "elsewhere"
        (self.kept / "contend-things").mkdir(parents=True)
        (self.kept / "contend.yaml").write_text("x")
        (self.kept / "cpu/cpu1").mkdir(parents=True)
        (self.kept / "cpu/cpu1/online").write_text("0")
        (self.run / hotplug.FILE).write_text(json.dumps(self._masks()))
        (self.run / hotplug.FILE).chmod(0o644)
        self.ran = place / "ran"
        for program in ("java", "virsh"):
            (path / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{self.ran}\n')
            (path / program).chmod(0o755)
        (self.kept / "core-site.xml").write_text(
            "<configuration><property><name>fs.defaultFS</name><value>hdfs://x:1</value></property></configuration>"
        )
        self.rows = self._rows(url)
        with Ledger(self.run / state.LEDGER) as ledger:
            ledger.event("run-start", run=RUN)
            for kind, name, detail in self.rows:
                ledger.created(kind, name, **({"run": RUN} | detail))
        (self.run / "plan.json").write_text("{}")

    def _masks(self) -> dict[str, Any]:
        groups = {str(self.kept / "cpu/cpu1"): "0"}
        return {
            "boot_id": procfs.boot_id(), "cpus": [1], "cpuset_root": str(self.kept), "groups": groups,
            "threads": [], "irqs": {},
        }  # fmt: skip

    def _rows(self, url: str) -> list[tuple[str, str, dict[str, Any]]]:
        found = procfs.stat(self.sleeper)
        assert found is not None
        process = {"pid": self.sleeper, "start_ticks": found.start_ticks, "boot_id": procfs.boot_id()}
        wanted = names.run_group(RUN)
        directory = f"/data/contend-{names.short_hash(RUN)}-00"
        return [
            ("process", f"{RUN}/victim/1", process | {"exe": procfs.executable(self.sleeper), "party": "victim"}),
            ("cgroup", f"/sys/fs/cgroup/{wanted}/../../../..{self.kept}", {}),
            ("cgroup", f"{self.kept}/{wanted}", {}),
            ("cgroup", "/sys/fs/cgroup/system.slice/contend.other", {}),
            ("cgroup-controller", f"{self.kept}:cpu", {}),
            ("directory", str(self.kept / "contend-things"), {}),
            ("directory", f"{self.run}/../elsewhere", {}),
            ("bundle", str(self.kept / "contend-things"), {}),
            ("file", str(self.kept / "contend.yaml"), {}),
            ("guest-image", str(self.kept / "contend-things"), {}),
            ("netns", "contend-01234567-0s", {}),
            ("link", "ctd01234567.0", {}),
            ("container", "postgres", {"engine": "podman"}),
            ("image", "contend-of-another", {"engine": "podman"}),
            ("scope", "contend-another-run-1.scope", {}),
            ("fleet", "../fleets/other", {}),
            ("fleet-run", RUN, {"fleet": "../../x"}),
            (hotplug.KIND, "1", {"boot_id": procfs.boot_id(), "at": str(self.kept / "cpu"),
                                 "saved": str(self.run / hotplug.FILE)}),
            (virsh.KIND, f"contend-{RUN}-0", {"uri": "qemu+ext:///system?command=/bin/evil"}),
            ("local-files", str(self.kept / "contend-things"), {}),
            ("local-tap", "ctd01234567.1", {}),
            ("local-image", "contend-of-another", {"engine": "podman"}),
            ("local-vm", "sshd", {}),
            (builds.KIND, "build", {"url": url, "job": "j", "queue": "7"}),
            (hadoop.KIND, directory, {"conf": str(self.kept), "lib": str(self.kept)}),
            ("openstack-server", f"contend-{RUN}-0", {"cloud": "c", "config": str(self.kept / "clouds.yaml")}),
        ]  # fmt: skip

    def nothing_happened(self) -> None:
        assert (self.kept / "contend-things").is_dir()
        assert (self.kept / "contend.yaml").exists()
        assert (self.kept / "cpu/cpu1/online").read_text() == "0"
        assert not (self.kept / "cpu/cpu1/cpuset.cpus").exists()
        assert not self.ran.exists(), self.ran.read_text()
        found = procfs.stat(self.sleeper)
        assert found is not None
        assert found.state not in "ZX"


@pytest.fixture
def trap(
    tmp_path: Path,
    stranger: subprocess.Popen[bytes],
    asked: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Trap]:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv(builds.URL, "https://ci.example.com")
    monkeypatch.setenv(builds.USER, "me")
    monkeypatch.setenv(builds.TOKEN, "secret")
    made = Trap(tmp_path, stranger.pid, asked[0], programs)
    # CPU 1 of this host stays as it is, whatever comes of the row: the kernel's files are these.
    cpus = tmp_path / "kernel/cpu1"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text("1")
    monkeypatch.setattr(hotplug, "CPUS", cpus.parent)
    yield made
    made.nothing_happened()
    assert asked[1] == []


def test_what_a_foreign_run_names_is_listed_and_left(trap: Trap) -> None:
    report = destroy.destroy_run(trap.run, REMOVERS)
    assert (report.removed, report.failed) == ((), ())
    assert {(item.kind, item.name) for item in report.left} == {(kind, name) for kind, name, _ in trap.rows}
    (problem,) = report.problems
    assert "does not know this run" in problem.message
    assert len(leftovers(trap.run / state.LEDGER)) == len(trap.rows)


def test_a_run_of_ones_own_can_name_no_more_than_its_own_things(trap: Trap) -> None:
    state.register(RUN, trap.run)
    report = destroy.destroy_run(trap.run, REMOVERS)
    assert report.removed == ()
    stays = {(item.kind, item.name) for item in report.failed}
    # These three were not there: a process that nobody wrote down, a domain's... and CPUs that are online.
    gone = {(kind, name) for kind, name, _ in trap.rows} - stays
    assert gone == {("process", f"{RUN}/victim/1"), (hotplug.KIND, "1")}
    assert all(item.why for item in report.failed)
    assert state.pointers(), "it is still known"


def test_a_foreign_run_is_not_resumed_while_it_names_something(trap: Trap) -> None:
    with pytest.raises(HostFailed, match="not obeyed") as refused:
        resources.own(RUN, trap.run)
    assert "move" in refused.value.hint
    assert state.pointers() == []
    with pytest.raises(HostFailed, match="not obeyed"):
        resources.remove_leftovers(trap.run, REMOVERS)
    (trap.run / state.LEDGER).rename(trap.run / "ledger.old")
    resources.own(RUN, trap.run)
    assert [pointer.directory for pointer in state.pointers()] == [trap.run]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of this user's that crashed, and left a directory."""
    made = tmp_path / "runs" / RUN
    (made / "work").mkdir(parents=True)
    with Ledger(made / state.LEDGER) as ledger:
        ledger.event("run-start", run=RUN)
        ledger.intend("directory", str(made / "work"))
    state.register(RUN, made)
    return made


def read_only(directory: Path, reason: str) -> None:
    found = obedience.judge(directory)
    assert isinstance(found, ReadOnly), found
    assert reason in found.reason
    assert found.hint
    before = sorted(path for path in directory.rglob("*"))
    report = destroy.destroy_run(directory, REMOVERS)
    assert (report.removed, report.failed) == ((), ())
    assert sorted(path for path in directory.rglob("*")) == before


def test_ones_own_run_is_obeyed(run: Path) -> None:
    assert isinstance(obedience.judge(run), Obeyed)
    (removed,) = destroy.destroy_run(run, REMOVERS).removed
    assert removed.name == str(run / "work")
    assert not (run / "work").exists()
    assert state.pointers() == []


def test_by_a_link_it_is_the_same_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    found = obedience.judge(tmp_path / "link")
    assert isinstance(found, Obeyed)
    assert found.directory == run


def test_a_moved_run_is_data(run: Path, tmp_path: Path) -> None:
    run.rename(tmp_path / "moved")
    read_only(tmp_path / "moved", "does not know this run")


def test_a_copied_run_is_data(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy" / RUN)
    read_only(tmp_path / "copy" / RUN, "does not know this run")
    assert isinstance(obedience.judge(run), Obeyed)


def test_a_link_in_the_place_of_a_run_leads_to_data(run: Path, tmp_path: Path) -> None:
    run.rename(tmp_path / "moved")
    run.symlink_to(tmp_path / "moved")
    read_only(run, "does not know this run")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_run_directory_that_others_can_write_is_data(run: Path, mode: int) -> None:
    run.chmod(mode)
    read_only(run, "can be written by others")


def test_a_directory_above_that_others_can_write_makes_it_data(run: Path) -> None:
    run.parent.chmod(0o777)
    read_only(run, "can be written by others")
    run.parent.chmod(0o1777)
    assert isinstance(obedience.judge(run), Obeyed), "of a sticky one nobody else exchanges what is in it"


@root
def test_a_group_with_others_in_it_makes_it_data(run: Path) -> None:
    os.chown(run.parent, -1, NOBODY)
    run.parent.chmod(0o775)
    read_only(run, "can be written by its group")


@root
@pytest.mark.parametrize("what", ["run", "above", "ledger"])
def test_what_belongs_to_another_user_is_data(run: Path, what: str) -> None:
    os.chown({"run": run, "above": run.parent, "ledger": run / state.LEDGER}[what], NOBODY, -1)
    read_only(run, "belongs to nobody (uid 65534)")


@root
def test_another_users_run_is_for_its_owner_to_clean_up(run: Path) -> None:
    state.unregister(RUN)
    os.chown(run, NOBODY, -1)
    found = obedience.judge(run)
    assert isinstance(found, ReadOnly)
    assert found.reason == "it belongs to nobody (uid 65534)"
    assert found.hint == f"let its owner clean up: sudo -u '#65534' contend destroy {run}"


def test_a_ledger_with_two_names_is_data(run: Path, tmp_path: Path) -> None:
    os.link(run / state.LEDGER, tmp_path / "other")
    read_only(run, "hard links")


@pytest.mark.parametrize("kind", ["link", "fifo", "device", "directory"])
def test_what_is_no_file_is_no_ledger(run: Path, kind: str, tmp_path: Path) -> None:
    ledger = run / state.LEDGER
    ledger.unlink()
    if kind == "link":
        ledger.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(ledger)
    elif kind == "directory":
        ledger.mkdir()
    elif os.geteuid() == 0:
        os.mknod(ledger, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    found = obedience.judge(run)
    assert found.left() == []
    assert isinstance(found, ReadOnly) or kind == "device"


def test_an_orphan_is_obeyed_by_its_own_claim(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "state")
    found = obedience.judge(run)
    assert isinstance(found, Obeyed)
    assert found.run_id == RUN
    (removed,) = destroy.destroy_all(REMOVERS).removed
    assert removed.name == str(run / "work")


@root
def test_a_claim_of_another_users_is_none(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "state")
    os.chown(tmp_path / "claims", NOBODY, -1)
    for path in (tmp_path / "claims").iterdir():
        os.chown(path, NOBODY, -1)
    read_only(run, "does not know this run")


def test_a_state_directory_that_others_can_write_knows_nothing(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "claims")
    (tmp_path / "state/contend/runs").chmod(0o777)
    read_only(run, "does not know this run")
    with pytest.raises(HostFailed, match="not yours alone"):
        (tmp_path / "state").chmod(0o777)
        state.register("r-2", run)


def test_new_state_is_this_users_alone(run: Path, tmp_path: Path) -> None:
    for name in ("contend", "contend/runs"):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o700


def test_where_others_can_write_the_ledger_is_kept_in_the_state_directory(tmp_path: Path) -> None:
    """Like `sudo contend run` in a user's home: a crash is cleaned up after all the same."""
    place = tmp_path / "home"
    (place / RUN / "work").mkdir(parents=True)
    place.chmod(0o777)
    run = place / RUN
    state.register(RUN, run)
    kept = state.ledger_of(run)
    assert kept == tmp_path / "state/contend/ledgers" / RUN / state.LEDGER
    with Ledger(kept) as ledger:
        ledger.intend("directory", str(run / "work"))
    with Ledger(run / state.LEDGER) as forged:
        forged.intend("directory", str(run))
    (removed,) = destroy.destroy_run(run, REMOVERS).removed
    assert removed.name == str(run / "work")
    assert not kept.exists()
    assert [row["name"] for row in obedience.judge(run).rows] == [str(run / "work")] * 2, "it is data now"
    assert state.ledger_of(run) == run / state.LEDGER


def test_a_resumed_run_takes_no_orders_over(tmp_path: Path) -> None:
    place = tmp_path / "home"
    (place / RUN).mkdir(parents=True)
    place.chmod(0o777)
    with Ledger(place / RUN / state.LEDGER) as ledger:
        ledger.event("pilot", rounds=3)
        ledger.intend("directory", "/etc")
    state.register(RUN, place / RUN)
    found = obedience.judge(place / RUN)
    assert isinstance(found, Obeyed)
    assert [row["event"] for row in found.rows] == ["pilot"]


DAMAGE = [
    b"[" * 100_000,
    b"\xff\xfe",
    b'{"event": "created"}',
    b'{"event": 1}',
    b"[]",
    b'{"event": "intend", "kind": 5, "name": []}',
    b'{"event":"created","kind":"directory","name":"a\\u0000b"}',
    b'{"event":"created","kind":"file","name":"\\ud800"}',
    b'{"event":"intend","at_ns":' + b"9" * 5000 + b"}",
    b'{"event":"intend","kind":"process","name":"p","pid":"x"}',
]


@pytest.mark.parametrize("line", DAMAGE)
def test_a_damaged_line_is_told_and_the_rest_removed(run: Path, line: bytes) -> None:
    ledger = run / state.LEDGER
    ledger.write_bytes(line + b"\n" + ledger.read_bytes() + line)
    report = destroy.destroy_run(run, REMOVERS)
    assert not (run / "work").exists()
    assert report.failed or b"process" in line
    if report.failed:
        assert state.pointers(), "it is still known"


def test_one_damaged_run_does_not_stop_the_others(run: Path, tmp_path: Path) -> None:
    state.register("damaged", tmp_path).write_bytes(b"[" * 100_000)
    (tmp_path / "runs/bad").mkdir()
    (tmp_path / "runs/bad" / state.LEDGER).write_bytes(b"\xff\n")
    state.register("bad", tmp_path / "runs/bad")
    report = destroy.destroy_all(REMOVERS)
    assert [item.name for item in report.removed] == [str(run / "work")]
    assert ["damaged is damaged" in one.message for one in report.problems] == [True]
    assert [item.kind for item in report.failed] == ["ledger"]
    assert {pointer.run_id for pointer in state.pointers()} == {"bad"}


@root
def test_a_mount_point_that_is_no_text_stops_nothing(run: Path, tmp_path: Path) -> None:
    places = [os.fsencode(tmp_path) + b"/\xff\xfe\xe2\x80\xa8\x85 x", os.fsencode(run / "work") + b"/\xff"]
    for place in places:
        Path(os.fsdecode(place)).mkdir()
        done = subprocess.run([b"mount", b"-t", b"tmpfs", b"none", place], check=False)
        need(done.returncode == 0, "nothing can be mounted here")
    try:
        assert cgroups.read_layout().name
        (failed,) = destroy.destroy_run(run, REMOVERS).failed
        assert "is still mounted" in failed.why
    finally:
        for place in places:
            subprocess.run([b"umount", place], check=True)
    assert [item.name for item in destroy.destroy_run(run, REMOVERS).removed] == [str(run / "work")]


@root
def test_a_lock_that_a_stranger_holds_keeps_nothing_alive(run: Path) -> None:
    run.parent.chmod(0o755)
    script = (
        "import fcntl,os,sys; os.setuid(65534); f=open(sys.argv[1]); fcntl.flock(f, 2); "
        "print('held', flush=True); input()"
    )
    for path in (run, *run.parents):  # others may look in
        if path == Path("/tmp"):
            break
        path.chmod(path.stat().st_mode | 0o055)
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", script, str(run / state.LEDGER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (removed,) = destroy.destroy_run(run, REMOVERS).removed
        assert removed.name == str(run / "work")
        holder.communicate("\n")


@root
def test_claims_of_hostile_users_are_told_and_the_rest_is_cleaned(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path / "state")
    hostile = tmp_path / "contend-runs-1000"
    hostile.mkdir()
    (tmp_path / "contend-runs-7").symlink_to("/dev")
    good = {"run": "r", "directory": "/r", "pointer": "/s/contend/runs/r"}
    contents = {
        "deep": b"[" * 100_000,
        "nul": json.dumps(good | {"directory": "/a\0b"}).encode(),
        "surrogate": json.dumps(good | {"pointer": "/\ud800/contend/runs/r"}).encode(),
        "number": b'{"run": ' + b"9" * 5000 + b"}",
        "relative": json.dumps(good | {"directory": "r"}).encode(),
        "long": json.dumps(good | {"directory": "/" + "r" * 60_000}).encode(),
        "name": json.dumps(good | {"run": "../../etc"}).encode(),
        "esc\x1b]0;owned\x07": b"{",
    }
    for name, data in contents.items():
        (hostile / name).write_bytes(data)
    with (hostile / "sparse").open("wb") as file:
        file.truncate(40 << 30)
    os.mkfifo(hostile / "fifo")
    (hostile / "link").symlink_to("/dev/zero")
    (hostile / "secret").write_bytes(b"{}")
    (hostile / "secret").chmod(0)
    for path in (hostile, *hostile.iterdir()):
        os.chown(path, NOBODY, -1, follow_symlinks=False)
    places = {tmp_path / "claims", hostile, tmp_path / "contend-runs-7"}
    monkeypatch.setattr(claims, "_places", lambda: places)
    report = destroy.destroy_all(REMOVERS)
    assert [item.name for item in report.removed] == [str(run / "work")]
    assert report.problems == ()
    told = {Path(item.name).name: item.why for item in report.left}
    assert told.keys() == {*contents, "sparse", "fifo", "link", "secret", "contend-runs-7"}
    assert all("nobody (uid 65534)" in why for name, why in told.items() if name != "contend-runs-7")


@root
@pytest.mark.parametrize("theirs", ["", "scenario.yaml", "plan.json", "trials.ndjson"])
def test_a_run_of_somebody_else_is_not_resumed(theirs: str, tmp_path: Path) -> None:
    """It would run that user's commands as root. One that the user has copied is the user's own."""
    made = big_run(tmp_path, 10, series=False)
    text = (made.path / "scenario.yaml").read_text()
    os.chown(made.path / theirs, NOBODY, -1)
    with pytest.raises(BadInput, match="belongs to nobody") as raised:
        resume(made, progress=NoProgress())
    assert raised.value.exit_code == 2 and raised.value.hint
    assert (made.path / "scenario.yaml").read_text() == text
    assert state.pointers() == []


def test_rows_with_another_name_are_not_written_to(tmp_path: Path) -> None:
    """A hard link: what it links to would grow, and lose a last line without an end."""
    made = big_run(tmp_path, 10, series=False)
    other = tmp_path / "precious"
    other.write_text("no line end")
    made.trials_path.unlink()
    made.trials_path.hardlink_to(other)
    with pytest.raises(BadInput, match="hard links"):
        resume(made, progress=NoProgress())
    assert other.read_text() == "no line end"
