"""Managers of multiprocessing: what they lend is asked for by messages to their process."""

from __future__ import annotations

import _thread
import functools
import os
import struct
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_on
from contend.trace import flow
from contend.trace.patches.multiprocessing_ import key_of
from contend.trace.patches.waiting import (
    ATTRIBUTE,
    LOCK,
    REENTRANT,
    SEMAPHORE,
    made,
    method,
    releases,
    waits_of,
)

_CALLS = "_contend_calls"
"""Attribute of a connection: what its calls are known by."""

_PROXIED = {"Lock": LOCK, "RLock": REENTRANT, "Semaphore": SEMAPHORE, "BoundedSemaphore": SEMAPHORE}
"""What a manager lends that can be held, by its `typeid`."""


def patch_managers(module: ModuleType) -> None:
    """Locks of a manager: a lock to those who wait for it, though a message to them. The manager's own are not on record."""
    registry = module.SyncManager._registry
    for name, plain in (("Lock", _thread.allocate_lock), ("RLock", _thread.RLock)):
        registry[name] = (plain, *registry[name][1:])
    proxy = module.AcquirerProxy
    made(proxy, _proxy_waits)
    for name in ("acquire", "__enter__"):
        method(proxy, name)(_acquires)
    for name in ("release", "__exit__"):
        method(proxy, name)(releases)
    method(module.BaseProxy, "_callmethod")(_calls_manager)
    _follow_calls(module)


def _proxy_waits(proxy: Any) -> Waits | None:
    token = proxy._token
    kind = _PROXIED.get(token.typeid)
    # What it is called, the process says that made it: there it came from its manager.
    key = key_of(f"{token.address}/{token.id}")
    if kind is None:
        return None
    return Waits(kind, shared=kind == SEMAPHORE, located=proxy._manager is not None, across=key)


def _acquires(original: Callable[..., Any]) -> Callable[..., Any]:
    def acquire(self: Any, /, *args: Any, **options: Any) -> Any:
        waits = waits_of(self)
        if waits is None:
            return original(self, *args, **options)
        token, taken = waits.wait(), False
        try:
            result = original(self, *args, **options)
            taken = bool(result)
        finally:
            if taken:
                waits.acquired(token)
            else:
                waits.gave_up(token)
        return result

    return acquire


def _calls_manager(original: Callable[..., Any]) -> Callable[..., Any]:
    def _callmethod(self: Any, /, methodname: str, *args: Any, **options: Any) -> Any:
        calls = _calls(self)
        number = calls.next() if calls is not None else None
        if not trace_on() or getattr(self, ATTRIBUTE, None) is not None:
            return original(self, methodname, *args, **options)
        with Span(f"manager {self._token.typeid}.{methodname}", kind="remote"):
            if calls is None or number is None:
                return original(self, methodname, *args, **options)
            flow.sent("manager", number)
            try:
                return original(self, methodname, *args, **options)
            finally:
                if calls.last() == number:  # it was sent
                    flow.received("manager", f"{number}/answer")

    return _callmethod


def _calls(proxy: Any) -> _Connection | None:
    """The connection that this thread's next call will go by; None where its manager does not know it."""
    if getattr(proxy._tls, "connection", None) is None:
        proxy._connect()  # as the call would
    calls = getattr(proxy._tls.connection, _CALLS, None)
    return calls if isinstance(calls, _Connection) else None


def _follow_calls(module: ModuleType) -> None:
    """Flows from a proxy's call to its being served and back. Both sides know a connection by who made it, and a call by its
    number on it: nothing is added to what is sent."""
    calls = _Calls()

    @method(module.BaseProxy, "_connect")
    def _connect(original: Callable[..., None]) -> Callable[..., None]:
        def connect(self: Any) -> None:
            original(self)
            connection = self._tls.connection
            # As the library tells its manager.
            thread = module.threading.current_thread().name
            name = module.process.current_process().name
            name += f"|{thread}" if thread != "MainThread" else ""
            made = calls.of(self._token.address, os.getpid(), name)
            if made is not None:
                setattr(connection, _CALLS, made)
                connection.send = functools.partial(_sends, connection.send, made)

        return connect

    @method(module.Server, "accept_connection")
    def _accept(original: Callable[..., None]) -> Callable[..., None]:
        def accept_connection(self: Any, c: Any, name: str) -> None:
            pid = _peer(module.connection.socket, c)
            served = calls.of(self.address, pid, name) if pid is not None else None
            original(self, _Served(c, self.id_to_obj, served) if served is not None else c, name)

        return accept_connection


class _Calls:
    """Numbers of connections to each server, by the process and the thread that made them."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, object, int, str], int] = {}
        self._lock = _thread.allocate_lock()

    def of(self, address: object, pid: int, name: str) -> _Connection | None:
        """The next connection; None where other hosts may have one of the same name."""
        if not isinstance(address, str):
            return None
        key = (os.getpid(), address, pid, name)  # what a child has of its parent's is not its own
        with self._lock:
            number = self._made[key] = self._made.get(key, 0) + 1
        return _Connection(f"{address}|{pid}|{name}|{number}")


class _Connection:
    """One of those, with how many calls it has carried."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return self.last()

    def last(self) -> str:
        return f"{self._key}/{self._count}"

    def was_not_sent(self) -> None:
        self._count -= 1


def _sends(send: Callable[[Any], None], calls: _Connection, message: Any) -> None:
    try:
        send(message)
    except BaseException:
        calls.was_not_sent()  # it could not be pickled
        raise


class _Served:
    """A connection as its server has it: between a request and its answer, what was asked for is done."""

    def __init__(self, connection: Any, objects: Mapping[str, Any], calls: _Connection) -> None:
        self._connection = connection
        self._objects = objects
        self._calls = calls
        self._open: tuple[Span, str] | None = None

    def recv(self) -> Any:
        request = self._connection.recv()
        number = self._calls.next()
        held = self._objects.get(request[0], (None,))[0]
        # What blocks until another client lets it go is a lock, and on record as that.
        if trace_on() and not hasattr(held, "acquire"):
            span = Span(f"{type(held).__name__}.{request[1]}")
            span.__enter__()
            flow.received("manager", number)
            self._open = (span, number)
        return request

    def send(self, message: Any) -> None:
        if self._open is not None:
            (span, number), self._open = self._open, None
            flow.sent("manager", f"{number}/answer")
            span.__exit__(None, None, None)
        self._connection.send(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _peer(socket: ModuleType, connection: Any) -> int | None:
    """The pid at the other end of a connection within this host; None of another one."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            if end.family != socket.AF_UNIX:
                return None
            pid, _, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return int(pid)
    except (AttributeError, OSError):
        return None
