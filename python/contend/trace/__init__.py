"""See a service's functions, locks, queues and calls, at tens of nanoseconds an event.

Needs nothing but the standard library and contend's native module, so that it can live in any service:

    from contend import trace

    @trace.traced
    def build(instance): ...

    lock = trace.Lock()                       # in the place of threading.Lock: who waits, for whom, how long
    trace.start("traces")                     # one file a process, `traces/PID-STARTNS.ctrace`
    with trace.span("claim", host="web-17"):
        ...
    trace.stop()

Off, a traced function costs a few nanoseconds; decorate and leave it in. The files are read by `contend export`.
"""

# ruff: noqa: E402 - the check comes first
from __future__ import annotations

from contend.trace.supported import check

check()  # first: where the native module cannot be had it says why

from contend._native import TraceJob as job  # noqa: N813 - used as functions are
from contend._native import TraceSpan as span  # noqa: N813
from contend._native import trace_counter as counter
from contend._native import trace_digest as digest
from contend._native import trace_instant as instant
from contend.trace import flow
from contend.trace.calls import traced
from contend.trace.locks import BoundedSemaphore, Condition, Lock, RLock, Semaphore
from contend.trace.queues import LifoQueue, PriorityQueue, Queue
from contend.trace.recording import Status, flush, start, status, stop

__all__ = [
    "BoundedSemaphore",
    "Condition",
    "LifoQueue",
    "Lock",
    "PriorityQueue",
    "Queue",
    "RLock",
    "Semaphore",
    "Status",
    "counter",
    "digest",
    "flow",
    "flush",
    "instant",
    "job",
    "span",
    "start",
    "status",
    "stop",
    "traced",
]
