"""peewee: who waited for a connection of a full pool slept for 0.1 s at a time."""

from __future__ import annotations

import socket
import time

from loopback import connect_lines, serve_lines
from peewee import SqliteDatabase
from playhouse.pool import PooledDatabase
from storm_of_jobs import in_threads

FIX = {
    "project": "peewee",
    "before": ["peewee==4.0.1"],
    "after": ["peewee==4.0.2"],
    "link": "https://github.com/coleifer/peewee/commit/1da73d8a",
    "did": "PooledDatabase.connect waits for a condition that a returned connection notifies",
    "edit": [],
    "fits": "none fits: a poll was replaced by an event",
}
JOBS = 32
QUERY_S = 0.02


class Pool(PooledDatabase, SqliteDatabase):
    """What a job asks of its database goes to the loopback server instead."""


def answer(_: socket.socket, line: bytes) -> bytes:
    time.sleep(QUERY_S)
    return line + b"\n"


def main() -> None:
    port = serve_lines(answer)
    pool = Pool(":memory:", max_connections=4, timeout=30, check_same_thread=False)

    def job(number: int) -> None:
        with connect_lines(port) as ask:
            for _ in range(2):
                with pool.connection_context():
                    pool.execute_sql("select 1")
                    ask(b"query")

    in_threads(job, JOBS)


main()
