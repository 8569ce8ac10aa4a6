"""A flood of creations and deletions beside the calls that are timed: by the same tenant, or by a second one."""

from __future__ import annotations

import threading
import time

from contend.clouds.growth.made import Refused, Tenant
from contend.clouds.http import RequestFailed

_NAMES_AT_ONCE = 5  # announced with one write to the disk
_BEGIN_S = 30.0


class Flood:
    """`workers` threads that each create an entity, wait for it, delete it, and begin anew: the population stays.

    A context: it floods inside. `created` counts; `refused` says why there was none.
    """

    def __init__(self, tenant: Tenant, workers: int) -> None:
        self._tenant, self._workers = tenant, workers
        self._over = threading.Event()
        self._begun = threading.Event()
        self._threads: list[threading.Thread] = []
        self.created = 0
        self.refused = ""
        self.began_s = self.lasted_s = 0.0

    def __enter__(self) -> Flood:
        self._threads = [
            threading.Thread(target=self._work, name=f"flood-{number}", daemon=True)
            for number in range(self._workers)
        ]
        self.began_s = time.monotonic()
        for thread in self._threads:
            thread.start()
        self._begun.wait(_BEGIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.lasted_s = time.monotonic() - self.began_s

    def _work(self) -> None:
        names: list[tuple[str, int]] = []
        try:
            while not self._over.is_set():
                names = names or self._tenant.announce(_NAMES_AT_ONCE)
                self._once(*names.pop())
        except Refused as error:
            self.refused = error.message
        except RequestFailed as error:
            self._tenant.problems[f"flood: {error.message}"[:200]] += 1
        finally:
            self._begun.set()
            self._tenant.record.removed(self._tenant.growing.kind, (name for name, _ in names))

    def _once(self, name: str, number: int) -> None:
        tenant = self._tenant
        id_ = tenant.make(name, number)
        self.created += 1
        tenant.until_ready((name,))
        self._begun.set()
        tenant.cloud.delete(tenant.growing.kind, id_)
        tenant.until_gone((name,))
