"""Names of hosts: as a user gives them, checked, and as files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from contend.errors import BadInput
from contend.files import text_named
from contend.text.printable import short

MOST_BYTES = 1 << 20  # of a file of hosts

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,252}")


def check_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Check names of hosts, none of them twice. Raises BadInput.

    >>> check_hosts(["a", "root@b.example"])
    ('a', 'root@b.example')
    """
    checked = tuple(hosts)
    for host in checked:
        if not _HOST.fullmatch(host):
            raise BadInput(
                f"'{short(host)}' is no name of a host",
                hint="like db1, root@10.0.0.7: a port goes into ~/.ssh/config",
            )
    if double := [host for host, count in Counter(checked).items() if count > 1]:
        raise BadInput(f"the host '{min(double)}' is named twice", hint="each host runs the scenario once")
    return checked


def of_file(path: Path) -> tuple[str, ...]:
    """Read hosts from a file: one a line, blank lines and what follows a # left out. Raises BadInput."""
    lines = text_named(path, most=MOST_BYTES, hint="one host a line").splitlines()
    hosts = [text for line in lines if (text := line.partition("#")[0].strip())]
    if not hosts:
        raise BadInput(f"{path} names no host", hint="one host a line")
    return tuple(hosts)


def file_name(host: str) -> str:
    """Name of the host's file in a fleet's folder.

    >>> file_name("root@b:1")
    'root@b:1.json'
    """
    return f"{host}.json"
