"""CPU time of a cloud's services by their role, where they run on this host: read from /proc before and after a storm."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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


def role_of(command: str) -> str:
    """The role of a process by its command line; "" for none of the cloud's.

    >>> role_of("uwsgi --module nova.wsgi.osapi_compute:application"), role_of("/usr/sbin/mariadbd --port=1")
    ('API', 'database')
    """
    return next((role for role, pattern in _ROLES if pattern.search(command)), "")


@dataclass(frozen=True, slots=True)
class Used:
    role: str
    cpu_ns: int


def read(proc: Path = Path("/proc")) -> dict[tuple[int, int], Used]:
    """Each process that has a role, by pid and start, with its CPU time so far."""
    found = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            role = role_of(command)
            if not role or "contend.workloads.generators" in command:
                continue
            # proc(5): the name, field 2, may hold blanks and parentheses; utime and stime are fields 14 and 15.
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(entry.name), int(fields[19])] = Used(
            role, (int(fields[11]) + int(fields[12])) * _NS_PER_TICK
        )
    return found


def between(
    before: Mapping[tuple[int, int], Used], after: Mapping[tuple[int, int], Used]
) -> dict[str, float]:
    """CPU seconds by role, the largest first; empty where the cloud does not run on this host."""
    sums: dict[str, int] = {}
    for key, used in after.items():
        earlier = before[key].cpu_ns if key in before else 0
        sums[used.role] = sums.get(used.role, 0) + used.cpu_ns - earlier
    return {role: ns / 1e9 for role, ns in sorted(sums.items(), key=lambda item: -item[1])}
