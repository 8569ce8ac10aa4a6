"""Open vSwitch with its userspace datapath as the bridge of each host: one switch and its database a host.

Both run in the host's namespace, so they end with it. Their CPU time is in the host-wide figure like the kernel's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import network
from contend.platforms.network import namespace_path
from contend.platforms.packages import install_command
from contend.platforms.programs import find_command
from contend.testbed.placement.layout import BRIDGE, HOST_A, HOST_B, ROUTER_PORTS, WAY, Layout

PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")
_SCHEMA = "vswitch.ovsschema"
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17  # linux/sockios.h, linux/ethtool.h
_UP_S = 10.0


def missing() -> str:
    """The part that is missing on this host; "" where nothing is."""
    absent = [name for name in PROGRAMS if find_command(name) is None]
    return f"{', '.join(absent)} not found" if absent else ""


def up(layout: Layout, directory: Path) -> None:
    """Start a switch on each host, with a port to the other host, and the router's on host a."""
    if why := missing():
        raise CannotHonour(
            f"encapsulation ovs: {why}",
            hint=f"{install_command('openvswitch-switch')}; or encapsulations without ovs",
        )
    for host, ports in (("a", (WAY, *ROUTER_PORTS)), ("b", (WAY,))):
        _start(layout, directory, host)
        for port in ports:
            add_port(layout, directory, host, port)


def _start(layout: Layout, directory: Path, host: str) -> None:
    folder = _folder(directory, host)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    namespace = _namespace(layout, host)
    data = Path(os.environ.get("OVS_PKGDATADIR", "/usr/share/openvswitch"))
    _run(namespace, folder, "ovsdb-tool", "create", str(folder / "db"), str(data / _SCHEMA))
    common = ["--no-chdir", "--detach", "--verbose=console:off"]
    _run(
        namespace,
        folder,
        "ovsdb-server",
        str(folder / "db"),
        f"--remote=punix:{_socket(folder)}",
        f"--unixctl={folder / 'db.ctl'}",
        f"--pidfile={folder / 'db.pid'}",
        f"--log-file={folder / 'db.log'}",
        *common,
    )
    _run(namespace, folder, "ovs-vsctl", f"--db=unix:{_socket(folder)}", "--no-wait", "init")
    _run(
        namespace,
        folder,
        "ovs-vswitchd",
        f"unix:{_socket(folder)}",
        f"--unixctl={folder / 'switch.ctl'}",
        f"--pidfile={folder / 'switch.pid'}",
        f"--log-file={folder / 'switch.log'}",
        *common,
    )
    _control(namespace, folder, "add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev")


def whole_checksums(namespace: str, device: str) -> None:
    """Let packets leave this device with their checksums: the userspace datapath reads them as a card would, and a veth's
    partial ones would be wrong. Segments are no larger than the MTU then, too."""
    value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with network.inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        fcntl.ioctl(any_, _SIOCETHTOOL, request)


def add_port(layout: Layout, directory: Path, host: str, port: str) -> None:
    """Make a device of a host's namespace a port of its switch."""
    _control(_namespace(layout, host), _folder(directory, host), "--may-exist", "add-port", BRIDGE, port)


def _namespace(layout: Layout, host: str) -> str:
    return layout.name(HOST_A if host == "a" else HOST_B)


def _folder(directory: Path, host: str) -> Path:
    return directory / f"ovs-{host}"


def _socket(folder: Path) -> Path:
    return folder / "db.sock"


def _control(namespace: str, folder: Path, *words: str) -> None:
    _run(namespace, folder, "ovs-vsctl", f"--db=unix:{_socket(folder)}", f"--timeout={_UP_S:.0f}", *words)


def _run(namespace: str, folder: Path, program: str, *words: str) -> None:
    """Run a program in the namespace; nothing that it starts keeps this process's output open."""
    path = find_command(program)
    if path is None or not namespace_path(namespace).exists():
        raise HostFailed(f"{program} or {namespace} is gone", hint="something else removed it")
    began = time.monotonic()
    with network.inside(namespace):
        done = subprocess.run(
            [str(path), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=3 * _UP_S,
            env={
                **os.environ,
                "OVS_RUNDIR": str(folder),
                "OVS_LOGDIR": str(folder),
                "OVS_DBDIR": str(folder),
            },
            check=False,
        )
    if done.returncode != 0:
        took = time.monotonic() - began
        raise HostFailed(
            f"{program} failed after {took:.1f} s: {done.stderr.strip()[-300:]}",
            hint="see its log in RUN/work",
        )
