"""A tenant's entities of one kind: made and taken away by the step, each announced in the ledger before its request."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from contend.clouds.growth.kinds import Base, Growing, states
from contend.clouds.http import RequestFailed
from contend.clouds.openstack import Cloud, Record

_POLL_S = 0.2
_FIRST_POLL_S = 0.05


class Refused(RequestFailed):
    """The cloud will not make another: a quota, or a right that this user lacks."""


@dataclass
class Tenant:
    """Owner of a pass's entities: a login, a ledger, a prefix that no other's names have, and what the entities stand
    on."""

    cloud: Cloud
    record: Record
    prefix: str
    growing: Growing
    base: Base
    within_s: float = 300.0  # that one may take to be there, or gone
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    problems: Counter[str] = field(default_factory=Counter)

    def announce(self, count: int) -> list[tuple[str, int]]:
        """Write new names and numbers to the ledger; they are on the disk when this returns."""
        made = [
            (f"{self.prefix}-{number}", number) for _, number in zip(range(count), self.numbers, strict=False)
        ]
        self.record.intend(self.growing.kind, (name for name, _ in made))
        return made

    def make(self, name: str, number: int) -> str:
        """Request an entity and return its id when that was answered. Raises Refused, RequestFailed."""
        kind = self.growing.kind
        try:
            return str(self.cloud.post(kind, name, self.base.wanted(kind.name, number))["id"])
        except RequestFailed as error:
            if error.unknown:
                raise
            self.record.removed(kind, (name,))
            raise Refused(error.message, status=error.status, hint=error.hint) from error

    def made(self, ids: dict[str, str]) -> None:
        """Note in the ledger that these were made."""
        if ids:
            self.record.created(self.growing.kind, ids)

    def until_ready(self, names: Sequence[str]) -> None:
        """Wait until all are there as they should be. Raises RequestFailed where one fails, or takes too long."""
        ready = self.growing.ready
        if not ready or not names:
            return
        waiting = set(names)

        def settled() -> bool:
            seen = self._seen(names)
            for name in list(waiting):
                state = seen.get(name, ("", ""))[1]
                if state.lower() == "error":
                    raise RequestFailed(f"{self.growing.kind.name} {name} is in ERROR", status=0)
                if state == ready:
                    waiting.discard(name)
            return not waiting

        self._wait(settled, f"not {ready}")

    def until_gone(self, names: Sequence[str]) -> None:
        """Wait until none is listed any more, and say so in the ledger. Raises RequestFailed when that takes too long."""
        if self.growing.ready:  # what is there at once is gone at once
            self._wait(lambda: not self._seen(names).keys() & set(names), "not gone")
        self.record.removed(self.growing.kind, names)

    def fill(self, count: int, workers: int) -> dict[str, str]:
        """Make `count` entities, a few at a time, and wait for them: ids by name. A refusal ends it: then they are
        fewer.

        Raises Refused where not even one was made, RequestFailed.
        """
        wanted = self.announce(count)
        refused: list[Refused] = []
        ids: dict[str, str] = {}

        def one(item: tuple[str, int]) -> None:
            name, number = item
            if refused:
                self.record.removed(self.growing.kind, (name,))
                return
            try:
                ids[name] = self.make(name, number)
            except Refused as error:
                refused.append(error)

        with ThreadPoolExecutor(workers, thread_name_prefix="fill") as pool:
            list(pool.map(one, wanted))
        self.made(ids)
        if refused:
            self.problems[refused[0].message.partition(": ")[2]] += 1
            if not ids:
                raise refused[0]
        self.until_ready(list(ids))
        return ids

    def take_down(self, ids: dict[str, str], workers: int) -> None:
        """Delete these, a few at a time, and wait until they are gone. Raises RequestFailed."""
        with ThreadPoolExecutor(workers, thread_name_prefix="remove") as pool:
            list(pool.map(lambda id_: self.cloud.delete(self.growing.kind, id_), ids.values()))
        self.until_gone(list(ids))

    def _seen(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        return states(self.cloud, self.growing, names[0] if len(names) == 1 else f"{self.prefix}-")

    def _wait(self, over: Callable[[], bool], what: str) -> None:
        deadline, pause = time.monotonic() + self.within_s, _FIRST_POLL_S
        while not over():
            if time.monotonic() > deadline:
                kind = self.growing.kind.name
                raise RequestFailed(f"a {kind} is {what} within {self.within_s:g} s", status=0)
            time.sleep(pause)
            pause = min(2 * pause, _POLL_S)
