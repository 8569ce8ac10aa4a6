"""redis-py (asyncio): a pool's connections were made under its lock."""

from __future__ import annotations

import asyncio
import socket
import time

from loopback import serve_lines
from redis.asyncio import ConnectionPool, Redis
from storm_of_jobs import as_tasks

FIX = {
    "project": "redis",
    "before": ["redis==7.1.0"],
    "after": ["redis==7.2.0"],
    "link": "https://github.com/redis/redis-py/pull/3885",
    "did": "ConnectionPool.get_connection connects after it has let go of the pool's lock",
    "edit": ["--unlock", "ConnectionPool._lock"],
    "fits": "nearest: what is not connecting is still done under the lock",
}
JOBS = 24
ANSWER_S = 0.01


def answer(peer: socket.socket, line: bytes) -> bytes:
    """RESP: a command is an array, and its name or last argument a line; each is answered once, by its first word."""
    word = line.upper()
    if word in (b"CLIENT", b"SELECT", b"HELLO", b"AUTH"):
        time.sleep(ANSWER_S)
        return b"+OK\r\n"
    if word == b"GET":
        time.sleep(5 * ANSWER_S)
        return b"$1\r\n1\r\n"
    return b""


async def main() -> None:
    pool = ConnectionPool(host="127.0.0.1", port=serve_lines(answer), db=1)
    client = Redis(connection_pool=pool)

    async def job(number: int) -> None:
        for _ in range(3):
            await client.get(f"key-{number}")

    await as_tasks(job, JOBS)
    await pool.disconnect()


asyncio.run(main())
