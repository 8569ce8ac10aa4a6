"""Processes of this host that serve an address: by the sockets that listen there (proc(5), /proc/net/tcp)."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from contend.errors import BadInput
from contend.platforms import procfs
from contend.text.printable import short

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LISTENS = "0A"
_PORTS = {"http": 80, "redis": 6379}


def parse(url: str) -> SplitResult:
    """Take a URL apart. Raises BadInput for what is none, a port out of range too."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looks at it only when it is read
    except ValueError as error:
        raise BadInput(f"'{short(url)}' is no URL: {error}", hint="like http://127.0.0.1:8080/") from error
    return parts


def servers(url: str) -> tuple[int, ...]:
    """Pids of those that listen at this URL, without whoever descends from another of them; none for another host's, and
    where this user may not see whose a socket is. Raises BadInput for what is no URL.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     servers(f"http://127.0.0.1:{server.getsockname()[1]}/") == (os.getpid(),)
    True
    """
    parts = parse(url)
    port = parts.port or _PORTS.get(parts.scheme)
    address = _own_address(parts.hostname) if parts.hostname else None
    if port is None or address is None:
        return ()
    listening = list(_listening(port))
    # Who listens at this address alone comes before who listens at all of them.
    chosen = [inode for at, inode in listening if at == address] or [
        inode for at, inode in listening if at.is_unspecified
    ]
    sockets = {f"socket:[{inode}]" for inode in chosen}
    pids = {pid for pid in procfs.all_pids() if sockets & set(_open(pid))} if sockets else set()
    below = set().union(*(procfs.descendants(pid) for pid in pids)) if pids else set()
    return tuple(sorted(pids - below))


def _own_address(host: str) -> Address | None:
    """The address that a host's name stands for; None where it is another host's: one can listen only at one's own."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(address)
    except OSError:
        return None
    return ipaddress.ip_address(str(address[0]).partition("%")[0])


def _decoded(text: str) -> Address:
    """An address as /proc/net has it: words of four bytes, each in the host's order.

    >>> _decoded("0100007F"), _decoded("00000000000000000000000001000000")
    (IPv4Address('127.0.0.1'), IPv6Address('::1'))
    """
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return getattr(address, "ipv4_mapped", None) or address


def _listening(port: int) -> Iterator[tuple[Address, str]]:
    for name in ("tcp", "tcp6"):
        for line in procfs.text_or_empty(Path("/proc/self/net") / name).splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].rpartition(":")
            if fields[3] == _LISTENS and int(number, 16) == port:
                yield _decoded(address), fields[9]


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
