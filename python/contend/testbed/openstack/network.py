"""The data plane of real guests: a bridge in a network namespace of the bed's own, and one link from this host into it.

libvirt, its guests and the taps that Nova makes for them are in the namespace, and a process there, in the place of
Neutron's L2 agent, puts each tap on the bridge. What this host has of it is one end of a veth, with the gateway's address
of the bed's subnet: by it guests are reached. Nothing is forwarded, and no other link, route or rule of the host's changes.
All ports are on one bridge: networks are not kept apart, and security groups not enforced.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.network import NETNS_DIRECTORY

if TYPE_CHECKING:
    from contend.testbed.openstack.bed import Bed

SERVICE = "l2-agent"
BRIDGE = "bridge"
_UPLINK = "uplink"
# While a guest has not come up, the kernel asks for its address once a second, and what was sent waits: that would be the
# fineness at which its first answer is seen.
_ASK_MS = 50
_NO_IPV6 = "net/ipv6/conf/{}/disable_ipv6"
# A new link is told before it is all there; what is put on the bridge is told too.
_AGENT = """\
ip monitor link | while
    for tap in /sys/class/net/tap*; do
        [ ! -e "$tap" ] || [ -e "$tap/brport" ] || ip link set "${tap##*/}" master "$0"
    done
    read -r line
do :; done
"""


def need() -> None:
    """Check that this host can have such a network. Raises CannotHonour."""
    if _program() is None:
        raise CannotHonour("a network for guests needs the 'ip' command", hint="apt-get install iproute2")


def namespace(bed: Bed) -> str:
    """Name of the bed's network namespace, made from its directory."""
    return f"contend-openstack-{_number(bed)}"


def link(bed: Bed) -> str:
    """Name of the host's end of the veth, of at most 15 characters, as the kernel wants."""
    return f"ctdos{_number(bed)}"


def inside(bed: Bed) -> list[str]:
    """Arguments that run the command behind them in the bed's namespace, with its /sys."""
    return ["ip", "netns", "exec", namespace(bed)]


def seen(bed: Bed) -> list[str]:
    """Arguments that run a command in the host's network, but with the namespace's /sys: Nova looks for its taps there."""
    back = 'exec 9</proc/self/ns/net && exec ip netns exec "$0" nsenter --net=/proc/self/fd/9 "$@"'
    return ["sh", "-c", back, namespace(bed)]


def agent(bed: Bed) -> list[str]:
    """The command that puts taps on the bridge."""
    return [*inside(bed), "sh", "-c", _AGENT, BRIDGE]


def make(bed: Bed) -> None:
    """Make what is missing of the network. Raises CannotHonour where the host has another route to the bed's subnet."""
    subnet = ipaddress.IPv4Network(bed.subnet)
    mine = link(bed)
    for route in _routes():
        if route[0].overlaps(subnet) and route[1] != mine:
            raise CannotHonour(
                f"this host has a route to {route[0]} already, by {route[1]}: guests would be {bed.subnet}",
                hint="another bed's? Take that down; or `down --wipe`, and this one gets another subnet",
            )
    name = namespace(bed)
    if not (NETNS_DIRECTORY / name).exists():
        _ip("netns", "add", name)
    there = ("-n", name)
    _run("ip", "netns", "exec", name, "sh", "-c", f"echo 1 >/proc/sys/{_NO_IPV6.format('all')}", check=False)
    _ip(*there, "link", "set", "lo", "up")
    if not _has(*there, BRIDGE):
        _ip(*there, "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    _ip(*there, "link", "set", BRIDGE, "up")
    if not _has(mine):
        _ip("link", "add", mine, "type", "veth", "peer", "name", _UPLINK, "netns", name)
    _ip(*there, "link", "set", _UPLINK, "master", BRIDGE, "up")
    for path, value in ((_NO_IPV6, 1), ("net/ipv4/neigh/{}/retrans_time_ms", _ASK_MS)):
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            (procfs.PROC / "sys" / path.format(mine)).write_text(f"{value}\n", encoding="ascii")
    _ip("address", "replace", f"{gateway(bed.subnet)}/{subnet.prefixlen}", "dev", mine)
    _ip("link", "set", mine, "up")


def end(bed: Bed) -> None:
    """Remove the network, after all that was in it has ended; bridge and taps go with the namespace. Idempotent."""
    if _program() is None:
        return
    _run("ip", "link", "delete", link(bed), check=False)
    if (NETNS_DIRECTORY / namespace(bed)).exists():
        _ip("netns", "delete", namespace(bed))


def left(bed: Bed) -> list[str]:
    """List what is left of the network on this host: the link, the namespace."""
    links = [link(bed)] if _has(link(bed)) else []
    return links + ([namespace(bed)] if (NETNS_DIRECTORY / namespace(bed)).exists() else [])


def choose() -> str:
    """Choose a subnet to which this host has no route, among those reserved for tests: RFC 2544, appendix C.2.2.

    It has addresses for two thousand servers.
    """
    taken = [route[0] for route in _routes()]
    known = list(ipaddress.IPv4Network("198.18.0.0/15").subnets(new_prefix=21))
    free = [one for one in known if not any(one.overlaps(other) for other in taken)]
    return str(random.SystemRandom().choice(free or known))


def gateway(subnet: str) -> str:
    """The host's address in a subnet.

    >>> gateway("198.18.8.0/21")
    '198.18.8.1'
    """
    return str(next(iter(ipaddress.IPv4Network(subnet).hosts())))


def _routes() -> list[tuple[ipaddress.IPv4Network, str]]:
    """Read this host's routes, without default ones: (network, link); empty where they cannot be read."""
    try:
        routes = json.loads(_ip("-j", "-4", "route", "show"))
    except HostFailed:
        return []
    known = [route for route in routes if route.get("dst", "default") != "default"]
    return [
        (ipaddress.IPv4Network(route["dst"], strict=False), str(route.get("dev", "nothing")))
        for route in known
    ]


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _program() -> str | None:
    return shutil.which("ip", path=_path())


def _number(bed: Bed) -> str:
    return names.short_hash(str(bed.root))


def _has(*words: str) -> bool:
    """True if there is that link, the last of the words."""
    *where, name = words
    return _run("ip", *where, "link", "show", name, check=False).returncode == 0


def _ip(*words: str) -> str:
    return _run("ip", *words).stdout


def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": _path()}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise HostFailed(f"{command[0]} was not found", hint="apt-get install iproute2") from error
    if check and done.returncode:
        raise HostFailed(f"{' '.join(command)}: {done.stderr.strip()}", hint="it needs root")
    return done
