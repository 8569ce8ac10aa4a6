"""oslo_concurrency.lockutils and fasteners: locks that are known by a name, in a process and between processes.

A lock of lockutils lives as long as somebody uses it and is made anew for the next: on record it is one lock. A file
that processes lock is one lock in all of them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from contend._native import Waits
from contend.trace import locks

# As in the file, docs/reference/ctrace.md.
_EXTERNAL = 7
_UUID = re.compile(r"[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}|(?<![\da-f])[\da-f]{32}(?![\da-f])")
# Names beyond get a lock of their own each time: what makes up names without end must not grow us.
_MOST_NAMES = 4096


class Known:
    """The events of locks, by name."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._waits: dict[str, Waits] = {}

    def of(self, name: str) -> Waits:
        waits = self._waits.get(name)
        if waits is None:
            if len(self._waits) >= _MOST_NAMES:
                self._waits.popitem()
            across = _across(name) if self._kind == _EXTERNAL else 0
            made = Waits(self._kind, folded(name), located=False, across=across)
            if self._kind == locks.SEMAPHORE:
                made.limit(1)  # what goes by a name is held by one
            waits = self._waits.setdefault(name, made)
        return waits


def folded(name: str) -> str:
    """With * where a UUID is: locks of one purpose go by one name, and stay locks of their own.

    >>> folded("refresh_cache-0c5e41a2-6c0f-4a34-8c10-4f2a3c5d7e91")
    'refresh_cache-*'
    """
    return _UUID.sub("*", name)


def _across(name: str) -> int:
    """The same in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest()) or 1


class _Named(weakref.WeakValueDictionary[str, Any]):
    """Locks by name; who comes in is named, before any other thread can find it here."""

    def __init__(self, name_it: Callable[[Any, Waits], None]) -> None:
        super().__init__()
        self._name_it = name_it
        self._known = Known(locks.SEMAPHORE)

    def __setitem__(self, name: str, lock: Any) -> None:
        self._name_it(lock, self._known.of(str(name)))
        super().__setitem__(name, lock)


def patch_lockutils(module: ModuleType) -> None:
    """Internal locks: semaphores, and fair ones."""
    _name_all(module.Semaphores, "_semaphores", _name_semaphore, module._semaphores)
    _name_all(module.FairLocks, "_locks", _name_fair, module._fair_locks)


def _name_all(owner: type, attribute: str, name_it: Callable[[Any, Waits], None], first: Any) -> None:
    begin = owner.__init__  # type: ignore[misc]

    @functools.wraps(begin)
    def initialise(self: Any) -> None:
        begin(self)
        setattr(self, attribute, _Named(name_it))

    owner.__init__ = initialise  # type: ignore[misc]
    setattr(first, attribute, _Named(name_it))  # nobody has used it yet: its module is being imported


def _name_semaphore(lock: Any, waits: Waits) -> None:
    if isinstance(lock, locks.Semaphore):  # another's, of eventlet say, is left as it is
        lock._waits = waits


def _name_fair(lock: Any, waits: Waits) -> None:
    lock._contend_waits = waits


def patch_reader_writer(module: ModuleType) -> None:
    """fasteners.ReaderWriterLock, under which lockutils' fair locks are."""
    lock = module.ReaderWriterLock
    begin = lock.__init__

    @functools.wraps(begin)
    def initialise(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        self._contend_waits = Waits(locks.SEMAPHORE)
        if isinstance(self._cond, locks.Condition):
            self._cond = locks.unrecorded_condition()  # its waits are the lock's own

    lock.__init__ = initialise
    lock.write_lock = _held(lock.write_lock, _free_to_write)
    lock.read_lock = _held(lock.read_lock, _free_to_read)


def _free_to_write(lock: Any) -> bool:
    return not lock._readers and lock._writer is None and not lock._pending_writers


def _free_to_read(lock: Any) -> bool:
    return lock._writer is None and not lock._pending_writers


def _held(original: Callable[..., Any], free: Callable[[Any], bool]) -> Callable[..., Any]:
    @contextlib.contextmanager
    @functools.wraps(original)
    def hold(self: Any) -> Iterator[Any]:
        waits = self._contend_waits
        if not waits.on() or self.is_writer(check_pending=False) or self.is_reader():
            with original(self) as held:  # taken again by who has it: no wait
                yield held
            return
        token, taken = 0 if free(self) else waits.wait(), False
        try:
            with original(self) as held:
                waits.acquired(token)
                taken = True
                try:
                    yield held
                finally:
                    waits.released()
        finally:
            if not taken:
                waits.gave_up(token)

    return hold


_files = Known(_EXTERNAL)


def _file(lock: Any) -> Waits:
    waits: Waits | None = getattr(lock, "_contend_waits", None)
    if waits is None:
        name = os.fsdecode(lock.path)
        with contextlib.suppress(OSError):  # the working directory is gone
            name = os.path.abspath(name)  # noqa: PTH100 - without resolving links, as the lock does
        waits = lock._contend_waits = _files.of(name)
    return waits


def patch_between_processes(module: ModuleType) -> None:
    """fasteners.InterProcessLock, under which lockutils' external locks are."""
    lock = module.InterProcessLock
    lock.trylock = _tries(lock.trylock)
    lock.acquire = _acquires(lock.acquire)
    lock.release = _releases(lock.release)


def _tries(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def trylock(self: Any) -> Any:
        try:
            return original(self)
        except OSError:
            # The first refusal is where the wait begins; it is asked for again and again.
            attempt = getattr(self, "_contend_attempt", None)
            if attempt is not None and not attempt[1]:
                attempt[1] = attempt[0].wait()
            raise

    return trylock


def _acquires(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def acquire(self: Any, blocking: bool = True, *args: Any, **options: Any) -> Any:
        waits = _file(self)
        attempt = self._contend_attempt = [waits, 0] if blocking and waits.on() else None
        taken = False
        try:
            taken = original(self, blocking, *args, **options)
        finally:
            self._contend_attempt = None
            token = attempt[1] if attempt is not None else 0
            if taken:
                waits.acquired(token)
            else:
                waits.gave_up(token)
        return taken

    return acquire


def _releases(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def release(self: Any) -> Any:
        if self.acquired:
            _file(self).released()
        return original(self)

    return release
