"""Whose ledger is obeyed. What belongs to somebody else, was moved or copied, or others can write is data."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.engine.run import resume
from contend.errors import BadInput, HostFailed
from contend.platforms import cgroups, destroy, obedience
from contend.platforms.obedience import Obeyed, ReadOnly
from contend.report.progress import NoProgress
from contend.store import claims, state
from contend.store.ledger import TRIAL_START, Ledger
from support.made_big import big_run
from support.prerequisites import need

RUN = "hostile-run"
NOBODY = 65534
pytestmark = pytest.mark.usefixtures("isolated")
root = pytest.mark.needs(os.geteuid() == 0, "only root can give files away")


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


def test_of_very_many_trials_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(run / state.LEDGER) as ledger:
        for trial in range(20):
            ledger.event(TRIAL_START, trial=trial)
    monkeypatch.setattr(state, "MOST_LEDGER_BYTES", 1000)
    assert (run / state.LEDGER).stat().st_size > 1000
    found = obedience.judge(run)
    assert isinstance(found, Obeyed)
    assert [row["name"] for row in found.left()] == [str(run / "work")]


def test_a_ledger_that_was_kept_elsewhere_comes_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "open" / RUN
    made.mkdir(parents=True)
    made.parent.chmod(0o777)
    state.register(RUN, made)
    with Ledger(state.ledger_of(made)) as ledger:
        for trial in range(20):
            ledger.event(TRIAL_START, trial=trial)
    written = state.ledger_of(made).read_bytes()
    assert state.ledger_of(made) != made / state.LEDGER
    monkeypatch.setattr(state, "MOST_LEDGER_BYTES", 1000)
    state.unregister(RUN)
    assert (made / state.LEDGER).read_bytes() == written


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
    monkeypatch.setattr(claims, "_directories", lambda: places)
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
