"""The conductor: writes what compute services say to the database, by a few workers behind queues."""

from __future__ import annotations

import queue
import sqlite3
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from . import rpc
from .options import Storm

Work = tuple[Callable[..., Any], tuple[Any, ...], "queue.SimpleQueue[Any]"]


class Worker:
    """A thread and its queue, which workers may share."""

    def __init__(self, name: str, first: Callable[[], None], other: Worker | None) -> None:
        if other is None:
            self.updates: queue.Queue[Work] = queue.Queue()
        else:
            self.updates = other.updates
        threading.Thread(target=self._work, args=(first,), name=name, daemon=True).start()

    def _work(self, first: Callable[[], None]) -> None:
        first()
        while True:
            function, arguments, answer = self.updates.get()
            answer.put(function(*arguments))


class Workers:
    """A fixed number of threads; each has a queue of its own, or all share one."""

    def __init__(self, count: int, *, shared: bool, first: Callable[[], None]) -> None:
        """`first` is what each worker does before all else."""
        self._all: list[Worker] = []
        for number in range(count):
            other = self._all[0] if shared and self._all else None
            self._all.append(Worker(f"db-worker-{number}", first, other))

    def run(self, key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function by a worker and return its result. key: chooses the worker where each has its own queue."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._all[zlib.crc32(key.encode()) % len(self._all)].updates.put((function, arguments, answer))
        return answer.get()


class Database:
    """A database that takes as long as one on the network; with `sqlite` it also writes, a connection for each thread."""

    def __init__(self, options: Storm, directory: Path) -> None:
        self._options, self._path = options, directory / "instances.sqlite"
        self._here = threading.local()
        if options.database == "sqlite":
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("CREATE TABLE IF NOT EXISTS instances (uuid TEXT PRIMARY KEY, state TEXT)")

    def connect(self) -> None:
        """Open a connection for this thread."""
        if self._options.database == "sqlite":
            self._here.connection = self._connect()

    def update(self, instance: str, changes: list[list[str]]) -> int:
        """Write a change, and return how many rows there are for the instance."""
        time.sleep((self._options.update_ms + self._options.item_ms * len(changes)) / 1e3)
        if self._options.database == "sqlite":
            rows = [(instance, " ".join(change)) for change in changes]
            with self._here.connection as connection:
                connection.executemany("INSERT OR REPLACE INTO instances VALUES (?, ?)", rows)
        return 1

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)


class Conductor:
    """The calls that compute services may make."""

    def __init__(self, options: Storm, directory: Path) -> None:
        self._directory = directory
        self._begin(options)

    def _begin(self, options: Storm) -> None:
        self._options, self._database = options, Database(options, self._directory)
        self.workers = Workers(
            options.workers, shared=options.queues == "shared", first=self._database.connect
        )

    def configure(self, ctxt: dict[str, Any], options: str) -> None:
        """Set the options for storms from now on; workers of earlier ones stay idle."""
        self._begin(Storm.from_json(options))

    def ping(self, ctxt: dict[str, Any]) -> str:
        return "pong"

    def instance_update(
        self, ctxt: dict[str, Any], host: str, instance: str, changes: list[list[str]]
    ) -> Any:
        key = host if self._options.key == "host" else instance
        return self.workers.run(key, self._database.update, instance, changes)


def main(url: str, exchange: str, options: Storm) -> int:
    transport = rpc.connect(url, exchange)
    with tempfile.TemporaryDirectory(prefix="storm-lab-") as directory:
        conductor = Conductor(options, Path(directory))
        return rpc.serve(transport, rpc.target(exchange, "conductor", "conductor"), conductor)
