"""Processes of this host that serve an address: by the sockets that listen there (proc(5), /proc/net/tcp)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from contend.platforms import procfs

_LISTENS = "0A"
_PORTS = {"http": 80, "redis": 6379}


def servers(url: str) -> tuple[int, ...]:
    """Pids of those that listen at this URL, without whoever descends from another of them; none for another host's, and
    where this user may not see whose a socket is.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     servers(f"http://127.0.0.1:{server.getsockname()[1]}/") == (os.getpid(),)
    True
    """
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if port is None or not parts.hostname or not _is_here(parts.hostname):
        return ()
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    pids = {pid for pid in procfs.all_pids() if sockets & set(_open(pid))} if sockets else set()
    below = set().union(*(procfs.descendants(pid) for pid in pids)) if pids else set()
    return tuple(sorted(pids - below))


def _is_here(host: str) -> bool:
    """One can listen only at one's own addresses."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(address)
    except OSError:
        return False
    return True


def _listening(port: int) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        for line in procfs.text_or_empty(Path("/proc/self/net") / name).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 (thousands of names, as text)
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue
