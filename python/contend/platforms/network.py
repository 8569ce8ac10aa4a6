"""A pair of network namespaces joined by a veth: a server and its load generator, each with its own stack."""

from __future__ import annotations

import contextlib
import ctypes  # os.setns is Python 3.12
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.listening import ports
from contend.platforms.packages import install_command
from contend.store.ledger import Ledger

NETNS_DIRECTORY = Path("/run/netns")
TUN, VHOST = Path("/dev/net/tun"), Path("/dev/vhost-net")
# Server and client of a pair (`0s`, `0c`); hosts, routers and instances of a bed (`0ha`, `0r`, `0i1c`).
_OWN_NAME = re.compile(rf"{names.PREFIX}-[0-9a-f]{{8}}-[0-9]+[a-z][0-9a-z]*")
_LINK = re.compile(r"ctd[0-9a-f]{8}\.[0-9]+")
_BRIDGE, _TAP = "contend0", "contend1"  # of a guest in a namespace


def namespace_path(name: str) -> Path:
    """The file of a namespace made by `ip netns add`; a path is taken as it is."""
    return Path(name) if "/" in name else NETNS_DIRECTORY / name


@dataclass(frozen=True, slots=True)
class NetPair:
    """Two namespaces by name, and the address the server is reached at from the client's."""

    server_ns: str
    client_ns: str
    server_address: str
    client_address: str
    device: str  # the veth's name, the same in both

    def listening(self, port: int) -> bool:
        """True if anything listens on this TCP port in the server's namespace."""
        return listening(self.server_ns, port)

    def bytes(self) -> int:
        """Count bytes that the server has received and sent over the pair since it was made."""
        for line in _inside(self.server_ns, "/proc/thread-self/net/dev").splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == self.device:
                fields = rest.split()
                return int(fields[0]) + int(fields[8])
        raise HostFailed(f"{self.device} is gone from {self.server_ns}", hint="something else removed it")


def listening(namespace: str | None, port: int) -> bool:
    """True if a server that clients can reach listens on this TCP port in the namespace (None: in this one)."""
    for table in ("tcp", "tcp6"):
        path = f"/proc/thread-self/net/{table}"
        with contextlib.suppress(FileNotFoundError):  # tcp6: a kernel without IPv6
            text = Path(path).read_text(encoding="ascii") if namespace is None else _inside(namespace, path)
            if port in ports(text):
                return True
    return False


@dataclass(frozen=True, slots=True)
class Tap:
    """A guest's way into a server's namespace: what QEMU opens, and the address that the guest has there."""

    device: str
    address: str  # with its prefix, like 10.200.0.1/30
    vhost: bool  # for guests by KVM the host's kernel may move the packets, in QEMU's place


def make_tap(namespace: str, outside: str = "") -> Tap:
    """Make a tap device in the server's end of a pair, bridged to its veth, whose address becomes the guest's.

    outside: what the device is called where whoever starts the guest opens it, outside of the namespace; it is not
    made here then, and `bring_in` is to be called. All goes with the namespace. Raises CannotHonour where there are no
    tap devices, HostFailed.
    """
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise CannotHonour(
            f"a guest needs {TUN} to stand in a network namespace", hint="modprobe tun; or network=host"
        )
    (link,) = [
        device
        for device in json.loads(_ip("-n", namespace, "-j", "-4", "address", "show"))
        if _LINK.fullmatch(device["ifname"])
    ]
    (own,) = link["addr_info"]
    _ip("-n", namespace, "link", "add", _BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    _ip("-n", namespace, "address", "flush", "dev", link["ifname"])
    _ip("-n", namespace, "link", "set", _BRIDGE, "up")
    _join(namespace, link["ifname"])
    if not outside:
        _ip("-n", namespace, "tuntap", "add", "dev", _TAP, "mode", "tap", "vnet_hdr")
        _join(namespace, _TAP)
    return Tap(outside or _TAP, f"{own['local']}/{own['prefixlen']}", os.access(VHOST, os.R_OK | os.W_OK))


def tap_outside(namespace: str) -> str:
    """Name the tap of this pair's guest as it is called outside of the namespace. Raises CannotHonour for another namespace.

    >>> tap_outside("contend-0123abcd-2s")
    'ctd0123abcd.20'
    """
    if not _OWN_NAME.fullmatch(namespace):
        raise CannotHonour(f"'{namespace}' is no namespace of a pair", hint="network=host")
    _, of, number = namespace.split("-")
    return f"ctd{of}.{number[:-1]}0"  # no link's: that of a pair is called by its number


def bring_in(tap: Tap, namespace: str) -> None:
    """Move a tap that is open into its namespace, and bridge it there. Raises HostFailed."""
    _ip("link", "set", "dev", tap.device, "netns", namespace)
    _join(namespace, tap.device)


def _join(namespace: str, device: str) -> None:
    _ip("-n", namespace, "link", "set", device, "master", _BRIDGE)
    _ip("-n", namespace, "link", "set", device, "up")


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move this thread into a network namespace, with its /proc/net and /proc/sys/net, while the block runs. Raises
    HostFailed."""
    with contextlib.ExitStack() as stack:
        home = _open(Path("/proc/thread-self/ns/net"), stack)
        there = _open(namespace_path(namespace), stack)
        _setns(there)
        try:
            yield
        finally:
            _setns(home)


def _inside(namespace: str, path: str) -> str:
    """Read a /proc/net file as seen in a namespace."""
    with inside(namespace):
        return Path(path).read_text(encoding="ascii")


def _open(path: Path, stack: contextlib.ExitStack) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HostFailed(
            f"cannot open the network namespace {path}: {error.strerror}", hint="is it removed?"
        ) from error
    stack.callback(os.close, fd)
    return fd


def _setns(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, 0x40000000) != 0:  # CLONE_NEWNET
        code = ctypes.get_errno()
        raise HostFailed(
            f"cannot enter the network namespace: {os.strerror(code)}", hint="it needs CAP_SYS_ADMIN"
        )


class Networks:
    """The network pairs of a run, in the ledger before they are made."""

    def __init__(self, run_id: str, ledger: Ledger) -> None:
        self._run_id, self._ledger = run_id, ledger
        self._count = 0
        self._made: list[str] = []

    def pair(self, name: str) -> NetPair:
        """Make a pair for the workload `name`. Raises CannotHonour where namespaces may not be made."""
        check_rights()
        number = self._count
        self._count += 1
        base = f"{names.PREFIX}-{names.short_hash(self._run_id)}-{number}"
        server, client, link = f"{base}s", f"{base}c", f"ctd{names.short_hash(self._run_id)}.{number}"
        # A /30 each in 10.200.0.0/16, and inside the namespaces only: no clash with the host.
        high, low = divmod(number * 4, 256)
        ends = f"10.200.{high}.{low + 1}", f"10.200.{high}.{low + 2}"
        for namespace in (server, client):
            self._ledger.intend("netns", namespace, run=self._run_id, party=name)
            self._made.append(namespace)
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "lo", "up")
        # Made inside the namespaces, so that the veth is never seen on the host and goes with either of them.
        _ip("-n", server, "link", "add", link, "type", "veth", "peer", "name", link, "netns", client)
        for namespace, address in zip((server, client), ends, strict=True):
            _ip("-n", namespace, "address", "add", f"{address}/30", "dev", link)
            _ip("-n", namespace, "link", "set", link, "up")
        self._ledger.created("netns", server, run=self._run_id, party=name)
        self._ledger.created("netns", client, run=self._run_id, party=name)
        return NetPair(server, client, ends[0], ends[1], link)

    def close(self) -> None:
        """Remove every pair. Idempotent."""
        while self._made:
            remove_namespace(self._made[-1])
            self._ledger.removed("netns", self._made.pop())


def check_rights(what: str = "network namespaces need", instead: str = "") -> None:
    """Check that this user can make network namespaces. Raises CannotHonour.

    what: what needs them, with its verb; instead: what does without."""
    if shutil.which("ip") is None:
        raise CannotHonour(f"{what} the 'ip' command", hint=install_command("iproute2"))
    if os.geteuid() != 0:
        raise CannotHonour(f"{what} root", hint="sudo contend …" + (f", or {instead}" if instead else ""))


def check_pair(workload: str, *, optional: bool, whose: str = "") -> None:
    """Check that a workload between two namespaces can have them. Raises CannotHonour.

    optional: it has a parameter `network`; whose: begins the error."""
    instead = f"{{{workload}: {{network: host}}}} for loopback" if optional else "leave it out"
    check_rights(f"{whose}a network pair (two network namespaces) needs", instead)


def _ip(*arguments: str, batch: str | None = None) -> str:
    """Run `ip`; `batch`: commands for its standard input."""
    try:
        done = subprocess.run(
            ["ip", *arguments], input=batch, capture_output=True, text=True, timeout=10.0, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostFailed(f"ip {' '.join(arguments)}: {error}", hint=install_command("iproute2")) from error
    if done.returncode != 0:
        raise HostFailed(f"ip {' '.join(arguments)}: {done.stderr.strip()}", hint="contend doctor")
    return done.stdout


def configure(namespace: str, commands: Sequence[str]) -> None:
    """Run `ip` commands in a namespace, all in one process. Raises HostFailed with what it said."""
    _ip("-n", namespace, "-batch", "-", batch="".join(f"{command}\n" for command in commands))


def add_namespace(name: str) -> None:
    """Make an empty namespace that carries contend's name, announced in a ledger before. Raises HostFailed."""
    if not _OWN_NAME.fullmatch(name):
        raise HostFailed(f"'{name}' could not be found again by its name", hint="this is a fault of contend")
    _ip("netns", "add", name)


def namespaces(run_id: str | None = None) -> list[str]:
    """List contend's network namespaces on this host, of one run or of all."""
    if not NETNS_DIRECTORY.is_dir():
        return []
    start = f"{names.PREFIX}-" + ("" if run_id is None else f"{names.short_hash(run_id)}-")
    return sorted(
        e.name for e in NETNS_DIRECTORY.iterdir() if _OWN_NAME.fullmatch(e.name) and e.name.startswith(start)
    )


def remove_namespace(name: str) -> bool:
    """End what runs in a namespace and remove it with its veth. False when it was not there."""
    if not _OWN_NAME.fullmatch(name):
        raise HostFailed(
            f"'{name}' is not one of contend's network namespaces", hint="the ledger names a stranger"
        )
    path = NETNS_DIRECTORY / name
    if not path.exists():
        return False
    namespace = path.stat()
    procfs.kill_until_gone(lambda: _in_namespace(namespace))
    # A crash before the namespace was mounted on its file leaves a plain file: it goes the same way.
    try:
        _ip("netns", "delete", name)
    except HostFailed:
        if path.exists():
            raise
        return False  # whoever made it has removed it meanwhile
    return True


def _in_namespace(namespace: os.stat_result) -> set[int]:
    pids = set()
    for process in procfs.processes():
        with contextlib.suppress(OSError):  # ended meanwhile
            if os.path.samestat((procfs.PROC / str(process.pid) / "ns/net").stat(), namespace):
                pids.add(process.pid)
    return pids


def remove_link(name: str) -> bool:
    """Remove a link of contend's from this namespace. False when it was not there."""
    if not _LINK.fullmatch(name):
        raise HostFailed(f"'{name}' is not one of contend's links", hint="the ledger names a stranger")
    if not (Path("/sys/class/net") / name).exists():
        return False
    _ip("link", "delete", name)
    return True
