"""A compute service: claims resources, fetches images, makes networks, talks to its hypervisor."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from oslo_concurrency import lockutils

from . import rpc
from .options import Storm

LOCK = "compute_resources"
Change = list[str]


class ConductorAPI:
    """The conductor as a compute service sees it."""

    def __init__(self, transport: Any, exchange: str, host: str) -> None:
        self._host = host
        self.client = rpc.client(transport, rpc.target(exchange, "conductor", "conductor"))

    def update(self, instance: str, changes: list[Change]) -> None:
        self.client.call({}, "instance_update", host=self._host, instance=instance, changes=changes)


class ResourceTracker:
    """The claims on this host's resources, under one lock, as nova's."""

    def __init__(self, options: Storm, conductor: ConductorAPI) -> None:
        self._options, self._conductor = options, conductor
        self._taken = 0

    def claim(self, instance: str) -> None:
        """Claim what the instance needs, and report it to the conductor."""
        changes = self._changes()
        with lockutils.lock(LOCK):
            self._account()
            if self._options.hold_across_rpc:
                self._say(instance, changes)
        if not self._options.hold_across_rpc:
            self._say(instance, changes)

    def _account(self) -> None:
        self._taken += 1
        time.sleep(self._options.claim_ms / 1e3)

    def _changes(self) -> list[Change]:
        """The claim's updates. `noops` of them repeat the one before, spread over all that there are."""
        options = self._options
        distinct = options.updates - options.noops
        changes = [["usage", str(number * distinct // options.updates)] for number in range(options.updates)]
        if options.send_noops:
            return changes
        return [
            change for number, change in enumerate(changes) if not number or changes[number - 1] != change
        ]

    def _say(self, instance: str, changes: list[Change]) -> None:
        step = self._options.coalesce
        for first in range(0, len(changes), step):
            self._conductor.update(instance, changes[first : first + step])


class Hypervisor:
    """Many short calls for each boot, one at a time: under one lock for all, or under one for each instance."""

    def __init__(self, options: Storm) -> None:
        self._options = options
        self.lock = threading.Lock()

    def define(self) -> None:
        """Make all calls that bring an instance up."""
        options = self._options
        instance_lock = threading.Lock()
        lock = self.lock if options.hypervisor_lock == "global" else instance_lock
        for _ in range(options.hypervisor_calls):
            with lock:
                self._call()
            time.sleep(options.hypervisor_gap_ms / 1e3)

    def _call(self) -> None:
        time.sleep(self._options.hypervisor_ms / 1e3)


class Compute:
    """The calls that the driver may make."""

    def __init__(self, options: Storm, conductor: ConductorAPI) -> None:
        self._conductor = conductor
        self._begin(options)

    def _begin(self, options: Storm) -> None:
        self._options = options
        self.tracker, self.hypervisor = ResourceTracker(options, self._conductor), Hypervisor(options)
        self.builders = ThreadPoolExecutor(options.builders, thread_name_prefix="builder")

    def configure(self, ctxt: dict[str, Any], options: str) -> None:
        """Set the options for storms from now on; builder threads of earlier ones end."""
        self.builders.shutdown(wait=False)
        self._begin(Storm.from_json(options))

    def ping(self, ctxt: dict[str, Any]) -> str:
        return "pong"

    def boot(self, ctxt: dict[str, Any], instance: str) -> str:
        return self.builders.submit(self.build, instance).result()

    def build(self, instance: str) -> str:
        options = self._options
        lengths = random.Random(f"{options.seed}/{instance}")
        steps = iter(range(options.progress))
        self.tracker.claim(instance)
        self._progress(instance, next(steps, None))
        self.fetch_image(options.image_ms * lengths.uniform(0.8, 1.2))
        self._progress(instance, next(steps, None))
        self.allocate_network(options.network_ms * lengths.uniform(0.8, 1.2))
        self.hypervisor.define()
        for number in steps:
            self._progress(instance, number)
        return "ACTIVE"

    def fetch_image(self, length_ms: float) -> None:
        time.sleep(length_ms / 1e3)

    def allocate_network(self, length_ms: float) -> None:
        time.sleep(length_ms / 1e3)

    def _progress(self, instance: str, number: int | None) -> None:
        if number is not None:
            self._conductor.update(instance, [["progress", str(number)]])


def main(url: str, exchange: str, options: Storm, host: str) -> int:
    transport = rpc.connect(url, exchange)
    conductor = ConductorAPI(transport, exchange, host)
    rpc.wait_for_peers()
    rpc.warm([conductor.client])
    return rpc.serve(transport, rpc.target(exchange, "compute", host), Compute(options, conductor))
