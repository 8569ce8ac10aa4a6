"""Removal touches what is contend's and nothing else, and says what it could not do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contend import names
from contend.engine.removal import REMOVERS
from contend.errors import BadInput, HostFailed, UnknownName
from contend.platforms import destroy, kin, procfs, resources, strays
from contend.platforms.registry import platform
from contend.store import state
from contend.store.ledger import Ledger, leftovers
from support.own_runs import own_state, record_process


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "run").mkdir()
    state.register("unit-run", tmp_path / "run")
    with Ledger(tmp_path / "run/ledger.ndjson") as opened:
        yield opened


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, without contend's mark."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True, env={"PATH": os.environ["PATH"]})
    yield process
    process.kill()
    process.wait()


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def record(ledger: Ledger, pid: int, /, name: str = "unit-run/victim/1", **changed: object) -> None:
    found = procfs.stat(pid)
    assert found is not None
    row: dict[str, object] = {"pid": pid, "start_ticks": found.start_ticks, "boot_id": procfs.boot_id()}
    row |= {"exe": procfs.executable(pid), "run": "unit-run", "party": "victim"}
    ledger.created("process", name, **row)
    record_process("unit-run", pid, **changed)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("cgroup", "/sys/fs/cgroup/system.slice"),
        ("netns", "production"),
        ("veth", "eth0"),
        ("container", "postgres"),
        ("image", "debian"),
        ("directory", "/etc"),
        ("bundle", "/home"),
        ("file", "/etc/passwd"),
        ("spaceship", "x"),
    ],
)
def test_a_strangers_thing_is_never_touched(ledger: Ledger, kind: str, name: str) -> None:
    ledger.created(kind, name, engine="podman")
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert result.why
    assert len(leftovers(ledger.path)) == 1, "it stays in the ledger"


def test_directories_of_the_run_go_and_the_run_stays(ledger: Ledger, tmp_path: Path) -> None:
    work, file = tmp_path / "run/work", tmp_path / "run/socket"
    (work / "deep").mkdir(parents=True)
    (work / "link").symlink_to("/etc")
    file.write_text("x")
    ledger.intend("directory", str(work))
    ledger.intend("file", str(file))
    ledger.intend("directory", str(tmp_path / "run/never-made"))
    removed = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert [(r.kind, r.was_there, r.why) for r in removed] == [
        ("directory", False, ""),
        ("file", True, ""),
        ("directory", True, ""),
    ]
    assert not work.exists()
    assert not file.exists()
    assert Path("/etc/passwd").exists()
    assert resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger) == []


def test_the_run_directory_itself_is_not_a_leftover(ledger: Ledger, tmp_path: Path) -> None:
    ledger.intend("directory", str(tmp_path / "run"))
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert "not one of contend's" in result.why
    assert ledger.path.exists()


def test_a_process_that_only_the_ledger_names_is_spared(
    ledger: Ledger, stranger: subprocess.Popen[bytes]
) -> None:
    """Its pid and start time are for everybody to read in /proc."""
    record(ledger, stranger.pid)
    kin._file("unit-run").unlink()
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert not result.was_there
    assert stranger.poll() is None


def test_a_process_of_an_older_contends_ledger_is_ended(ledger: Ledger) -> None:
    """It carries the run's mark, and the ledger, which nobody else can have written, has its pid and start time."""
    environment = {"PATH": os.environ["PATH"], procfs.MARKER: "unit-run"}
    with subprocess.Popen(["sleep", "60"], start_new_session=True, env=environment) as process:
        assert until(lambda: procfs.marks(process.pid) is not None)
        record(ledger, process.pid)
        kin._file("unit-run").unlink()
        (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
        assert result.was_there
        assert process.wait(5) == -9


def test_a_recorded_process_without_its_mark_is_ended(
    ledger: Ledger, stranger: subprocess.Popen[bytes]
) -> None:
    record(ledger, stranger.pid)
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert result.was_there
    assert stranger.wait(5) == -9


@pytest.mark.parametrize("changed", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_pid_that_was_given_out_again_is_spared(
    ledger: Ledger, stranger: subprocess.Popen[bytes], changed: dict[str, object]
) -> None:
    record(ledger, stranger.pid, **changed)
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert not result.was_there
    assert stranger.poll() is None


def test_a_session_is_ended_after_its_leader(ledger: Ledger, tmp_path: Path) -> None:
    """Like a server that overwrote its environment and whose master died: a worker of it was written down."""
    leader = subprocess.Popen(
        ["sh", "-c", "(while :; do sleep 0.05; done) & echo $!; wait"],
        start_new_session=True,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert leader.stdout is not None
    worker = int(leader.stdout.readline())
    record(ledger, worker)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    assert procfs.stat(worker) is not None
    (result,) = resources.remove_leftovers(ledger.path.parent, REMOVERS, ledger=ledger)
    assert result.was_there
    assert until(lambda: worker not in {p.pid for p in procfs.processes()})


def test_a_live_run_is_left_alone_unless_forced(
    tmp_path: Path, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Strays of whatever else is tested on this machine at the moment are not for this test to remove.
    monkeypatch.setattr(destroy, "survey", lambda run_id=None: strays.Survey())
    directory = tmp_path / "run"
    directory.mkdir()
    state.register("unit-run", directory)
    with Ledger(directory / "ledger.ndjson") as ledger:
        ledger.event("run-start", run="unit-run")
        record(ledger, stranger.pid)
        with pytest.raises(HostFailed, match="alive"):
            resources.remove_leftovers(directory, REMOVERS)
        assert destroy.destroy_all(REMOVERS).live == (directory,)
        assert stranger.poll() is None
        assert "unit-run" in strays.live_runs()
        (result,) = resources.remove_leftovers(directory, REMOVERS, force=True)
        assert result.was_there
        assert leftovers(ledger.path) == []
    assert "unit-run" not in strays.live_runs()
    report = destroy.destroy_all(REMOVERS)
    assert (report.live, report.failed) == ((), ())
    assert state.pointers() == []


def test_a_full_disk_does_not_stop_a_forced_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_disk: Path
) -> None:
    directory = full_disk / "run"
    directory.mkdir()
    state.register("unit-run", directory)
    sleepers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]
    with Ledger(directory / "ledger.ndjson") as ledger:
        ledger.event("run-start", run="unit-run")
        known = []
        for number, process in enumerate(sleepers):
            record(ledger, process.pid, name=f"unit-run/victim/{number}")
            boot, one = kin._file("unit-run").read_text().splitlines()
            known.append(one)
        kin._file("unit-run").write_text("\n".join([boot, *known, ""]))
        before = ledger.path.stat().st_size
        ledger.event("pad", of="")
        size = ledger.path.stat().st_size
        ledger.event(
            "pad", of="x" * ((before - 2 * size) % 4096)
        )  # to the end of its page: a row more needs another
        with (full_disk / "all").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        ended = resources.remove_leftovers(directory, REMOVERS, force=True)
    assert {process.wait(5) for process in sleepers} == {-9}
    assert not any(one.why for one in ended)
    assert len(leftovers(ledger.path)) == 2, "no row of their removal had room"


def test_pointers_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    path = state.register("r-1", Path("here"))
    assert path.parent == tmp_path / "state/contend/runs"
    (path.parent / ".r-2.123").write_text("half")
    assert state.pointers() == [state.Pointer("r-1", tmp_path / "here")]
    state.unregister("r-1")
    state.unregister("r-1")
    assert state.pointers() == []


@pytest.mark.parametrize(
    "data",
    [b"{}", b"\xff", b"[" * 100_000, b'{"run": "r-1", "directory": "/a\\u0000b"}', b'{"run": "other"}'],
)
def test_a_damaged_pointer_is_told_and_hides_no_other(tmp_path: Path, data: bytes) -> None:
    state.register("r-1", tmp_path).write_bytes(data)
    state.register("r-2", tmp_path)
    pointers, (damaged,) = state.survey()
    assert [pointer.run_id for pointer in pointers] == ["r-2"]
    assert (damaged.path.name, bool(damaged.why)) == ("r-1", True)


def test_a_relative_state_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state.folder() == tmp_path / ".local/state/contend/runs"


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", ".x", "x" * 129, "a/b"])
def test_names_that_cannot_be_part_of_a_path_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot name"):
        names.check_name("run id", name)


def test_an_unknown_platform_suggests_the_nearest(ledger: Ledger) -> None:
    with pytest.raises(UnknownName, match="no platform is called 'contaner'") as unknown:
        platform("contaner", run_id="r", ledger=ledger)
    assert "container" in unknown.value.hint
