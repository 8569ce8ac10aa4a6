"""PyrateLimiter: who waited for one key's turn held the limiter's lock meanwhile, and with it all other keys."""

from __future__ import annotations

import time

from pyrate_limiter import BucketFactory, InMemoryBucket, Limiter, Rate, RateItem
from storm_of_jobs import in_threads

FIX = {
    "project": "pyrate-limiter",
    "before": ["pyrate-limiter==4.3.1"],
    "after": ["pyrate-limiter==4.4.0"],
    "link": "https://github.com/vutran1710/PyrateLimiter/pull/304",
    "did": "the limiter's lock is let go while a call waits for its turn",
    "edit": ["--unlock", "Limiter.lock"],
    "fits": "exact",
}
JOBS = 32
BUSY_EVERY = 4
TURN_MS = 40
WORK_S = 0.03


class ByName(BucketFactory):
    """A bucket for each name."""

    def __init__(self) -> None:
        self.buckets: dict[str, InMemoryBucket] = {}

    def wrap_item(self, name: str, weight: int = 1) -> RateItem:
        return RateItem(name, time.monotonic_ns() // 1_000_000, weight=weight)

    def get(self, item: RateItem) -> InMemoryBucket:
        if item.name not in self.buckets:
            self.buckets[item.name] = InMemoryBucket([Rate(1, TURN_MS)])
        return self.buckets[item.name]


def main() -> None:
    limiter = Limiter(ByName())

    def job(number: int) -> None:
        limiter.try_acquire("busy" if number % BUSY_EVERY == 0 else f"key-{number}")
        time.sleep(WORK_S)

    in_threads(job, JOBS, spacing_s=0.001)


main()
