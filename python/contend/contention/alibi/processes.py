"""Processes, threads and programs of a table as numbers, which are compared faster than pids with start times and names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from contend.contention.alibi.grid import Array, distinct

PROCESS, THREAD, PROGRAM = "process", "thread", "program"
_PIDS = 2**22  # the kernel's most


def coded(table: Mapping[str, Array]) -> dict[str, Array]:
    """Number the processes, threads and programs of the rows of "busy": three integer columns, equal numbers for equal
    ones.

    Processes are in the order in which they were started, programs in that of their names.
    """
    # A pid may be used again: a process is its start in ms, and its pid.
    process = distinct((table["start_ns"] // 1_000_000) * _PIDS + table["pid"].astype(np.int64))[1]
    thread = distinct(process * _PIDS + table["busiest_tid"].astype(np.int64))[1]
    names = table["name"].tolist()
    numbers = {name: number for number, name in enumerate(sorted(set(names), key=str))}
    program = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
    return {PROCESS: process, THREAD: thread, PROGRAM: program}
