"""Threads that record at the same moment, for any CPython: `python trace_parallel.py DIRECTORY`.

Each round has a lock, a statement and a name that all threads use for the first time at once.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from contend import trace
from contend._native import trace_wrap

THREADS, ROUNDS, CALLS = 8, 60, 20


@trace.traced
def work(value: int) -> int:
    return value


def execute(_self: None, _cursor: None, _statement: str, _parameters: tuple[int, ...]) -> None:
    """As a driver's."""


def learn(statement: str) -> tuple[str, str]:
    """Name and text of a statement."""
    return statement.split(" ", maxsplit=1)[0], statement


class Shared:
    """What the threads of one round use."""

    def __init__(self, number: int) -> None:
        self.lock = trace.Lock()
        self.again = trace.RLock(name=f"again {number}")
        self.statement = f"statement{number} of many words"
        self.entered, self.count = 0, 0
        self.lists: dict[str, list[int]] = {"a": [1], "b": [2]}
        self.sets = {1, 2}


def main(directory: str) -> None:
    driver: Any = trace_wrap(execute, "", 6, learn)
    rounds = [Shared(number) for number in range(ROUNDS)]
    together = threading.Barrier(THREADS)

    def run(me: int) -> None:
        for number, shared in enumerate(rounds):
            together.wait()
            with shared.lock:
                shared.entered += 1
            with trace.span(f"span {number}", me=me):
                for call in range(CALLS):
                    work(call)
                    with shared.again, shared.again:
                        shared.count += 1
                    # Changed by others while it is looked at.
                    shared.lists[f"{me} {call}"] = [call]
                    shared.sets.add(me * CALLS + call)
                    trace.digest(shared.lists, shared.sets)
            driver(None, None, shared.statement, (me,))

    trace.start(directory)
    threads = [threading.Thread(target=run, args=(me,), name=f"worker {me}") for me in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = trace.stop()
    assert status.failure is None and status.lost == 0, status
    assert all(shared.entered == THREADS and shared.count == THREADS * CALLS for shared in rounds)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
