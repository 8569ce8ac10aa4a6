"""concurrent-log-handler: each record opened and closed the log and its lock file, under the handler's lock."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from concurrent_log_handler import ConcurrentRotatingFileHandler
from storm_of_jobs import in_threads

FIX = {
    "project": "concurrent-log-handler",
    "before": ["concurrent-log-handler==0.9.25"],
    "after": ["concurrent-log-handler==0.9.26"],
    "link": "https://github.com/Preston-Landers/concurrent-log-handler/blob/master/CHANGELOG.md",
    "did": "the log and its lock file stay open between records",
    "edit": [],
    "fits": "none fits: what is done under the handler's lock takes less, and only a measurement says how much",
}
JOBS = 20
RECORDS = 20
WORK_S = 0.002


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        handler = ConcurrentRotatingFileHandler(str(Path(directory) / "log"), maxBytes=10_000_000)
        log = logging.getLogger("storm")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False

        def job(number: int) -> None:
            for k in range(RECORDS):
                time.sleep(WORK_S)
                log.info("%s of %s", k, number)

        in_threads(job, JOBS)


main()
