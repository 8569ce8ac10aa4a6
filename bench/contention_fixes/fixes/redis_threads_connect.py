"""redis-py: the threads of a pool made its connections one after the other, under its lock."""

from __future__ import annotations

import socket
import time

from loopback import serve_lines
from redis import ConnectionPool, Redis
from storm_of_jobs import in_threads

FIX = {
    "project": "redis",
    "before": ["redis==3.5.1"],
    "after": ["redis==3.5.2"],
    "link": "https://github.com/redis/redis-py/blob/v4.0.0/CHANGES",
    "did": "ConnectionPool.get_connection connects after it has let go of the pool's lock",
    "edit": ["--unlock", "ConnectionPool._lock"],
    "fits": "nearest: what is not connecting is still done under the lock",
}
JOBS = 24
ANSWER_S = 0.01


def answer(_: socket.socket, line: bytes) -> bytes:
    """RESP: of an array each word is a line; a command is answered at its name."""
    word = line.upper()
    if word in (b"SELECT", b"AUTH"):
        time.sleep(ANSWER_S)
        return b"+OK\r\n"
    if word == b"GET":
        time.sleep(5 * ANSWER_S)
        return b"$1\r\n1\r\n"
    return b""


def main() -> None:
    pool = ConnectionPool(host="127.0.0.1", port=serve_lines(answer), db=1, password="of a test")
    client = Redis(connection_pool=pool)

    def job(number: int) -> None:
        for _ in range(3):
            client.get(f"key-{number}")

    in_threads(job, JOBS)
    pool.disconnect()


main()
