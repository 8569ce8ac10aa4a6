"""What is a test bed's is found and ended, whoever has died meanwhile; who only carries its mark is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contend.platforms import procfs
from contend.testbed.members import Members
from contend.testbed.openstack import bed as openstack
from contend.testbed.openstack import daemons
from contend.testbed.rabbit import bed as rabbit
from support.own_runs import own_state
from support.prerequisites import need

NOBODY = 65534
# It starts what leaves its session and loses its parent, one of it with an environment of its own, and is killed at once.
OWNER = """
import encodings.ascii, os, sys, time
from pathlib import Path
from contend.platforms import cgroups, kin
from contend.testbed.members import Members
if sys.argv[2] != "0":
    os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
os.environ["XDG_STATE_HOME"] = sys.argv[3]
members = Members("TEST_BED", Path(sys.argv[1]))
if sys.argv[4] == "end":
    print(len(members.end()), len(members.marked()))
    sys.exit()
line = "setsid sh -c '(sleep 301.5 &) ; (env -i sleep 302.5 &)' ; exec sleep 303.5"
with members.starting():
    members.popen(["sh", "-c", line], os.environ, start_new_session=True)
    time.sleep(1)
    os.kill(os.getpid(), 9)
"""


def test_groups_of_beds_that_nobody_took_down_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, members = Members("TEST_BED", tmp_path / "gone"), Members("TEST_BED", tmp_path / "bed")
    need(gone._group() is not None, "control groups need root, or a delegated one")
    (left,) = gone._groups()
    assert members._group() is not None and left.is_dir(), "it may have been made just now"
    members.forget()
    monkeypatch.setattr("contend.testbed.members._LEFT_S", -1.0)
    process = Members("TEST_BED", tmp_path / "gone").popen(["sleep", "60"], os.environ)
    try:
        assert members._group() is not None and left.is_dir(), "somebody lives there"
    finally:
        process.kill()
        process.wait()

    def is_swept() -> bool:
        members.forget()
        return members._group() is not None and not left.is_dir()

    until(is_swept)
    members.forget()
    assert not members._groups()


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)


@contextmanager
def stranger(mark: str, place: Path, user: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody has written down, of this user or another, with the mark in its environment."""
    given: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
    environment = {"PATH": os.environ["PATH"], mark: str(place.resolve()), f"{mark}_SERVICE": "keystone"}
    process = subprocess.Popen(["sleep", "300"], env=environment, start_new_session=True, **given)
    try:
        until(lambda: procfs.name(process.pid) == "sleep")
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _users() -> list[int]:
    return [0, NOBODY] if os.geteuid() == 0 else [0]


def _end_openstack(place: Path) -> object:
    return daemons.stop(openstack.Bed(place.resolve(), "", {}))


@pytest.mark.parametrize("user", _users())
@pytest.mark.parametrize(
    ("mark", "end"),
    [
        (rabbit.MARK, rabbit.down),
        (openstack.MARK, _end_openstack),
    ],
)
def test_who_only_carries_the_mark_survives(
    mark: str, end: Callable[[Path], object], user: int, tmp_path: Path
) -> None:
    with stranger(mark, tmp_path, user) as process:
        assert not end(tmp_path)
        assert process.poll() is None


def test_a_service_is_found_by_its_session_and_a_stranger_in_its_directory_is_not(tmp_path: Path) -> None:
    """The stranger looks like a service in all that it can choose: environment, directory, arguments."""
    bed = openstack.Bed(tmp_path.resolve(), "", {})
    # As nova's services do: what shows a title of its own has no environment left.
    daemons.start(bed, "keystone", ["env", "-i", "sh", "-c", "sleep 300 & exec sleep 300"], dict(os.environ))
    try:
        until(lambda: sorted(bed.processes().values()) == ["keystone", "keystone"])
        command = ["sh", "-c", "sleep 300", f"{bed.etc}/keystone.conf"]
        with subprocess.Popen(command, cwd=bed.root, env={openstack.MARK: str(bed.root)}) as process:
            assert process.pid not in bed.processes()
            assert daemons.stop(bed) == ["keystone"]
            assert bed.processes() == {}
            assert process.poll() is None
            process.kill()
    finally:
        daemons.stop(bed)


@pytest.mark.parametrize("user", _users())
def test_after_a_kill_of_its_owner_all_of_a_bed_is_ended_and_nobody_else(user: int, tmp_path: Path) -> None:
    """As root by the bed's control group; as nobody, who may have none, by what was written down."""
    need(os.geteuid() == 0, "root")
    place, home = tmp_path / "bed", tmp_path / "home"
    for folder in (place, home):
        folder.mkdir()
        os.chown(folder, user, user)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o011)
    line = [sys.executable, "-c", OWNER, str(place), str(user), str(home)]
    with stranger("TEST_BED", place, user) as one, stranger("TEST_BED", place, NOBODY - user) as other:
        started = subprocess.run([*line, "start"], timeout=60)
        assert started.returncode == -signal.SIGKILL
        assert [len(_running(f"sleep 30{n}.5")) for n in (1, 2, 3)] == [1, 1, 1]
        ended = subprocess.run([*line, "end"], timeout=60, capture_output=True, text=True, check=True)
        assert [len(_running(f"sleep 30{n}.5")) for n in (1, 2, 3)] == [0, 0, 0]
        assert one.poll() is None and other.poll() is None
        # root sees both strangers' environments, nobody only its own.
        assert ended.stdout.split() == ["3", "1" if user else "2"]


def _running(line: str) -> list[int]:
    wanted = line.replace(" ", "\0").encode() + b"\0"
    found = []
    for process in procfs.processes():
        try:
            if (procfs.PROC / str(process.pid) / "cmdline").read_bytes() == wanted:
                found.append(process.pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("start", ["popen", "run"])
def test_a_start_that_fails_leaves_no_empty_group(start: str, tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root")
    members = Members("TEST_BED", tmp_path)
    with members.starting():
        assert members._groups(), "it has groups here"
        if start == "popen":
            members.popen(["/nowhere/to/be/found"], os.environ, stderr=subprocess.DEVNULL).wait()
        else:
            assert members.run(["/nowhere/to/be/found"], os.environ, capture_output=True).returncode != 0
    assert members._groups() == []


def test_a_command_before_all_others_leaves_no_empty_group(tmp_path: Path) -> None:
    """As what makes the bed's data: nothing of the bed may come after it."""
    need(os.geteuid() == 0, "root")
    members = Members("TEST_BED", tmp_path)
    assert members.run(["true"], os.environ).returncode == 0
    assert members._groups() == []
    with members.popen(["sleep", "60"], os.environ) as stays:
        assert members.run(["true"], os.environ).returncode == 0
        assert members.find() == {stays.pid}, "the group of what lives stays"
        members.end()
