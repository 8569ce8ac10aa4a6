"""The run's diary: what it promises to whoever reads it after a crash, a full disk, or a stranger's mischief."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contend.errors import HostFailed
from contend.store.ledger import (
    TRIAL_START,
    Ledger,
    Record,
    is_locked,
    leftovers,
    open_to_append,
    parse,
    parse_without_trials,
    standing,
    truncate_torn_line,
)
from contend.store.state import ledger_of
from support.fake_clock import FakeClock
from support.nobody import NOBODY
from support.prerequisites import need

SECRET = "https://me:hunter2@registry.example/"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.ndjson"


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_row_says_what_when_and_by_which_schema(path: Path) -> None:
    with Ledger(path, FakeClock(5)) as ledger:
        ledger.intend("cgroup", "contend-1", cpus=2)
        ledger.created("cgroup", "contend-1", path="/x")
        ledger.removed("cgroup", "contend-1")
        ledger.event("run-end", exit=0)
    common = {"schema_version": 1, "at_ns": 5, "utc": "2026-11-23T00:00:00.000+00:00"}
    assert rows(path) == [
        {**common, "event": "intend", "kind": "cgroup", "name": "contend-1", "cpus": 2},
        {**common, "event": "created", "kind": "cgroup", "name": "contend-1", "path": "/x"},
        {**common, "event": "removed", "kind": "cgroup", "name": "contend-1"},
        {**common, "event": "run-end", "exit": 0},
    ]


def test_a_thing_keeps_the_name_it_is_found_by_and_texts_of_others_lose_their_secrets(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.intend("image", SECRET)
        ledger.event("failed", said=SECRET)
    told, said = rows(path)
    assert told["name"] == SECRET
    assert "hunter2" not in said["said"]
    assert "registry.example" in said["said"]


def test_without_a_clock_of_its_own_it_uses_the_machine_s(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.intend("a", "b")
        ledger.intend("a", "c")
    first, second = rows(path)
    assert 0 < first["at_ns"] < second["at_ns"]


def test_a_program_of_a_run_writes_several_names_with_one_wait_for_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (waits.append(fd), sync(fd)))
    with Ledger(path), Record(path, "run-1", FakeClock(9)) as record:
        record.intend("server", ["a", "b"], cloud="x")
        assert len(waits) == 1
        record.created("server", "a", id="7")
        record.removed("server", ["a", "b"])
        assert len(waits) == 3
    common = {"schema_version": 1, "at_ns": 9, "utc": "2026-11-23T00:00:00.000+00:00", "run": "run-1"}
    assert rows(path) == [
        {**common, "event": "intend", "kind": "server", "cloud": "x", "name": "a"},
        {**common, "event": "intend", "kind": "server", "cloud": "x", "name": "b"},
        {**common, "event": "created", "kind": "server", "id": "7", "name": "a"},
        {**common, "event": "removed", "kind": "server", "name": "a"},
        {**common, "event": "removed", "kind": "server", "name": "b"},
    ]
    with pytest.raises(OSError, match="Bad file descriptor"):
        record.removed("server", ["c"])


def test_what_the_kernel_takes_in_pieces_arrives_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    with Ledger(path, FakeClock()) as ledger:
        ledger.intend("kind", "é" * 50)
    assert [row["name"] for row in rows(path)] == ["é" * 50]


@pytest.mark.parametrize("before", [0, 3])
def test_when_the_disk_is_full_no_half_of_a_row_stays(
    path: Path, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    calls = 0

    def full(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls % 2:
            return write(fd, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Ledger(path) as ledger:
        for number in range(before):
            ledger.intend("thing", str(number))
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(HostFailed, match="No space left on device") as told:
            ledger.intend("thing", "lost")
        assert "--resume" in told.value.hint
        assert str(path) in told.value.message
        ledger.removed("thing", "0")  # a tear-down goes on
        monkeypatch.setattr(os, "write", write)
        ledger.created("thing", "after")
    assert [row["name"] for row in rows(path)] == [*map(str, range(before)), "after"]


@pytest.mark.parametrize("torn", [0, 7])
def test_when_the_disk_is_full_rows_that_others_wrote_meanwhile_stay(
    path: Path, torn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        write(fd, bytes(data)[:torn])
        other.created("server", "theirs")
        raise OSError(errno.ENOSPC, "No space left on device")

    with Ledger(path) as ledger, Record(path, "run-1") as other:
        ledger.intend("thing", "first")
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(HostFailed, match="No space left on device"):
            ledger.intend("thing", "lost")
    assert b'"name":"theirs"' in path.read_bytes()
    assert [row["name"] for row in parse(path.read_bytes())[0]] == [
        "first",
        *(["theirs"] if not torn else []),
    ]


def test_of_several_names_none_is_written_when_the_disk_is_full(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Record(path, "run-1") as record:
        record.intend("server", ["a"])
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(HostFailed) as told:
            record.intend("server", ["b", "c"])
        assert str(path) in told.value.message
    assert [row["name"] for row in rows(path)] == ["a"]


def test_a_number_that_json_does_not_have_is_not_written(path: Path) -> None:
    with Ledger(path) as ledger, pytest.raises(ValueError, match="JSON compliant"):
        ledger.event("measured", value=float("nan"))
    assert path.read_bytes() == b""


def a_link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(("lies", "why"), [(a_link, "symbolic link"), (a_pipe, "not a regular file")])
def test_nothing_is_written_through_what_is_no_file(
    path: Path, lies: Callable[[Path], None], why: str
) -> None:
    lies(path)
    before = open_files()
    for opens in (Ledger, open_to_append, truncate_torn_line):
        with pytest.raises(HostFailed, match=why):
            opens(path)
    assert not path.with_name("elsewhere").exists()
    assert open_files() <= before  # others of this process may be closed meanwhile
    assert not is_locked(path)


def test_a_file_is_for_its_owner_to_write_and_no_program_started_inherits_it(path: Path) -> None:
    fd = open_to_append(path)
    try:
        assert path.stat().st_mode & 0o777 & ~0o644 == 0
        assert not os.get_inheritable(fd)
        os.write(fd, b"1")
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"2")
        assert path.read_bytes() == b"12", "it only ever grows"
    finally:
        os.close(fd)


WHOLE = b'{"event":"a"}\n'


@pytest.mark.parametrize("torn", [0, 1, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("whole", [0, 1, 3, 6000])
def test_a_torn_line_of_any_length_goes_and_whole_ones_stay(path: Path, torn: int, whole: int) -> None:
    path.write_bytes(WHOLE * whole + b"x" * torn)
    truncate_torn_line(path)
    assert path.read_bytes() == WHOLE * whole


def test_what_is_not_there_is_not_made_by_cutting_it(path: Path) -> None:
    truncate_torn_line(path)
    assert not path.exists()


def test_damaged_lines_are_known_by_their_numbers_and_a_torn_one_is_none() -> None:
    data = (
        b'{"event":"a"}\n\n{"event":1}\n{"no":"event"}\n\xff\n'
        + b"[" * 100_000
        + b'\n{"event":"b","n":1}\n{"ev'
    )
    assert parse(data) == ([{"event": "a"}, {"event": "b", "n": 1}], [2, 3, 4, 5, 6])
    assert parse(b"") == ([], [])


def test_what_stands_has_what_was_told_of_it_last_and_the_newest_is_first() -> None:
    told = [
        {"event": "intend", "kind": "netns", "name": "n", "at_ns": 1, "host": "h"},
        {"event": "intend", "kind": "cgroup", "name": "n", "at_ns": 2},
        {"event": "created", "kind": "netns", "name": "n", "at_ns": 3, "id": 7},
        {"event": "intend", "kind": "veth", "name": "v", "at_ns": 4},
        {"event": "removed", "kind": "veth", "name": "v", "at_ns": 5},
        {"event": "removed", "kind": "veth", "name": "never"},
        {"event": "trial-start", "kind": "cgroup", "name": "n", "at_ns": 6},
        {"event": "intend", "kind": "odd", "name": "o", "at_ns": "when?"},
        {"event": "intend", "kind": "veth", "name": "again", "at_ns": 7},
        {"event": "removed", "kind": "veth", "name": "again", "at_ns": 8},
        {"event": "intend", "kind": "veth", "name": "again", "at_ns": 9},
    ]
    assert standing(told) == [
        {"event": "intend", "kind": "veth", "name": "again", "at_ns": 9},
        {"event": "created", "kind": "netns", "name": "n", "at_ns": 3, "host": "h", "id": 7},
        {"event": "intend", "kind": "cgroup", "name": "n", "at_ns": 2},
        {"event": "intend", "kind": "odd", "name": "o", "at_ns": "when?"},
    ]


def test_of_rows_of_trials_there_may_be_any_number(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.intend("cgroup", "a")
        for trial in range(100):
            ledger.event(TRIAL_START, trial=trial)
    with path.open("ab") as file:
        file.write(b'[1]\n{"torn')
    with path.open("rb") as file:
        told, damaged = parse_without_trials(file, 500)
    assert ([row["event"] for row in told], damaged) == (["intend"], [102])
    with path.open("rb") as file, pytest.raises(ValueError, match="more than 100 bytes"):
        parse_without_trials(file, 100)


def test_names_that_are_no_text_are_the_same_when_read(path: Path) -> None:
    name = os.fsdecode(b"/srv/caf\xe9/\\udce9")
    with Ledger(path) as ledger:
        ledger.intend("directory", name)
        ledger.event("left", name=name)
    assert [row["name"] for row in parse(path.read_bytes())[0]] == [name, name]
    assert [row["name"] for row in rows(path)] == [name, name], (
        "a file of UTF-8 that any reader of JSON takes"
    )


def test_leftovers_pass_over_what_is_no_row(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.intend("cgroup", "a")
    with path.open("a", encoding="utf-8") as file:
        file.write('[1]\n{"event": "intend", "kind": "netns", "name": "b", "at_ns": 1}\nnot json\n')
    assert [row["name"] for row in leftovers(path)] == ["a", "b"]


def test_a_ledger_in_the_run_s_own_directory_is_found_there(tmp_path: Path) -> None:
    assert ledger_of(tmp_path) == tmp_path / "ledger.ndjson"


def test_a_run_is_alive_while_its_ledger_is_locked(path: Path) -> None:
    assert not is_locked(path), "there is none"
    ledger = Ledger(path)
    ledger.intend("cgroup", "a")
    with path.open("a") as torn:
        torn.write('{"torn')
    before = open_files()
    assert is_locked(path)
    with pytest.raises(HostFailed, match=r"in use by another contend") as told:
        Ledger(path)
    assert told.value.hint
    assert path.read_text().endswith('{"torn'), "whoever does not hold the lock cuts nothing"
    assert open_files() <= before  # others of this process may be closed meanwhile
    ledger.close()
    ledger.close()
    assert not is_locked(path)
    assert not is_locked(path), "asking takes no lock that stays"
    with Ledger(path):
        assert [row["name"] for row in rows(path)] == ["a"]


KILLED = """
import os, sys, time
from contend.store.ledger import Ledger
ledger = Ledger(__import__("pathlib").Path(sys.argv[1]))
if os.fork() == 0:  # as what is started is between the clone and execve
    time.sleep(float(sys.argv[2]))
    os._exit(0)
print("locked", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("stays_s", "alive"), [(0.4, False), (3.0, True)])
def test_who_was_killed_is_waited_for_until_what_it_was_starting_lets_go(
    path: Path, stays_s: float, alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the clone and execve of what it started: destroy took the run for a live one, and left it."""
    if alive:
        monkeypatch.setattr("contend.store.ledger._LEAVING_S", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(stays_s)], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "locked\n"
        assert is_locked(path)
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # dead, and not waited for yet
        assert is_locked(path) is alive
    if not alive:
        Ledger(path).close()


def test_a_lock_that_is_let_go_of_while_its_holder_is_looked_for_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of it /proc/locks tells nothing any more: that is no run which is alive."""
    ledger = Ledger(path)

    def looked_for(_: int) -> int | None:
        ledger.close()
        return None

    monkeypatch.setattr("contend.store.ledger._holder", looked_for)
    assert not is_locked(path)


def test_a_lock_whose_holder_is_told_nowhere_is_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contend.store.ledger._holder", lambda _: None)
    with Ledger(path):
        assert is_locked(path)
    assert not is_locked(path)


@pytest.mark.parametrize(("uid", "alive"), [(0, True), (NOBODY, False)])
def test_a_lock_of_a_user_who_may_only_read_is_no_run(path: Path, uid: int, alive: bool) -> None:
    need(os.geteuid() == 0, "root, to be somebody else")
    need(bool(shutil.which("setpriv") and shutil.which("flock")), "setpriv and flock (util-linux)")
    with Ledger(path):
        pass
    with path.open() as file:
        locks = ["flock", "-x", f"/proc/self/fd/{file.fileno()}", "sh", "-c", "echo locked; exec cat"]
        holder = subprocess.Popen(
            ["setpriv", f"--reuid={uid}", "--clear-groups", *locks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[file.fileno()],
        )
        with holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"locked\n"
            assert is_locked(path) is alive
            assert holder.stdin is not None
            holder.stdin.close()
    assert not is_locked(path)
