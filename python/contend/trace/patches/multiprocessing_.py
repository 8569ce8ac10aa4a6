"""multiprocessing: its locks, held here or in another process, its queues, and processes begun and waited for.

Nothing that is pickled changes: a child may run without us. A lock is known in all processes by the name of its
semaphore, or, where it goes to children by fork alone, by a number that it carries.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import Waits, trace_on
from contend.trace import flow
from contend.trace.patches.waiting import (
    ATTRIBUTE,
    CONDITION,
    LOCK,
    QUEUE,
    REENTRANT,
    SEMAPHORE,
    made,
    method,
    name_of,
    passing,
    waits_of,
)

KEY = "_contend_key"
"""Attribute of a lock: its number in all processes."""


def patch_synchronize(module: ModuleType) -> None:
    recursive = module.RECURSIVE_MUTEX

    @method(module.SemLock, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, kind: int, value: int, maxvalue: int, *, ctx: Any) -> None:  # noqa: N807
            original(self, kind, value, maxvalue, ctx=ctx)
            name = self._semlock.name
            setattr(self, KEY, key_of(name) if name else int.from_bytes(os.urandom(8), "little") | 1)
            what = REENTRANT if kind == recursive else LOCK if maxvalue == 1 else SEMAPHORE
            self._contend_waits = Waits(what, shared=value > 1, across=getattr(self, KEY))
            _record(self)

        return __init__

    @method(module.SemLock, "__setstate__")
    def _rebuild(original: Callable[..., None]) -> Callable[..., None]:
        def __setstate__(self: Any, state: Any) -> None:  # noqa: N807
            original(self, state)
            _handle, kind, maxvalue, name = state
            if name:
                setattr(self, KEY, key_of(name))
                what = REENTRANT if kind == recursive else LOCK if maxvalue == 1 else SEMAPHORE
                # What it is called, the process says that made it.
                self._contend_waits = Waits(
                    what, shared=maxvalue > 1, located=False, across=getattr(self, KEY)
                )
                _record(self)

        return __setstate__

    # The lock is entered by its own methods, which are the recorded ones.
    module.SemLock.__enter__, module.SemLock.__exit__ = _enter, _exit
    _conditions(module)


def _conditions(module: ModuleType) -> None:
    condition = module.Condition

    def quiet(self: Any) -> Waits:
        for inner in (self._sleeping_count, self._woken_count, self._wait_semaphore):
            _forget(inner)
        # The lock may be shared with others, the semaphore it sleeps on is its own.
        return Waits(CONDITION, across=getattr(self._wait_semaphore, KEY, 0))

    made(condition, quiet)

    @method(condition, "__setstate__")
    def _rebuild(original: Callable[..., None]) -> Callable[..., None]:
        def __setstate__(self: Any, state: Any) -> None:  # noqa: N807
            original(self, state)
            for inner in (self._sleeping_count, self._woken_count, self._wait_semaphore):
                _forget(inner)
            key = getattr(self._wait_semaphore, KEY, 0)
            self._contend_waits = Waits(CONDITION, located=False, across=key)

        return __setstate__

    @method(condition, "wait")
    def _wait(original: Callable[..., bool]) -> Callable[..., bool]:
        def wait(self: Any, timeout: float | None = None) -> bool:
            waits = waits_of(self)
            if waits is None:
                return original(self, timeout)
            token, notified = waits.wait(), False
            try:
                notified = original(self, timeout)
            finally:
                if notified:
                    waits.passed(token)
                else:
                    waits.gave_up(token)
            return bool(notified)

        return wait

    # Events have no lock of their own to speak of: who waits, waits for the event.
    @method(module.Event, "__init__")
    def _event(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, *, ctx: Any) -> None:  # noqa: N807
            original(self, ctx=ctx)
            _forget(self._flag)

        return __init__


def _enter(self: Any) -> bool:
    return bool(self.acquire())


def _exit(self: Any, *_error: object) -> None:
    self.release()


def key_of(name: str) -> int:
    """The same for the same semaphore in every process."""
    # FNV-1a (Fowler, Noll, Vo), 64 bits; 0 would be a lock of one process.
    number = 0xCBF29CE484222325
    for byte in name.encode():
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return number or 1


def _forget(lock: Any) -> None:
    """A part of something else: its own uses say nothing."""
    if getattr(lock, ATTRIBUTE, None) is not None:
        setattr(lock, ATTRIBUTE, None)
        lock._make_methods()


def _record(lock: Any) -> None:
    """Put recording methods where the lock keeps those of its semaphore. They do not hold the lock itself."""
    semlock, waits = lock._semlock, lock._contend_waits
    take, give, depth = semlock.acquire, semlock.release, semlock._count
    reentrant = semlock.kind == 0

    def took(token: int) -> None:
        if not reentrant or depth() == 1:
            waits.acquired(token)

    @functools.wraps(take)
    def acquire(block: bool = True, timeout: float | None = None) -> bool:
        if not waits.on() or not (timeout is None or isinstance(timeout, (int, float))):
            return bool(take(block, timeout))
        if take(False):
            took(0)
            return True
        if not block:
            return False
        token, taken = waits.wait(), False
        try:
            taken = bool(take(True, timeout))
        finally:
            if taken:
                took(token)
            else:
                waits.gave_up(token)
        return taken

    @functools.wraps(give)
    def release() -> None:
        if not reentrant or depth() == 1:
            waits.released()
        give()

    lock.acquire, lock.release = acquire, release


def patch_queues(module: ModuleType) -> None:
    for owner in (module.Queue, module.SimpleQueue):
        _queue(owner)
    passing(module.Queue, "get", lambda self, block=True, timeout=None: block and _nothing(self))
    passing(module.SimpleQueue, "get", _nothing)
    for owner in (module.Queue, module.JoinableQueue):
        passing(owner, "put", lambda self, obj, block=True, timeout=None: block and self.full())
        method(owner, "put")(functools.partial(_counted, "put"))
    method(module.Queue, "get")(functools.partial(_counted, "got"))


def _nothing(self: Any) -> bool:
    """Closed ones refuse by themselves."""
    return not self._reader.closed and self.empty()


def _queue(owner: Any) -> None:
    def waits(self: Any, located: bool = True) -> Waits:
        # Whoever is about to get holds the readers' lock while it waits for an item: no contention.
        for name in ("_rlock", "_sem"):
            if hasattr(self, name):
                _forget(getattr(self, name))
        across = getattr(self._rlock, KEY, 1) ^ 1  # not the number of its lock
        return Waits(QUEUE, located=located, across=across)

    made(owner, waits)

    @method(owner, "__setstate__")
    def _rebuild(original: Callable[..., None]) -> Callable[..., None]:
        def __setstate__(self: Any, state: Any) -> None:  # noqa: N807
            original(self, state)
            # What it is called, the process says that made it.
            self._contend_waits = waits(self, located=False)

        return __setstate__


def _counted(event: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def move(self: Any, /, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        waits = waits_of(self)
        if waits is not None:
            getattr(waits, event)(max(self.qsize(), 0))
        return result

    return move


def patch_process(module: ModuleType) -> None:
    process = module.BaseProcess

    @method(process, "start")
    def _start(original: Callable[..., None]) -> Callable[..., None]:
        def start(self: Any) -> None:
            if trace_on():
                # Goes to the child with the rest of it, and is read by ours alone.
                self._contend_flow = flow.sent("process")
                self._contend_name = name_of(self._target or type(self))
            original(self)

        return start

    @method(process, "_bootstrap")
    def _run(original: Callable[..., int]) -> Callable[..., int]:
        def _bootstrap(self: Any, /, *args: Any, **options: Any) -> int:
            number = vars(self).pop("_contend_flow", None)
            if number is not None and trace_on():
                flow.received("process", number)
            return original(self, *args, **options)

        return _bootstrap

    @method(process, "join")
    def _join(original: Callable[..., None]) -> Callable[..., None]:
        def join(self: Any, timeout: float | None = None) -> None:
            started = self._popen is not None and self._parent_pid == os.getpid()
            if not trace_on() or not started or self.exitcode is not None:
                return original(self, timeout)
            waits = Waits(CONDITION, f"join {getattr(self, '_contend_name', type(self).__qualname__)}")
            token = waits.wait()
            try:
                return original(self, timeout)
            finally:
                (waits.gave_up if self.exitcode is None else waits.passed)(token)

        return join
