"""The broker by hand: a cluster is one, nothing of it is open to others, and nothing is left of it after any end."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from contend.platforms import procfs
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import native
from support.rpc import broker, calling, listed, load, queues, serving


def test_three_nodes_are_a_cluster_with_mirrors_and_quorums(tmp_path: Path) -> None:
    with broker(tmp_path / "three", 3) as up:
        assert len(up.servers()) == len(set(up.ports)) == 3
        assert bed.up(up.directory, 3) == up  # what is up is left as it is
        _only_for_its_owner(up)
        # Each end at another node.
        with (
            serving(up.url(), "quorum", quorum=True, host=1),
            calling(up.url(), "quorum", quorum=True, host=2, callers=4) as driver,
        ):
            kinds = dict(listed(up, "list_queues", "name", "type"))
            assert {"quorum", "quorum.one", *driver.queues} == set(kinds)
            assert set(kinds.values()) == {"quorum"}
            told = load(driver, 0.2)
            assert told["ok"] == told["due"] > 0
        assert queues(up) == []
        assert up.mirrors == up.version.startswith("3.")
        if up.mirrors:
            url = up.url(bed.MIRRORED)
            with serving(url, "mirrored"), calling(url, "mirrored", callers=4) as driver:
                assert load(driver, 0.2)["ok"] > 0
                rows = listed(up, "list_queues", "--vhost", bed.MIRRORED, "name", "policy", "slave_pids")
                assert {row[1] for row in rows} == {"mirror-all"}
                assert all(row[2].count(",") == 1 for row in rows)  # two mirrors


def _only_for_its_owner(up: bed.Bed) -> None:
    assert stat.S_IMODE(up.directory.stat().st_mode) == 0o700
    for name in ("bed.json", ".erlang.cookie", "definitions.json", "rabbitmq.conf"):
        assert stat.S_IMODE((up.directory / name).stat().st_mode) == 0o600
    secrets = (up.password, (up.directory / ".erlang.cookie").read_text())
    for pid in bed.pids(up.directory):
        told = (procfs.PROC / str(pid) / "cmdline").read_bytes()
        assert not any(secret.encode() in told for secret in secrets)
    listening = {
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    for port in up.ports:
        assert f"0100007F:{port:04X}" in listening
        assert f"00000000:{port:04X}" not in listening


def test_whoever_brought_it_up_may_die(tmp_path: Path) -> None:
    """It stays up then, answers, and another one takes it down."""
    place = tmp_path / "orphan"
    with broker(tmp_path / "other") as other:
        program = (
            "import os, signal, sys; from pathlib import Path; from contend.testbed.rabbit import bed;"
            " bed.up(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
        )
        done = subprocess.run([sys.executable, "-c", program, str(place)], timeout=150)
        assert done.returncode == -signal.SIGKILL
        up = bed.load(place)
        assert up is not None
        assert up.answers
        os.kill(up.servers()[0], signal.SIGKILL)
        assert bed.down(place)
        assert bed.down(place) == []
        assert not bed.pids(place)
        assert [path.name for path in place.iterdir()] == ["lock"]
        # The other one has noticed nothing.
        assert other.answers
        native.remove(other.url(), [], [])


def test_a_bed_without_its_state_is_brought_up_anew(tmp_path: Path) -> None:
    with broker(tmp_path / "lost") as up:
        (up.directory / "bed.json").unlink()
        again = bed.up(up.directory)
        assert again.password != up.password
        assert len(again.servers()) == 1
        assert json.loads((again.directory / "bed.json").read_text())["ports"] == list(again.ports)
        # What another process ends, its directory moved away, this one has to reap all the same.
        before = zombies()
        program = "import sys; from pathlib import Path; from contend.testbed.rabbit import bed; bed.down(Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", program, str(up.directory)], timeout=60, check=True)
        up.directory.rename(tmp_path / "moved")
        assert zombies() > before
        bed.down(up.directory)
        assert zombies() <= before


def zombies() -> set[int]:
    """Children of this process that have ended and that it has not asked for."""
    found = (procfs.stat(pid) for pid in procfs.all_pids())
    return {child.pid for child in found if child and child.ppid == os.getpid() and child.state == "Z"}
