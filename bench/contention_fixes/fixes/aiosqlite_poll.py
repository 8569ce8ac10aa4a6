"""aiosqlite: who waited for a result of the connection's thread slept for 5 ms at a time."""

from __future__ import annotations

import asyncio
import sqlite3
import time

import aiosqlite
from storm_of_jobs import as_tasks

FIX = {
    "project": "aiosqlite",
    "before": ["aiosqlite==0.7.0"],
    "after": ["aiosqlite==0.8.0"],
    "link": "https://github.com/omnilib/aiosqlite/commit/72fd3db",
    "did": "a call awaits a future that the connection's thread fulfils",
    "edit": [],
    "fits": "none fits: a poll was replaced by an event",
}
JOBS = 20
STATEMENTS = 6
STATEMENT_S = 0.001


class Slow(sqlite3.Connection):
    """A database on a disk: a statement waits, without the interpreter's lock."""

    def execute(self, *words: object) -> sqlite3.Cursor:
        time.sleep(STATEMENT_S)
        return super().execute(*words)


class LockOfLoop(asyncio.Lock):
    """Takes a loop, as until Python 3.9."""

    def __init__(self, *, loop: object = None) -> None:
        super().__init__()


async def main() -> None:
    asyncio.Lock = LockOfLoop  # type: ignore[misc]
    async with aiosqlite.connect(":memory:", factory=Slow) as db:

        async def job(number: int) -> None:
            for _ in range(STATEMENTS):
                async with db.execute("select ?", (number,)) as cursor:
                    await cursor.fetchone()

        await as_tasks(job, JOBS)


asyncio.run(main())
