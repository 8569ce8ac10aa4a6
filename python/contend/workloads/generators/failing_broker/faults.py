"""Faults between two services, done for real and undone: a broker that dies, a node that is cut off, a service
that stops taking, or takes less than comes.

Everything is of the run's own: broker nodes that it started, a service process that it started. Nothing of the host is
changed, so nothing is left when these processes have ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from contend.errors import BadInput, HostFailed
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc.processes import Process

NAMES = ("none", "kill", "partition", "stop", "slow")
ABOUT = {
    "none": "nothing happens",
    "kill": "a broker node is killed (SIGKILL), and started again after the stated time",
    "partition": "a node of the cluster cannot speak with the others for the stated time",
    "stop": "the service takes nothing for the stated time (SIGSTOP)",
    "slow": "the service takes half of what comes for the stated time",
}
# What the service takes of the calls that come while it is slow.
SLOW_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The target of a fault: the broker, which of its nodes, the service, and the calls a second that come."""

    up: bed.Bed | None
    node: int
    service: Process
    rate: float


Span = tuple[int, int]
# What brings a fault about, and what undoes it, which may know better when it began.
Ways = tuple[Callable[[], None], Callable[[], Span | None]]


def suffer(name: str, target: FaultTarget, seconds: float, after_s: float = 0.0) -> tuple[Span, Span]:
    """Wait, cause the fault, let it last, and undo it, whatever happens meanwhile.

    Returns when it began and when it was undone, CLOCK_MONOTONIC: each a time before and one after. Raises BadInput for a
    fault that this broker cannot have, HostFailed.
    """
    begin, undo = _ways(name, target)
    time.sleep(after_s)
    began = begun = time.monotonic_ns()
    known: Span | None = None
    try:
        begin()
        begun = time.monotonic_ns()
        time.sleep(seconds)
    finally:
        undoing = time.monotonic_ns()
        known = undo()
    return known or (began, begun), (undoing, time.monotonic_ns())


def check(name: str, up: bed.Bed | None) -> None:
    """Check that this broker can have the fault. Raises BadInput."""
    if name in ("kill", "partition") and up is None:
        raise BadInput(
            f"'fault: {name}' is done to brokers of the run's own only", hint="broker: one, cluster or quorum"
        )
    if name == "partition" and up is not None and len(up.ports) < 3:
        raise BadInput("one node alone cannot be cut off from others", hint="broker: quorum")


def _ways(name: str, target: FaultTarget) -> Ways:
    check(name, target.up)
    up, number, service = target.up, target.node, target.service

    def signalled(what: int) -> None:
        os.kill(service.pid, what)

    def takes(seconds: float) -> None:
        service.ask(f"work {seconds}", 30.0)

    def join() -> Span:
        assert up is not None
        times = bed.join(up, number)
        if times is None:
            raise HostFailed("the node was not cut off", hint=f"logs are in {up.directory}/node-*/log")
        ahead_ns = time.time_ns() - time.monotonic_ns()
        return times[0] - ahead_ns, times[1] - ahead_ns

    if name == "stop":
        return lambda: signalled(signal.SIGSTOP), lambda: signalled(signal.SIGCONT)
    if name == "slow":
        return lambda: takes(1 / (SLOW_SHARE * target.rate)), lambda: takes(0.0)
    if name == "none" or up is None:
        return lambda: None, lambda: None
    if name == "kill":
        return lambda: bed.kill(up, number), lambda: bed.restart(up, number)
    return lambda: bed.cut_off(up, number), join
