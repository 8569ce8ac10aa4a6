"""Hosts for tests of fleets: network namespaces on one bridge, each with an SSH server and directories of its own.

They share this machine's kernel, processors and clock; a host can be given a clock of its own by a time namespace.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from support.command_line import CONTEND, WORKLOADS, Said, wait_for

TESTS = Path(__file__).parents[1]


def nsenter(namespace: str) -> list[str]:
    """Not `ip netns exec`, which hides the cgroups."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


@dataclass
class LabHost:
    """One host. offset_s: of its CLOCK_MONOTONIC against everyone else's."""

    name: str
    address: str
    namespace: str
    folder: Path
    offset_s: float = 0.0
    server: subprocess.Popen[str] | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "CONTEND_", "SSH_"))}
        path = f"{Path(CONTEND).parent}:{os.environ['PATH']}"
        own = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.state), "PATH": path}
        search = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
        return {**kept, **own, "PYTHONPATH": search, "FLEET_LAB_HOST": self.mark, **more}

    @property
    def mark(self) -> str:
        return str(self.folder)

    def processes(self, *words: str) -> list[int]:
        """Pids of those that were started on this host and have all the words in their command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if (
                f"FLEET_LAB_HOST={self.mark}".encode() in environ
                and state not in "ZX"
                and all(w in line for w in words)
            ):
                found.append(int(entry.name))
        return found

    def worker(self) -> int:
        """The pid of its worker."""
        (pid,) = self.processes("contend.fleet.join")
        return pid

    def serve(self, keys: Path) -> None:
        """Start its SSH server."""
        shifted = ["unshare", "--time", "--monotonic", f"{self.offset_s:.0f}", "--fork", "--kill-child"]
        words = nsenter(self.namespace) + (shifted if self.offset_s else [])
        words += [sys.executable, "-m", "support.ssh_server", self.address]
        words += [str(keys / self.name), str(keys / "authorized")]
        self.server = subprocess.Popen(
            words, env=self.environment(), stdout=subprocess.PIPE, text=True, start_new_session=True, cwd="/"
        )
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == "listening\n"

    def link(self, *, up: bool) -> None:
        """Plug its cable in, or pull it out."""
        ip("-n", self.namespace, "link", "set", "eth0", "up" if up else "down")

    def end(self) -> None:
        """Kill what runs on it."""
        for _ in range(200):
            found = self.processes()
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                break
            time.sleep(0.02)
        if self.server is not None:
            assert self.server.stdout is not None
            self.server.stdout.close()
            self.server.wait()


class Lab:
    """A starting machine and some hosts."""

    def __init__(self, path: Path, hub: str, hosts: Mapping[str, LabHost]) -> None:
        self.path, self.hub, self.hosts = path, hub, hosts
        self.runs, self.state = path / "runs", path / "state"
        self.ssh_config = path / "ssh_config"

    def workload(self, name: str, text: str) -> None:
        folder = self.path / "config/contend/workloads"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CONTEND_", "SSH_"))}
        own = {
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.path / "config"),
            "HOME": str(self.path),
        }
        return {**kept, **own, "FLEET_LAB_HUB": str(self.path)}

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """`contend` on the starting machine."""
        kept: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
        }
        return subprocess.Popen(
            [*nsenter(self.hub), CONTEND, *words],
            env=self.environment(),
            cwd=self.path,
            text=True,
            start_new_session=True,
            **(kept | options),
        )

    def __call__(self, *words: str, timeout: float = 240) -> Said:
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return Said(process.returncode, out, err)

    def run_words(self, scenario: str, *more: str) -> list[str]:
        return ["run", scenario, "--ssh-config", str(self.ssh_config), *more]

    def the_run(self) -> Path:
        (run,) = sorted(p for p in self.runs.iterdir() if (p / "plan.json").exists())
        return run

    def left(self) -> list[str]:
        """What is still there of contend on any host, or of a fleet here."""
        found = [f"scheduler {p}" for p in (self.state / "contend/fleets").glob("*")]
        found += [f"pointer {p}" for p in (self.state / "contend/runs").glob("*")]
        for host in self.hosts.values():
            own = [pid for pid in host.processes() if "ssh_server" not in _line(pid)]
            found += [f"{host.name}: process {pid} {_line(pid)}" for pid in own]
            found += [
                f"{host.name}: {p}"
                for kind in ("joined", "runs")
                for p in (host.state / "contend" / kind).glob("*")
            ]
            runs = (host.state / "contend/parts").glob("*/run/*")
            found += [
                f"cgroup {g}" for run in runs for g in Path("/sys/fs/cgroup").glob(f"**/contend.{run.name}*")
            ]
        return found

    def parts(self) -> list[str]:
        """Parts of runs that hosts still keep."""
        return [str(p) for host in self.hosts.values() for p in (host.state / "contend/parts").glob("*")]


def _line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def lab(
    path: Path, count: int, *, offsets: Mapping[str, float] | None = None, known: bool = True
) -> Iterator[Lab]:
    """`count` hosts h1, h2 …; offsets: in s, of some hosts' clocks; known: their host keys are."""
    tag = f"cfl{os.getpid():x}"
    hub = f"{tag}-hub"
    keys = path / "keys"
    keys.mkdir(parents=True)
    hosts = {}
    for number in range(1, count + 1):
        name = f"h{number}"
        folder = path / name
        folder.mkdir()
        hosts[name] = LabHost(
            name, f"10.91.7.{number}", f"{tag}-{name}", folder, (offsets or {}).get(name, 0.0)
        )
    made = Lab(path, hub, hosts)
    for name, text in WORKLOADS.items():
        made.workload(name, text)
    try:
        _wire(hub, hosts.values())
        _keys(made, keys, known=known)
        for host in hosts.values():
            host.serve(keys)
        yield made
    finally:
        for host in hosts.values():
            host.end()
        _end_hub(path)
        for namespace in (hub, *(host.namespace for host in hosts.values())):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def _end_hub(path: Path) -> None:
    mark = f"FLEET_LAB_HUB={path}".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ProcessLookupError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def _wire(hub: str, hosts: Any) -> None:
    ip("netns", "add", hub)
    ip("-n", hub, "link", "set", "lo", "up")
    ip("-n", hub, "link", "add", "br0", "type", "bridge")
    ip("-n", hub, "addr", "add", "10.91.7.254/24", "dev", "br0")
    ip("-n", hub, "link", "set", "br0", "up")
    for host in hosts:
        ip("netns", "add", host.namespace)
        ip("-n", host.namespace, "link", "set", "lo", "up")
        ip(
            "-n",
            hub,
            "link",
            "add",
            host.name,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            host.namespace,
        )
        ip("-n", hub, "link", "set", host.name, "master", "br0", "up")
        ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", host.namespace, "link", "set", "eth0", "up")


def _keys(made: Lab, keys: Path, *, known: bool) -> None:
    own = asyncssh.generate_private_key("ssh-ed25519")
    own.write_private_key(str(keys / "client"))
    (keys / "authorized").write_bytes(own.export_public_key())
    lines, config = [], []
    for host in made.hosts.values():
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(keys / host.name))
        public = key.export_public_key().decode().split()
        lines.append(f"{host.name},{host.address} {public[0]} {public[1]}")
        config += [f"Host {host.name}", f"  HostName {host.address}", "  User root"]
        config += [f"  IdentityFile {keys / 'client'}", f"  UserKnownHostsFile {keys / 'known'}"]
    (keys / "known").write_text("\n".join(lines if known else []) + "\n", encoding="utf-8")
    made.ssh_config.write_text("\n".join(config) + "\n", encoding="utf-8")
    for name in ("client", *made.hosts):
        (keys / name).chmod(0o600)


def can() -> str:
    """What is missing to have such hosts; "" where nothing is."""
    if os.geteuid() != 0:
        return "root"
    return next((tool for tool in ("ip", "nsenter", "unshare") if shutil.which(tool) is None), "")


__all__ = ["Lab", "LabHost", "can", "lab", "wait_for"]
