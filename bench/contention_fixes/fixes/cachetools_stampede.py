"""cachetools: all who missed a key called the function for it, each for itself."""

from __future__ import annotations

import threading
import time

from cachetools.func import ttl_cache
from storm_of_jobs import in_threads

FIX = {
    "project": "cachetools",
    "before": ["cachetools==5.5.2"],
    "after": ["cachetools==6.0.0"],
    "link": "https://github.com/tkem/cachetools/issues/294",
    "did": "who misses a key that another computes waits for that one's answer",
    "edit": [],
    "fits": "none fits: all calls but one in a storm are left out, and --remove leaves out all",
}
JOBS = 32
KEYS = 4
CONNECTIONS = 3
QUERY_S = 0.015
database = threading.BoundedSemaphore(CONNECTIONS)


@ttl_cache(maxsize=64, ttl=60)
def query(key: int) -> int:
    with database:
        time.sleep(QUERY_S)
    return key


def job(number: int) -> None:
    time.sleep(QUERY_S)
    for k in range(KEYS):
        assert query(k) == k


in_threads(job, JOBS)
