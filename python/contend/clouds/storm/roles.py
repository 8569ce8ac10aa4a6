"""CPU time of a cloud's services by their role, where they run on this host: read from /proc before and after a storm.

A process has the role that its command line tells, or, where it is a web server that runs anything, that of the
endpoint of the cloud's catalogue on whose port it listens. What else on this host has such a command line counts too.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# By the command line, the first that matches; what a service is started through (uwsgi, apache, gunicorn) does not count.
_ROLES = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        ("API", r"nova[-_.]api|nova\.wsgi\.osapi|osapi_compute|wsgi:nova"),
        ("conductor", r"nova[-_]conductor"),
        ("scheduler", r"nova[-_]scheduler"),
        ("compute", r"nova[-_]compute"),
        ("placement", r"placement[-_.]api|placement\.wsgi|wsgi:placement|/placement\.(?:ini|conf)"),
        ("keystone", r"keystone[-_.]wsgi|keystone\.wsgi|wsgi:keystone|/keystone\.(?:ini|conf)"),
        ("glance", r"glance[-_.](?:api|wsgi)|wsgi:glance"),
        ("neutron", r"neutron[-_.]"),
        ("cinder", r"cinder[-_.]"),
        ("heat", r"heat[-_.](?:api|engine|wsgi)"),
        ("database", r"(?:^|/)(?:mariadbd|mysqld|postgres)\b"),
        ("broker", r"rabbitmq|(?:^|/)beam\.smp\b"),
        ("cache", r"(?:^|/)memcached\b"),
        ("hypervisor", r"(?:^|/)(?:libvirtd|virtqemud|qemu-system)"),
    )
)

# One of these is in all that the patterns match.
_WORDS = (
    "nova", "osapi_compute", "placement", "keystone", "glance", "neutron", "cinder", "heat", "mariadbd", "mysqld",
    "postgres", "rabbitmq", "beam.smp", "memcached", "libvirtd", "virtqemud", "qemu-system",
)  # fmt: skip
_WEB = re.compile(r"gunicorn|uwsgi|apache2|httpd|wsgi")
_OF_TYPE: Mapping[str, str] = {
    "compute": "API",
    "identity": "keystone",
    "placement": "placement",
    "image": "glance",
    "network": "neutron",
    "block-storage": "cinder",
    "volumev3": "cinder",
    "orchestration": "heat",
}


def role_of(command: str) -> str:
    """The role of a process by its command line; "" for one that is no part of a cloud.

    >>> role_of("uwsgi --module nova.wsgi.osapi_compute:application"), role_of("/usr/sbin/mariadbd --port=1")
    ('API', 'database')
    """
    if not any(word in command for word in _WORDS):  # most of a host's processes
        return ""
    return next((role for role, pattern in _ROLES if pattern.search(command)), "")


class Used(NamedTuple):
    role: str
    cpu_ns: int


def ports(catalogue: Mapping[str, str]) -> dict[int, str]:
    """Roles by port of those endpoints of a catalogue that are on this host and have a port to themselves."""
    by_port: dict[int, set[str]] = {}
    for type_, url in catalogue.items():
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if type_ in _OF_TYPE and _is_here(parts.hostname or ""):
            by_port.setdefault(port, set()).add(_OF_TYPE[type_])
    return {port: min(roles) for port, roles in by_port.items() if len(roles) == 1}


def is_here(url: str) -> bool:
    """True if the URL's host is this one."""
    return _is_here(urlsplit(url).hostname or "")


def _is_here(host: str) -> bool:
    """True if the name is of an address of this host: only those can be bound to."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def pids(proc: Path = Path("/proc")) -> frozenset[int]:
    """The pids of all processes."""
    with os.scandir(proc) as entries:
        return frozenset(int(entry.name) for entry in entries if entry.name.isdigit())


def read(
    roles_by_port: Mapping[int, str], proc: Path = Path("/proc"), *, but: Collection[int] = ()
) -> dict[tuple[int, int], Used]:
    """Each process that has a role, by pid and start, with its CPU time so far. but: pids not to look at."""
    by_process = {}
    sockets = _listening(roles_by_port, proc)
    for pid in pids(proc).difference(but):
        folder = f"{proc}/{pid}"
        try:
            command = _file(f"{folder}/cmdline").replace(b"\0", b" ").decode(errors="replace")
            if not command:  # a thread of the kernel's
                continue
            role = role_of(command) or (_by_socket(Path(folder), sockets) if _WEB.search(command) else "")
            if not role or "contend.workloads.generators" in command:
                continue
            # proc(5): the name, field 2, may hold blanks and parentheses; utime and stime are fields 14 and 15.
            fields = _file(f"{folder}/stat").rpartition(b")")[2].split()
        except OSError:  # it has ended
            continue
        by_process[pid, int(fields[19])] = Used(role, (int(fields[11]) + int(fields[12])) * _NS_PER_TICK)
    return by_process


def _file(path: str) -> bytes:
    """Some hundred of them are read around each storm, by its client: without what `open` makes around them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, 1 << 16)
        while data and (more := os.read(fd, 1 << 16)):
            data += more
        return data
    finally:
        os.close(fd)


def _listening(roles_by_port: Mapping[int, str], proc: Path) -> dict[str, str]:
    """Roles by the link that a descriptor of a listening socket is: `socket:[INODE]`."""
    by_link = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == "0A" and port in roles_by_port:  # TCP_LISTEN
                by_link[f"socket:[{fields[9]}]"] = roles_by_port[port]
    return by_link


def _by_socket(entry: Path, sockets: Mapping[str, str]) -> str:
    if not sockets:
        return ""
    for descriptor in (entry / "fd").iterdir():
        try:
            role = sockets.get(str(descriptor.readlink()), "")
        except OSError:  # closed meanwhile
            continue
        if role:
            return role
    return ""


def between(
    before: Mapping[tuple[int, int], Used], after: Mapping[tuple[int, int], Used]
) -> dict[str, float]:
    """CPU seconds by role between two readings, the largest first; empty where the cloud does not run on this host."""
    sums: dict[str, int] = {}
    for key, used in after.items():
        earlier = before[key].cpu_ns if key in before else 0
        sums[used.role] = sums.get(used.role, 0) + used.cpu_ns - earlier
    return {role: ns / 1e9 for role, ns in sorted(sums.items(), key=lambda item: -item[1])}
