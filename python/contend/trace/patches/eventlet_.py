"""eventlet: locks, semaphores, queues and events of greenlets, and what goes to native threads by tpool."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_on, trace_track
from contend.trace import flow
from contend.trace.patches.waiting import (
    CONDITION,
    LOCK,
    SEMAPHORE,
    counted,
    held_by,
    made,
    method,
    name_of,
    passing,
    queue_waits,
    releases,
    waits_of,
    within,
)

# Parts of something else, by the function that makes them: their own uses say nothing.
_PARTS = {
    ("threading.py", "Condition.wait"),  # one for each wait
    ("threading.py", "Thread._set_tstate_lock"),
    ("locks.py", "Semaphore.__init__"),  # of ours; the lock of a Condition is its own
    ("locks.py", "unrecorded_condition"),
}

_WITHIN = ("/threading.py", "/eventlet/", "/gevent/", "/contend/trace/")


def patch_semaphores(module: ModuleType) -> None:
    made(module.Semaphore, _waits)
    record(module.Semaphore, lambda self: self.counter > 0 and not self._waiters)


def patch_locks(module: ModuleType) -> None:
    # As its own: not by way of Semaphore.release.
    method(module.Lock, "release")(releases)


def patch_sleep(module: ModuleType) -> None:
    """A module's `sleep` lets other greenlets run: time that a greenlet asks for, apart from what it waits for."""
    original = module.sleep

    @functools.wraps(original)
    def sleep(seconds: float = 0, *args: Any, **options: Any) -> Any:
        if not seconds or not trace_on():
            return original(seconds, *args, **options)
        with Span("sleep", kind="sleep", asked_ns=int(seconds * 1e9)):
            return original(seconds, *args, **options)

    module.sleep = sleep  # type: ignore[attr-defined]
    package = sys.modules.get(module.__name__.partition(".")[0])
    if getattr(package, "sleep", None) is original:
        package.sleep = sleep  # type: ignore[union-attr]


def _waits(semaphore: Any) -> Waits | None:
    if is_part():
        return None
    is_lock = any(base.__name__ == "Lock" for base in type(semaphore).__mro__)
    return Waits(LOCK if is_lock else SEMAPHORE, shared=semaphore.counter > 1)


def is_part() -> bool:
    """True if what is being made now is nobody's lock but a part of a condition, a thread or a semaphore."""
    frame = sys._getframe(1)
    while True:
        code = frame.f_code
        file = code.co_filename
        if (file.rpartition("/")[2], code.co_qualname) in _PARTS or file.startswith("<frozen importlib"):
            return True
        if frame.f_back is None or not any(part in file for part in _WITHIN):
            return False
        frame = frame.f_back


def record(owner: Any, free: Callable[[Any], bool]) -> None:
    """Have acquire and release of that class on record; `free` says that it would not wait."""

    @method(owner, "acquire")
    def _acquire(original: Callable[..., Any]) -> Callable[..., Any]:
        def acquire(self: Any, blocking: bool = True, timeout: float | None = None) -> Any:
            waits = waits_of(self)
            if waits is None:
                return original(self, blocking, timeout)
            token = 0 if free(self) else waits.wait()
            taken = False
            try:
                taken = original(self, blocking, timeout)
            finally:
                if taken:
                    waits.acquired(token, within(blocking, timeout))
                else:
                    waits.gave_up(token)
            return taken

        return acquire

    method(owner, "release")(releases)


def patch_queues(module: ModuleType) -> None:
    queue = module.LightQueue
    made(queue, queue_waits)
    passing(queue, "get", lambda self, block=True, timeout=None: block and not self.qsize())
    passing(queue, "put", lambda self, item, block=True, timeout=None: block and self.full())
    for name, event in (("get", "got"), ("put", "put")):
        method(queue, name)(functools.partial(counted, event))


def patch_events(module: ModuleType) -> None:
    made(module.Event, lambda _event: Waits(CONDITION))
    passing(module.Event, "wait", lambda self, timeout=None: not self.ready())


def patch_greenthreads(module: ModuleType) -> None:
    @method(module.GreenThread, "main")
    def _main(original: Callable[..., Any]) -> Callable[..., Any]:
        def main(self: Any, /, *args: Any, **options: Any) -> Any:
            # Who waits for its result waits for it.
            held_by(self._exit_event, trace_track() if trace_on() else 0)
            return original(self, *args, **options)

        return main


def patch_tpool(module: ModuleType) -> None:
    @method(module, "execute")
    def _execute(original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(meth: Any, *args: Any, **options: Any) -> Any:
            if not trace_on():
                return original(meth, *args, **options)
            name = name_of(meth)
            with Span(f"tpool {name}"):
                number = flow.sent("tpool")
                return original(_In(meth, name, number), *args, **options)

        return execute


class _In:
    """Runs in a native thread."""

    def __init__(self, function: Callable[..., Any], name: str, number: int) -> None:
        self._function, self._name, self._number = function, name, number

    def __call__(self, /, *args: Any, **options: Any) -> Any:
        with Span(self._name, kind="submitted"):
            flow.received("tpool", self._number)
            return self._function(*args, **options)
