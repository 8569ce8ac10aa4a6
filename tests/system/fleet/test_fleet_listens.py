"""A fleet's scheduler and workers listen where they were told, and nowhere else, as the kernel says of their sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.fleet import ssh, up
from contend.platforms import procfs
from support.command_line import CONTEND, Home, wait_for
from support.prerequisites import need

OTHER = "127.0.0.2"  # an address of this machine that nobody else listens on


@pytest.fixture(autouse=True)
def dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        need(False, "pip install 'contend[fleet]'")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield Home(tmp_path)
    for fleet in up.every():
        up.stop(fleet)


def listens(pid: int) -> set[str]:
    """IPv4 and IPv6 addresses at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                number = bytes.fromhex(words[1].partition(":")[0])
                found.add(".".join(map(str, reversed(number))) if len(number) == 4 else f"v6 {number.hex()}")
    return found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--address", "127.0.0.1"), {"127.0.0.1"}),
        (("--address", OTHER), {OTHER}),
        (("--address", "198.51.100.7", "--listen", OTHER), {OTHER}),
        (("--address", OTHER, "--listen", "0.0.0.0"), {"0.0.0.0"}),
    ],
)
def test_the_scheduler_listens_where_it_was_told(home: Home, words: tuple[str, ...], told: set[str]) -> None:
    home("fleet", "start", "--by-hand", "one", *words).fine()
    (fleet,) = up.every()
    assert fleet.scheduler is not None
    # Beside that, dask's web server, on loopback.
    assert listens(fleet.scheduler) == told | {"127.0.0.1"}
    status = home("fleet", "status", "--json").fine().json()
    assert [found["up"] for found in status["fleets"]] == [True], "reached where it listens"


def test_a_worker_listens_towards_its_scheduler(home: Home) -> None:
    home("fleet", "start", "--by-hand", "one", "--address", OTHER).fine()
    (fleet,) = up.every()
    file = fleet.folder / "join" / "one.json"
    env = home.environment(XDG_STATE_HOME=str(home.path / "there"))
    with subprocess.Popen([CONTEND, "fleet", "join", str(file)], env=env, start_new_session=True) as worker:
        try:
            joined = home.path / "there/contend/joined" / fleet.id / "worker.json"
            wait_for(lambda: any((home.path / "there").rglob("worker.json")), f"worker ({joined})")
            pids = [worker.pid, *procfs.descendants(worker.pid)]
            found = set().union(*(listens(pid) for pid in pids))
            assert found, "it listens"
            assert all(address.startswith("127.") for address in found)
        finally:
            worker.terminate()
            worker.wait(60)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(BadInput, match="no address of this machine") as refused:
        up.addresses(["a"], ssh.Way(), "198.51.100.7")
    assert "--listen" in refused.value.hint
    assert up.addresses(["a"], ssh.Way(), "198.51.100.7", OTHER) == (OTHER,)


def test_several_addresses_share_a_port(home: Home) -> None:
    made = f"up.make(['a'], ssh.Way(), keep=True, by_hand=True, listen=('127.0.0.1', '{OTHER}'), lost_s=60)"
    # In a process of its own: the scheduler is its child, and stays.
    code = f"from contend.fleet import ssh, up; {made}"
    subprocess.run([sys.executable, "-c", code], env=home.environment(), check=True)
    (fleet,) = up.every()
    assert fleet.scheduler is not None
    assert listens(fleet.scheduler) == {"127.0.0.1", OTHER}
    for address in ("127.0.0.1", OTHER):
        with socket.create_connection((address, fleet.port), timeout=10):
            pass
