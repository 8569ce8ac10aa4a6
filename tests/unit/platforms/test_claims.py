"""A claim tells other state directories whose a run is; a thing is told from its owner after it was seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend import names
from contend.engine.removal import REMOVERS
from contend.platforms import bundles, cgroups, destroy, engines, network, procfs, strays
from contend.platforms.guests import image
from contend.store import claims, state
from contend.store.ledger import Ledger
from support.own_runs import record_process
from support.prerequisites import need

RUN = f"unit-claims-{os.getpid()}"


# What these tests leave is claimed where they look: to `contend destroy --all` of a test beside them it is nobody's.
pytestmark = pytest.mark.one_of("strays")


@pytest.fixture(autouse=True)
def claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where claims are in these tests, which know of none but their own."""
    place = tmp_path / "claims"
    monkeypatch.setattr(claims, "home", lambda: place)
    monkeypatch.setattr(claims, "_directories", lambda: {place})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return place


@pytest.fixture
def only_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is on this host, these tests see the processes of their own run."""
    monkeypatch.setattr(engines, "containers", list)
    monkeypatch.setattr(bundles, "left", list)
    monkeypatch.setattr(image, "left", list)
    monkeypatch.setattr(cgroups, "find", lambda layout: [])
    monkeypatch.setattr(network, "namespaces", lambda run_id=None: [])
    everybody = procfs.marked
    monkeypatch.setattr(procfs, "marked", lambda run_id=None, member=None: everybody(RUN, member=member))


def marked_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={**os.environ, procfs.MARKER: RUN})


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a run has left."""
    process = marked_process()
    yield process
    process.kill()
    process.wait()


def in_state(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(path))


def test_a_run_is_claimed_as_long_as_it_is_pointed_at(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    state.register(RUN, directory)
    (claim,) = claims.every()
    assert (claim.run_id, claim.directory, claim.state) == (RUN, directory, tmp_path / "state")
    assert claim.own
    assert claim.stands()
    assert not claim.has_ledger()
    state.unregister(RUN)
    state.unregister(RUN)
    assert claims.every() == []
    assert not claim.stands()


def test_one_name_in_two_state_directories_is_two_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in "12":
        in_state(monkeypatch, tmp_path / f"state{number}")
        state.register(RUN, tmp_path)
    assert [claim.state.name for claim in claims.every()] in (["state1", "state2"], ["state2", "state1"])
    state.unregister(RUN)
    assert [claim.state.name for claim in claims.every()] == ["state1"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": "r", "directory": "/r", "pointer": "r"}'])
def test_what_is_no_claim_is_passed_over(claimed: Path, tmp_path: Path, text: str) -> None:
    state.register(RUN, tmp_path)
    (claimed / "r").write_text(text)
    (claimed / ".half.1").write_text("{")
    os.mkfifo(claimed / "waits")
    assert [claim.run_id for claim in claims.every()] == [RUN]


def test_where_no_claim_can_be_written_a_run_begins_all_the_same(claimed: Path, tmp_path: Path) -> None:
    claimed.write_text("in the way")
    state.register(RUN, tmp_path)
    assert [pointer.run_id for pointer in state.pointers()] == [RUN]
    assert claims.every() == []
    state.unregister(RUN)


def test_no_claim_goes_where_a_link_leads(claimed: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    claimed.symlink_to(tmp_path / "elsewhere")
    state.register(RUN, tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.usefixtures("only_processes")
def test_what_another_state_directory_knows_is_left_alone_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: subprocess.Popen[bytes]
) -> None:
    state.register(RUN, tmp_path / "run")
    in_state(monkeypatch, tmp_path / "another")
    report = destroy.destroy_all(REMOVERS)
    assert (report.removed, report.failed) == ((), ())
    (others,) = report.others
    assert others.things == (("process", str(left.pid)),)
    assert others.to_json()["state"] == str(tmp_path / "state")
    assert left.poll() is None


@pytest.mark.usefixtures("only_processes")
def test_what_a_vanished_state_directory_left_goes_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: subprocess.Popen[bytes], claimed: Path
) -> None:
    """What only says that it is the run's is listed, and left: anybody can say so."""
    namespace = f"contend-{names.short_hash(RUN)}-0s"
    there = [namespace]
    monkeypatch.setattr(network, "namespaces", lambda run_id=None: list(there))
    monkeypatch.setattr(network, "remove_namespace", lambda name: not there.remove(name))
    state.register(RUN, tmp_path / "run").unlink()
    in_state(monkeypatch, tmp_path / "another")
    report = destroy.destroy_all(REMOVERS)
    (removed,) = report.removed
    assert (removed.name, removed.whose) == (namespace, f"of {tmp_path / 'run'}, which is gone")
    (alone,) = report.left
    assert (alone.kind, alone.name) == ("process", str(left.pid))
    assert f"kill {left.pid}" in alone.why
    assert left.poll() is None
    assert list(claimed.iterdir()) == []


@pytest.mark.usefixtures("only_processes")
def test_a_run_nobody_knows_any_more_is_removed_by_its_own_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claimed: Path
) -> None:
    run = tmp_path / "run"
    (run / "work").mkdir(parents=True)
    with Ledger(run / "ledger.ndjson") as ledger:
        ledger.event("run-start", run=RUN)
        ledger.intend("directory", str(run / "work"))
        state.register(RUN, run).unlink()
        in_state(monkeypatch, tmp_path / "another")
        assert destroy.destroy_all(REMOVERS).live == (run,)
    (removed,) = destroy.destroy_all(REMOVERS).removed
    assert (removed.kind, removed.whose) == ("directory", f"of {run}, which no state directory knows")
    assert not (run / "work").exists()
    assert list(claimed.iterdir()) == []


@pytest.mark.usefixtures("only_processes")
def test_a_process_that_carries_the_mark_of_a_run_of_nobody_is_left(left: subprocess.Popen[bytes]) -> None:
    report = destroy.destroy_all(REMOVERS)
    assert (report.removed, report.failed, report.problems) == ((), (), ())
    assert [item.name for item in report.left] == [str(left.pid)]
    assert left.poll() is None


@pytest.mark.usefixtures("only_processes")
def test_a_process_that_was_written_down_goes(left: subprocess.Popen[bytes]) -> None:
    record_process(RUN, left.pid)
    (removed,) = destroy.destroy_all(REMOVERS).removed
    assert removed.whose == f"of run {RUN}, which no state directory knows"
    assert left.wait(5) == -9


@pytest.mark.usefixtures("only_processes")
def test_a_run_that_begins_while_strays_are_listed_is_no_stray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in another state directory and has no claim: its ledger, which is locked, says that it is alive."""
    begun: list[subprocess.Popen[bytes]] = []
    with Ledger(tmp_path / "ledger.ndjson") as ledger:

        def begins(run_id: str | None = None) -> list[str]:
            ledger.event("run-start", run=RUN)
            begun.append(marked_process())
            return []

        monkeypatch.setattr(network, "namespaces", begins)
        try:
            assert strays.survey() == strays.Survey()
        finally:
            begun[0].kill()
            begun[0].wait()


@pytest.mark.usefixtures("only_processes")
def test_things_that_bear_only_part_of_a_name_are_known_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace has the hash of a run; a bundle that is being made does not say yet whose it is."""
    state.register(RUN, tmp_path)
    namespace, bundle = f"contend-{names.short_hash(RUN)}-0s", tmp_path / names.container(RUN, "victim")
    monkeypatch.setattr(network, "namespaces", lambda run_id=None: [namespace])
    monkeypatch.setattr(bundles, "left", lambda: [(bundle, "")])
    in_state(monkeypatch, tmp_path / "another")
    found = strays.survey()
    assert found.strays == ()
    (others,) = found.others
    assert others.things == (("bundle", str(bundle)), ("netns", namespace))


@pytest.mark.usefixtures("only_processes")
def test_a_container_that_proves_an_engine_is_its_process_s(
    monkeypatch: pytest.MonkeyPatch, left: subprocess.Popen[bytes]
) -> None:
    of_the_living, of_the_dead = (
        f"contend-probe-{os.getpid()}",
        "contend-probe-4194305",
    )  # above PID_MAX_LIMIT
    monkeypatch.setattr(
        engines, "containers", lambda: [(of_the_living, "runc", ""), (of_the_dead, "runc", "")]
    )
    found = [stray.name for stray in strays.survey().strays if stray.kind == "container"]
    assert found == [of_the_dead]


IN_ITS_OWN_MOUNTS = """
import sys, time
from pathlib import Path
from contend.store.ledger import Ledger
with Ledger(Path(sys.argv[1]) / "ledger.ndjson") as ledger:
    ledger.event("run-start", run=sys.argv[2])
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def in_another_mount_namespace(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A live run whose directory lies in a file system that only it has mounted, as in a container."""
    directory = tmp_path / "runs" / "run"
    directory.mkdir(parents=True)
    state.register(RUN, directory)
    mounted = 'mount -t tmpfs tmpfs "$1" && mkdir "$1/run" && exec "$2" -c "$3" "$1/run" "$4"'
    run = subprocess.Popen(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            mounted,
            "sh",
            directory.parent,
            sys.executable,
            IN_ITS_OWN_MOUNTS,
            RUN,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    try:
        need(run.stdout.readline() == "ready\n", "root, who may mount in a namespace")
        yield run
    finally:
        run.kill()
        run.communicate()


@pytest.mark.usefixtures("only_processes")
def test_a_live_run_in_another_mount_namespace_is_left_alone(
    in_another_mount_namespace: subprocess.Popen[str], left: subprocess.Popen[bytes]
) -> None:
    """Its ledger is there, and not by that path here."""
    [pointer] = state.pointers()
    record_process(RUN, left.pid)
    assert not pointer.ledger.exists()
    assert {RUN, "run"} <= strays.live_runs()
    assert destroy.destroy_all(REMOVERS).removed == ()
    assert left.poll() is None
    assert state.pointers() == [pointer], "it is still known once it has died"
    in_another_mount_namespace.kill()
    in_another_mount_namespace.wait()
    assert [removed.name for removed in destroy.destroy_all(REMOVERS).removed] == [str(left.pid)]
    assert left.wait(5) == -9
    assert state.pointers() == []


@pytest.mark.usefixtures("only_processes")
def test_of_two_ledgers_at_one_path_each_is_looked_at(
    in_another_mount_namespace: subprocess.Popen[str],
) -> None:
    [pointer] = state.pointers()
    with Ledger(pointer.ledger) as ledger:
        ledger.event("run-start", run=f"{RUN}-here")
        assert {RUN, f"{RUN}-here", "run"} <= strays.live_runs()
    in_another_mount_namespace.kill()
    in_another_mount_namespace.wait()
    assert not {RUN, f"{RUN}-here"} & strays.live_runs()


def test_a_ledger_that_nobody_here_can_look_at_is_a_live_run_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / RUN).mkdir()
    with Ledger(tmp_path / RUN / "ledger.ndjson"):
        monkeypatch.setattr(strays, "_from_here", lambda *_: None)
        assert RUN in strays.live_runs()
