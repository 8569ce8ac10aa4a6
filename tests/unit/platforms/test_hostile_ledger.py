"""What a row of a ledger may name: everything that a hostile run directory can ask for is listed and left."""

from __future__ import annotations

import json
import os
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
from contend.errors import HostFailed
from contend.platforms import destroy, hotplug, procfs, resources
from contend.platforms.guests import virsh
from contend.store import state
from contend.store.ledger import Ledger, leftovers

RUN = "hostile-run"

pytestmark = pytest.mark.usefixtures("isolated")


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
