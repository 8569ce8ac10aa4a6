"""A pass: a population grown in steps and taken down again, with a visit at every step on both ways."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contend.clouds.growth.calls import LIST, PAGE_OF, Caller, Meter, Sampled
from contend.clouds.growth.flood import Flood
from contend.clouds.growth.kinds import GROWING, can_ask, make_base, remove_base, remove_grown
from contend.clouds.growth.made import Refused, Tenant
from contend.clouds.growth.neighbour import Neighbour
from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import Cloud, Record

QUIET, MIXED, NEIGHBOUR = "quiet", "mixed", "neighbour"
_WARM_UP = 2  # rounds thrown away before the first visit


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """The shape of a growth.

    kind: of GROWING. Grows in steps of `step` up to `upto`, or until half of `within_s` is spent. modes: what goes on
    beside the calls; flood: threads of that. server: what each server is to be."""

    kind: str
    upto: int
    step: int = 30
    rounds: int = 7
    workers: int = 4
    modes: tuple[str, ...] = (QUIET,)
    flood: int = 2
    within_s: float = 120.0
    seed: int = 0
    server: Mapping[str, Any] = field(default_factory=dict)

    @property
    def page(self) -> int:
        """Entities of a page of a listing, and the first population: so a page is a whole one from the first."""
        return min(PAGE_OF, self.step, self.upto)


@dataclass
class Visited:
    """One population under one mode. up: on the way up; began_s, ended_s: since the pass began; flooded: creations a
    second beside it."""

    mode: str
    up: bool
    made: int
    began_s: float
    ended_s: float
    calls: dict[str, Sampled]
    flooded: float = 0.0

    @property
    def population(self) -> int:
        """All that a listing shows, whoever made them; ours where it failed."""
        listed = self.calls.get(LIST)
        return listed.entities if listed is not None and listed.entities else self.made


@dataclass
class Happened:
    """left_out: why there is nothing; modes_left_out: by mode; stopped: why it grew no further; left: what could not be
    removed, and why; fill_s: seconds for each creation of a step, by its own population."""

    options: GrowthOptions
    left_out: str = ""
    modes_left_out: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    visits: list[Visited] = field(default_factory=list)
    fill_s: list[tuple[int, float]] = field(default_factory=list)
    reached: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def grow(
    api: Api,
    record: Record,
    prefix: str,
    options: GrowthOptions,
    *,
    neighbour: Callable[[], Neighbour] | None = None,
    meter: Meter | None = None,
) -> Happened:
    """Run one pass. `prefix`: how the names of its entities begin, unlike any other's; neighbour: logs a second tenant
    in.

    Whatever happens, what it made is removed as far as it can be. Raises HostFailed.
    """
    happened = Happened(options)
    growing = GROWING[options.kind]
    happened.left_out = can_ask(api, growing)
    if happened.left_out:
        return happened
    cloud = Cloud(api, record.run)
    tenant: Tenant | None = None
    try:
        try:
            base = make_base(cloud, record, prefix, growing, options.server)
            tenant = Tenant(cloud, record, prefix, growing, base, within_s=max(60.0, options.within_s))
            first = tenant.fill(options.page, options.workers)
        except RequestFailed as error:
            if error.unknown:
                raise
            happened.left_out = error.message.partition(": ")[2] or error.message
            return happened
        _Pass(tenant, options, happened, first, meter).run(neighbour)
    finally:
        if tenant is not None:
            happened.left |= remove_grown(cloud, record, prefix, growing)
            happened.problems.update(tenant.problems)
        happened.left |= remove_base(cloud, record, prefix, growing)
        happened.counts = dict(api.counts)
    return happened


class _Pass:
    def __init__(
        self,
        tenant: Tenant,
        options: GrowthOptions,
        happened: Happened,
        first: dict[str, str],
        meter: Meter | None,
    ) -> None:
        self._tenant, self._options, self._happened = tenant, options, happened
        self._chance = random.Random(options.seed)
        self._caller = Caller(tenant, self._chance, first, options.page, meter)
        self._steps: list[dict[str, str]] = []
        self._began = time.monotonic()
        self._others: dict[str, Tenant] = {}

    def run(self, neighbour: Callable[[], Neighbour] | None) -> None:
        second = self._second(neighbour)
        try:
            self._caller.rounds(_WARM_UP)
            self._up()
            self._down()
        finally:
            if second is not None:
                self._happened.left |= second.close()
            self._happened.problems.update(self._caller.disturbed)

    def _second(self, neighbour: Callable[[], Neighbour] | None) -> Neighbour | None:
        """The tenants that flood, by mode."""
        if MIXED in self._options.modes:
            self._others[MIXED] = self._tenant
        if NEIGHBOUR not in self._options.modes or neighbour is None:
            return None
        try:
            second = neighbour()
        except RequestFailed as error:
            self._happened.modes_left_out[NEIGHBOUR] = error.message
            return None
        try:
            self._others[NEIGHBOUR] = second.tenant(self._tenant.growing)
        except RequestFailed as error:
            self._happened.modes_left_out[NEIGHBOUR] = error.message
        return second

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._began

    def _up(self) -> None:
        options, happened = self._options, self._happened
        self._visit(up=True)
        step_s = 0.0
        while len(self._caller.ids) < options.upto:
            # As much time again is for the way down.
            if self._spent_s + step_s > options.within_s / 2 and len(self._steps) >= 2:
                happened.stopped = f"half of {options.within_s:g} s was spent"
                break
            began = time.monotonic()
            wanted = min(options.step, options.upto - len(self._caller.ids))
            try:
                ids = self._tenant.fill(wanted, options.workers)
            except Refused as error:
                happened.stopped = error.message.partition(": ")[2] or error.message
                break
            happened.fill_s.append((len(self._caller.ids), (time.monotonic() - began) / len(ids)))
            self._caller.ids.update(ids)
            self._steps.append(ids)
            self._visit(up=True)
            step_s = time.monotonic() - began
            if len(ids) < wanted:
                happened.stopped = next(reversed(self._tenant.problems))
                break
        else:
            happened.stopped = "as many as asked"
        happened.reached = len(self._caller.ids)

    def _down(self) -> None:
        self._visit(up=False)
        for ids in reversed(self._steps):
            for name in ids:
                del self._caller.ids[name]
            self._tenant.take_down(ids, self._options.workers)
            self._visit(up=False)

    def _visit(self, *, up: bool) -> None:
        modes = [m for m in self._options.modes if m == QUIET or m in self._others]
        self._chance.shuffle(modes)
        for mode in modes:
            began_s = self._spent_s
            flooded = 0.0
            if mode == QUIET:
                calls = self._caller.rounds(self._options.rounds)
            else:
                with Flood(self._others[mode], self._options.flood) as flood:
                    calls = {} if flood.refused else self._caller.rounds(self._options.rounds, counting=False)
                flooded = flood.created / flood.lasted_s
                if flood.refused or not flood.created:
                    self._happened.modes_left_out[mode] = flood.refused or "nothing could be created"
                    del self._others[mode]
                    continue
            made = len(self._caller.ids)
            self._happened.visits.append(Visited(mode, up, made, began_s, self._spent_s, calls, flooded))
