"""botocore: the recorder of the history called its handlers under a lock, one thread after the other."""

from __future__ import annotations

import time

import older_python  # noqa: F401 - first
from botocore.history import HistoryRecorder
from storm_of_jobs import in_threads

FIX = {
    "project": "botocore",
    "before": ["botocore==1.10.8"],
    "after": ["botocore==1.10.9"],
    "link": "https://github.com/boto/botocore/commit/f982fa5c7",
    "did": "the recorder has no lock; a handler that needs one has its own",
    "edit": ["--unlock", "HistoryRecorder._lock"],
    "fits": "exact",
}
JOBS = 24
EVENTS = 3
EMIT_S = 0.004
WORK_S = 0.01


class Remote:
    """A handler that sends what it is given to another service."""

    def emit(self, event_type: str, payload: object, source: str) -> None:
        time.sleep(EMIT_S)


def main() -> None:
    recorder = HistoryRecorder()
    recorder.enable()
    recorder.add_handler(Remote())

    def job(number: int) -> None:
        for _ in range(EVENTS):
            time.sleep(WORK_S)
            recorder.record("API_CALL", {"of": number})

    in_threads(job, JOBS)


main()
