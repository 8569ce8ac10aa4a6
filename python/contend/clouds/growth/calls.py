"""The calls of one visit, timed one after the other in random order: the same ones again for every round."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from contend.clouds.growth.kinds import Growing
from contend.clouds.growth.made import Tenant
from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import PAGE, next_page

LIST, PAGED, SHOW, CREATE, DELETE, CONTROL = "list", "page", "show", "create", "delete", "control"
"""What is measured of each kind; the control is none of its calls."""
PAGE_OF = 20  # entities of the page that is asked for, at most

T = TypeVar("T")


class Meter(Protocol):
    """A reading of the cloud's own counters, by what they count: SQL statements, RPC … Reading sends no call."""

    def read(self) -> Mapping[str, int]: ...


@dataclass
class Sampled:
    """One call in one visit: seconds, what the counters gained, and how large the answer was."""

    took_s: list[float] = field(default_factory=list)
    counted: dict[str, list[int]] = field(default_factory=dict)
    entities: int = 0
    size_bytes: int = 0


@dataclass
class Caller:
    """Makes the calls of one kind for one tenant. ids: of the entities that stay, by name, to be shown; page: how many
    are asked for where not all are."""

    tenant: Tenant
    chance: random.Random
    ids: dict[str, str]
    page: int = PAGE_OF
    meter: Meter | None = None
    disturbed: Counter[str] = field(default_factory=Counter)

    def rounds(self, count: int, *, counting: bool = True) -> dict[str, Sampled]:
        """Make `count` rounds of all calls. A call that fails, or was sent more than once, is counted and not timed."""
        samples: dict[str, Sampled] = {}
        for _ in range(count):
            probe: list[tuple[str, int]] = []
            id_ = ""
            for call in self._order():
                if call in (CREATE, DELETE):
                    if call == CREATE:
                        probe = self.tenant.announce(1)
                        id_ = self._create(samples, probe[0], counting) or ""
                    elif id_:
                        self._delete(samples, probe[0][0], id_, counting)
                    continue
                self._read(samples, call, counting)
        return samples

    def _order(self) -> list[str]:
        """All calls in random order, but for the deletion, which comes some time after the creation."""
        calls = [LIST, SHOW, CREATE, CONTROL] + ([PAGED] if self.tenant.growing.paged else [])
        self.chance.shuffle(calls)
        calls.insert(self.chance.randint(calls.index(CREATE) + 1, len(calls)), DELETE)
        return calls

    def _create(self, samples: dict[str, Sampled], probe: tuple[str, int], counting: bool) -> str | None:
        id_ = self._timed(samples, CREATE, lambda: self.tenant.make(*probe), counting)
        if id_ is not None:
            self.tenant.made({probe[0]: id_})
            self.tenant.until_ready((probe[0],))
        return id_

    def _delete(self, samples: dict[str, Sampled], name: str, id_: str, counting: bool) -> None:
        tenant = self.tenant
        self._timed(samples, DELETE, lambda: tenant.cloud.delete(tenant.growing.kind, id_), counting)
        tenant.until_gone((name,))

    def _read(self, samples: dict[str, Sampled], call: str, counting: bool) -> None:
        api, growing = self.tenant.cloud.api, self.tenant.growing
        if call == LIST:
            size = self._timed(samples, call, lambda: listing(api, growing), counting)
        elif call == PAGED:
            size = self._timed(samples, call, lambda: one_page(api, growing, self.page), counting)
        else:
            path = growing.control
            if call == SHOW:
                path = f"{growing.kind.path}/{self.chance.choice(list(self.ids.values()))}"
            size = self._timed(samples, call, lambda: single(api, growing, path), counting)
        if size is not None:
            samples[call].entities, samples[call].size_bytes = size

    def _timed(
        self, samples: dict[str, Sampled], call: str, make: Callable[[], T], counting: bool
    ) -> T | None:
        api = self.tenant.cloud.api
        wrong = _wrong(api)
        before = self.meter.read() if self.meter is not None and counting else {}
        began_ns = time.monotonic_ns()
        try:
            answer = make()
        except RequestFailed as error:
            self.disturbed[f"{call}: {error.message.partition(': ')[2]}"[:200]] += 1
            return None
        took_ns = time.monotonic_ns() - began_ns
        if _wrong(api) != wrong:
            self.disturbed[f"{call}: sent more than once"] += 1
            samples.setdefault(call, Sampled())
            return answer
        sampled = samples.setdefault(call, Sampled())
        sampled.took_s.append(took_ns / 1e9)
        if self.meter is not None and counting:
            after = self.meter.read()
            for what, count in after.items():
                sampled.counted.setdefault(what, []).append(count - before.get(what, 0))
        return answer


def _wrong(api: Api) -> int:
    return sum(count for what, count in api.counts.items() if what != "requests")


def listing(api: Api, growing: Growing) -> tuple[int, int]:
    """List everything, as a client does that wants all, page by page: number of entities, and bytes."""
    kind = growing.kind
    path = kind.list_path or kind.path
    following = f"{path}?limit={PAGE}" if growing.paged else path
    entities = size = 0
    while following:
        answer = api.request("GET", kind.service, following, version=kind.version)
        page = answer.json()
        entities, size = entities + len(page[kind.many]), size + len(answer.body)
        following = next_page(page, kind, path)
    return entities, size


def one_page(api: Api, growing: Growing, limit: int) -> tuple[int, int]:
    """List one page, however many there are: number of entities, and bytes."""
    kind = growing.kind
    path = f"{kind.list_path or kind.path}?limit={limit}"
    answer = api.request("GET", kind.service, path, version=kind.version)
    return len(answer.json()[kind.many]), len(answer.body)


def single(api: Api, growing: Growing, path: str) -> tuple[int, int]:
    """Request one entity, or the control: 1, and bytes."""
    answer = api.request("GET", growing.kind.service, path, version=growing.kind.version)
    return 1, len(answer.body)
