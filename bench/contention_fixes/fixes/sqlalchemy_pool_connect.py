"""SQLAlchemy: a pool made its connections one after the other, under the lock of its overflow."""

from __future__ import annotations

import sqlite3
import time

import older_python  # noqa: F401 - first
from sqlalchemy.pool import QueuePool
from storm_of_jobs import in_threads

FIX = {
    "project": "SQLAlchemy",
    "before": ["SQLAlchemy==0.8.3"],
    "after": ["SQLAlchemy==0.8.4"],
    "build": ["setuptools<58"],
    "link": "https://github.com/sqlalchemy/sqlalchemy/issues/2880",
    "did": "QueuePool counts its overflow under the lock and connects without it",
    "edit": ["--unlock", "*sqlalchemy/pool.py:*"],
    "fits": "nearest: what is not connecting is still done under the lock",
}
JOBS = 24
CONNECT_S = 0.015
QUERY_S = 0.04


def connect() -> sqlite3.Connection:
    time.sleep(CONNECT_S)
    return sqlite3.connect(":memory:", check_same_thread=False)


def main() -> None:
    pool = QueuePool(connect, pool_size=4, max_overflow=JOBS)

    def job(_: int) -> None:
        connection = pool.connect()
        time.sleep(QUERY_S)
        connection.close()

    in_threads(job, JOBS)


main()
