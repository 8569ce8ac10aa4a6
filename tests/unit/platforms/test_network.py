"""Network pairs, real ones: they need root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.errors import CannotHonour
from contend.platforms import network, resources
from contend.platforms.bare import BarePlatform
from contend.platforms.base import Command, HostSpec
from contend.platforms.network import Networks
from contend.store.ledger import Ledger, leftovers
from support import prerequisites
from support.own_runs import own, own_state

pytestmark = pytest.mark.system
PYTHON_SERVER = """
import socket
s = socket.socket(); s.bind(("{address}", 7777)); s.listen()
c, _ = s.accept(); c.sendall(b"x" * 100000); c.close()
"""
PYTHON_CLIENT = """
import socket
c = socket.create_connection(("{address}", 7777), 5); n = 0
while d := c.recv(65536): n += len(d)
print(n)
"""


@pytest.fixture
def run_id() -> str:
    prerequisites.need(os.geteuid() == 0 and shutil.which("ip"), "network namespaces need root and iproute2")
    return f"net-{os.getpid()}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.ndjson") as opened:
        yield opened


def test_a_server_and_its_load_in_namespaces_of_their_own(
    run_id: str, ledger: Ledger, tmp_path: Path
) -> None:
    networks = Networks(run_id, ledger)
    platform = BarePlatform(run_id, ledger)
    try:
        networks.pair("another")
        pair = networks.pair("nginx")
        assert len(pair.device) <= 15
        assert not pair.listening(7777)
        server = platform.prepare(HostSpec("server", "victim", netns=pair.server_ns, directory=tmp_path))
        client = platform.prepare(HostSpec("client", "load", netns=pair.client_ns, directory=tmp_path))
        serving = server.run(_python(PYTHON_SERVER, pair.server_address, tmp_path, "server"))
        for _ in range(200):
            if pair.listening(7777):
                break
            client.run(_python("import time; time.sleep(0.05)", "", tmp_path, "wait")).wait(5)
        before = pair.bytes()
        assert client.run(_python(PYTHON_CLIENT, pair.server_address, tmp_path, "client")).wait(10).code == 0
        assert serving.wait(10).code == 0
        assert (tmp_path / "client").read_text() == "100000\n"
        assert 100_000 < pair.bytes() - before < 150_000
        assert not (Path("/sys/class/net") / pair.device).exists(), "the veth is never on the host"
    finally:
        platform.close()
        networks.close()
        networks.close()
    assert network.namespaces(run_id) == []
    assert leftovers(ledger.path) == []


def _python(script: str, address: str, directory: Path, name: str) -> Command:
    import sys

    text = script.replace("{address}", address)
    return Command((sys.executable, "-c", text), directory, directory / name, directory / f"{name}.err")


def test_namespaces_are_removed_after_a_crash(
    run_id: str, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_state(tmp_path, monkeypatch)
    pair = Networks(run_id, ledger).pair("nginx")
    platform = BarePlatform(run_id, ledger, cgroups="none")
    host = platform.prepare(HostSpec("server", "victim", netns=pair.server_ns, directory=tmp_path))
    process = host.run(Command(("sleep", "60"), tmp_path, tmp_path / "o", tmp_path / "e"))
    removed = resources.remove_leftovers(own(ledger.path.parent), REMOVERS, ledger=ledger)
    # Without control groups processes are written down as they are seen: at least the one.
    assert Counter(item.kind for item in removed if item.was_there) >= Counter({"netns": 2, "process": 1}), (
        removed
    )
    assert {item.why for item in removed} == {""}, removed
    assert process.wait(5).code == -9
    platform.close()
    assert network.namespaces(run_id) == []


def test_a_user_without_rights_is_told(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotHonour, match="root"):
        Networks("r", ledger).pair("x")
    assert leftovers(ledger.path) == []


def test_a_namespace_that_its_maker_removes_meanwhile_is_gone_and_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"contend-{'0' * 8}-9x"
    subprocess.run(["ip", "netns", "add", name], check=True)

    def removed_first(_: object) -> None:
        subprocess.run(["ip", "netns", "delete", name], check=True)

    monkeypatch.setattr("contend.platforms.network.procfs.kill_until_gone", removed_first)
    assert network.remove_namespace(name) is False
