"""pymemcache: set_many sent a command and waited for its answer for each key."""

from __future__ import annotations

import socket

from loopback import serve_lines
from pymemcache.client.base import PooledClient
from storm_of_jobs import in_threads

FIX = {
    "project": "pymemcache",
    "before": ["pymemcache==1.4.4"],
    "after": ["pymemcache==2.0.0"],
    "link": "https://github.com/pinterest/pymemcache/pull/182",
    "did": "set_many sends the commands of all its keys at once, and reads their answers then",
    "include": ["pymemcache.client.base:Client._store_cmd"],
    "edit": ["--coalesce", "*_store_cmd=24"],
    "fits": "exact",
}
JOBS = 20
KEYS = 24
ONE_WAY_S = 0.006


def answer(peer: socket.socket, line: bytes) -> bytes:
    """A command and its value are two lines; it is the network that is slow, so what came together waits once."""
    if not line.startswith(b"set "):
        return b"STORED\r\n"
    return b""


def main() -> None:
    port = serve_lines(answer, late_s=ONE_WAY_S)
    client = PooledClient(("127.0.0.1", port), max_pool_size=JOBS, no_delay=True)

    def job(number: int) -> None:
        client.set_many({f"key-{number}-{k}": b"value" for k in range(KEYS)}, noreply=False)

    in_threads(job, JOBS)


main()
