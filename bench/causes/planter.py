"""The planter: does to a victim what its neighbour cannot do itself, for as long as that holds a lock.

    python bench/causes/planter.py FOLDER KIND...

Prints what victims have to know (addresses, ports) as one line of JSON, and ends with its standard input. What it changes on
the host is put back then: limits of groups that victims made go with the groups, a link between two namespaces of the
network and a swap file are its own, and `vm.dirty_bytes` is written back.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

GROUPS = Path("/sys/fs/cgroup")
DIRTY = Path("/proc/sys/vm/dirty_bytes")
DIRTY_BYTES = 16 << 20
LOOK_S = 0.001
QUICK_S, SLOW_S = 0.001, 0.011
QUOTA_CPUS = 0.5
PERIOD_US = 50_000
LINK_RATE = "400mbit"
BURST = "80kb"
"""More than a segment of 64 kB with its headers: those that are larger than a burst are cut up, which takes CPU time."""
MEMORY_BYTES = {"reclaim": 32 << 20, "swap": 48 << 20}
"""Of 64 MB that the victim uses."""


class Held:
    """The lock of a kind: true while somebody holds it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._file = (folder / f"held-{kind.replace(' ', '-')}").open("w", encoding="ascii")

    def __bool__(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False

    @property
    def answer_s(self) -> float:
        """Time that a service takes for an answer."""
        return SLOW_S if self else QUICK_S


class Switch(ABC):
    """A thing that is one way while a lock is held, and else another. Looks from time to time, in a thread of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self._is_on = folder, kind, False
        self._held = Held(folder, kind)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            is_held = bool(self._held)
            if self.is_new() or is_held != self._is_on:
                self._is_on = is_held
                self.turn(on=is_held)
            time.sleep(LOOK_S)

    def is_new(self) -> bool:
        """There is something that was not turned yet."""
        return False

    @abstractmethod
    def turn(self, *, on: bool) -> None: ...


class OfGroup(Switch):
    """A limit of a group: of `group`, or of the one that each victim makes and writes into FOLDER."""

    def __init__(self, folder: Path, kind: str, group: Path | None = None) -> None:
        self._given, self.group = group, group
        self.seen: list[Path] = []
        super().__init__(folder, kind)

    def is_new(self) -> bool:
        if self._given is not None:
            return False
        name = self.kind.replace(" ", "-")
        written = self.folder / f"group-{name}"
        if not written.exists():
            return False
        self.group = Path(written.read_text(encoding="ascii"))
        self.seen.append(self.group)
        written.unlink()
        (self.folder / f"seen-{name}-{self.group.name}").touch()
        return True

    def turn(self, *, on: bool) -> None:
        if self.group is not None:
            with contextlib.suppress(FileNotFoundError):  # its victim has ended
                self.limit(self.group, on=on)

    def remove(self) -> None:
        """Remove the groups that victims made: these have ended."""
        for group in self.seen:
            with contextlib.suppress(OSError):
                group.rmdir()

    @abstractmethod
    def limit(self, group: Path, *, on: bool) -> None: ...


class Quota(OfGroup):
    def limit(self, group: Path, *, on: bool) -> None:
        if (group / "cpu.max").exists():
            text = f"{QUOTA_CPUS * PERIOD_US:.0f}" if on else "max"
            (group / "cpu.max").write_text(f"{text} {PERIOD_US}", encoding="ascii")
            return
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
        quota = QUOTA_CPUS * PERIOD_US if on else -1
        (group / "cpu.cfs_quota_us").write_text(f"{quota:.0f}", encoding="ascii")


class CpuSet(OfGroup):
    def limit(self, group: Path, *, on: bool) -> None:
        every = (group.parent / "cpuset.cpus").read_text(encoding="ascii").strip()
        one = every.replace("-", ",").split(",")[0]
        (group / "cpuset.cpus").write_text(one if on else every, encoding="ascii")


class Memory(OfGroup):
    def limit(self, group: Path, *, on: bool) -> None:
        name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        none = "max" if name == "memory.max" else "-1"
        (group / name).write_text(str(MEMORY_BYTES[self.kind]) if on else none, encoding="ascii")


class Warm(Switch):
    """A file that is in memory."""

    def turn(self, *, on: bool) -> None:
        if not on:
            (self.folder / "data").read_bytes()


class Queue(Switch):
    """A queue with a rate, on one end of a link."""

    def __init__(self, folder: Path, kind: str, link: Link) -> None:
        self._link = link
        super().__init__(folder, kind)

    def turn(self, *, on: bool) -> None:
        device = ["dev", self._link.device, "root"]
        if not on:
            subprocess.run(["tc", "qdisc", "del", *device], stderr=subprocess.DEVNULL, check=False)
        elif self.kind == "tbf":
            rate = ["rate", LINK_RATE, "burst", BURST, "latency", "50ms"]
            _do("tc", "qdisc", "replace", *device, "tbf", *rate)
        else:
            _do("tc", "qdisc", "replace", *device, "handle", "1:", "htb", "default", "1")
            parent = ["dev", self._link.device, "parent", "1:", "classid", "1:1"]
            _do("tc", "class", "replace", *parent, "htb", "rate", LINK_RATE)


class Link:
    """A link to a namespace of the network in which everything is taken."""

    def __init__(self) -> None:
        number = os.getpid()
        self.namespace, self.device = f"contend-causes-{number}", f"cc{number}a"
        subnet = f"10.213.{number % 200}"
        self.address = f"{subnet}.2"
        _do("ip", "netns", "add", self.namespace)
        _do(
            "ip", "link", "add", self.device, "type", "veth", "peer", "name", "there", "netns", self.namespace
        )
        _do("ip", "addr", "add", f"{subnet}.1/30", "dev", self.device)
        _do("ip", "link", "set", self.device, "up")
        there = ["ip", "-n", self.namespace]
        _do(*there, "addr", "add", f"{self.address}/30", "dev", "there")
        _do(*there, "link", "set", "there", "up")
        self._sink = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, sys.executable, "-c", SINK],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._sink.stdout is not None
        self.port = int(self._sink.stdout.readline())

    def remove(self) -> None:
        self._sink.terminate()
        self._sink.wait()
        _do("ip", "link", "del", self.device)
        _do("ip", "netns", "del", self.namespace)


SINK = """\
import socket, threading
def take(peer):
    while peer.recv(262144): pass
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1], flush=True)
while True: threading.Thread(target=take, args=server.accept()[:1]).start()
"""


def service(held: Held) -> int:
    """A service that answers a question of one byte, and takes what is longer; its port."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)

    def serve(peer: socket.socket) -> None:
        with peer, contextlib.suppress(ConnectionError):
            while got := peer.recv(65536):
                if len(got) == 1:
                    time.sleep(held.answer_s)
                    peer.sendall(b"!")
                elif held:
                    time.sleep(0.0001 * len(got) / 1024)

    def accept() -> None:
        while True:
            threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(server.getsockname()[1])


def web(held: Held) -> int:
    """A server of HTTP/1.1; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            time.sleep(held.answer_s)
            self.send_response(200)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"!")

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def names(held: Held) -> int:
    """A server of names: every one has the address 127.0.0.1 (RFC 1035); its port."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            question, peer = server.recvfrom(512)
            time.sleep(held.answer_s)
            head = question[:2] + b"\x81\x80" + question[4:6] + b"\0\1\0\0\0\0"
            server.sendto(head + question[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1", peer)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


@contextlib.contextmanager
def planted(folder: Path, kinds: Sequence[str]) -> Iterator[dict[str, dict[str, str]]]:
    """Plant these kinds; yields what their victims have to know, by kind."""
    facts: dict[str, dict[str, str]] = {}
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            match kind:
                case "peers" | "network send":
                    facts[kind] = {"ADDRESS": "127.0.0.1", "PORT": str(service(Held(folder, kind)))}
                case "http":
                    facts[kind] = {"WEB_AT": str(web(Held(folder, kind)))}
                case "dns":
                    facts[kind] = {"DNS": str(names(Held(folder, kind)))}
                case "tbf" | "htb":
                    link = Link()
                    stack.callback(link.remove)
                    Queue(folder, kind, link)
                    facts[kind] = {"ADDRESS": link.address, "PORT": str(link.port)}
                case "nested quota":
                    stack.callback(Quota(folder, kind).remove)
                case "enclosing quota":
                    group = Path(os.environ["CAUSES_GROUP"])
                    Quota(folder, kind, group)
                case "page cache":
                    Warm(folder, kind)
                case "cpuset":
                    stack.callback(CpuSet(folder, kind).remove)
                case "reclaim":
                    stack.callback(Memory(folder, kind).remove)
                case "swap":
                    stack.enter_context(swap(folder / "swap"))
                    stack.callback(Memory(folder, kind).remove)
                case "writeback":
                    stack.enter_context(little_dirty())
        yield facts


@contextlib.contextmanager
def swap(path: Path) -> Iterator[None]:
    """A file to swap to."""
    path.write_bytes(bytes(256 << 20))
    path.chmod(0o600)
    _do("mkswap", str(path))
    _do("swapon", str(path))
    try:
        yield
    finally:
        _do("swapoff", str(path))
        path.unlink()


@contextlib.contextmanager
def little_dirty() -> Iterator[None]:
    """Who writes waits for the disk soon, as on a host that has long been written to."""
    before = [(path, path.read_text(encoding="ascii")) for path in (DIRTY, DIRTY.with_name("dirty_ratio"))]
    DIRTY.write_text(str(DIRTY_BYTES), encoding="ascii")
    try:
        yield
    finally:
        # Writing the one sets the other to 0.
        for path, text in before:
            if text.strip() != "0":
                path.write_text(text, encoding="ascii")


def _do(*command: str) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def possible(needs: str) -> bool:
    """True where this host, and this user, have what a kind needs."""
    if needs in ("", "service", "http", "dns", "cache"):
        return True
    if needs == "threads":
        files = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
        return any(not file.read_text(encoding="ascii").strip().isdigit() for file in files)
    if os.geteuid() != 0:
        return False
    if needs in ("cpu", "cpuset", "memory"):
        return (GROUPS / needs).is_dir()
    if needs == "swap":
        return (GROUPS / "memory").is_dir() and Path("/proc/swaps").exists()
    return needs in ("link", "dirty")


def main(folder: Path, kinds: Sequence[str], until: IO[str]) -> None:
    with planted(folder, kinds) as facts:
        print(json.dumps(facts), flush=True)
        until.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], sys.stdin)
