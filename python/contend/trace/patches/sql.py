"""SQLAlchemy 1.4 and 2: statements, commits and rollbacks as spans, waits for a connection of the pool.

Parameters are never on record, but for a keyed digest; of the text of a statement its values are left out.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

from contend._native import Waits, trace_wrap
from contend.trace import locks
from contend.trace.imports import hooks
from contend.trace.patches.sql_text import title, without_values

_REMOTE, _STATEMENT = 5, 6  # of trace_wrap


def patch_engines(module: Any) -> None:
    """Trace what an engine's dialect asks of its driver, of any class; a pool is called by what it connects to."""
    original = module.create_engine

    @functools.wraps(original)
    def create_engine(*args: Any, **options: Any) -> Any:
        engine = original(*args, **options)
        _record(engine.dialect)
        _prepare(engine.pool, _named(engine.url))
        return engine

    module.create_engine = create_engine


def reach_engines(module: Any) -> None:
    """The statements of engines that exist, in a program that was attached to; not the waits for their pools."""
    for thing in gc.get_objects():
        if type(thing) is module.Engine:
            _record(thing.dialect)


def _record(dialect: Any) -> None:
    """In its class: attributes of its own would slow down every use that SQLAlchemy makes of it."""
    owner = type(dialect)
    for name in ("do_execute", "do_execute_no_params", "do_executemany"):
        _put(owner, name, _executes(getattr(owner, name), dialect.name))
    # Also where the pool rolls back what comes in.
    _put(owner, "do_commit", _call(owner.do_commit, "COMMIT"))
    _put(owner, "do_rollback", _call(owner.do_rollback, "ROLLBACK"))


def _put(owner: type, name: str, traced: Any) -> None:
    # A class above may have been reached before.
    if not hasattr(getattr(owner, name), "_contend_traced"):
        traced._contend_traced = True
        hooks.put(owner, name, traced)


def _executes(original: Callable[..., Any], dialect: str) -> Callable[..., Any]:
    """(cursor, statement, parameters…, context): of these only a digest is told, of text and parameters as one."""

    def learn(statement: str) -> tuple[str, str]:
        text = without_values(statement, dialect)
        return title(text), text

    return functools.update_wrapper(trace_wrap(original, "", _STATEMENT, learn), original)


def _call(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    return functools.update_wrapper(trace_wrap(original, name, _REMOTE), original)


def _named(url: Any) -> str:
    """Neither user nor password nor options."""
    port = f":{url.port}" if url.port else ""
    return f"connections to {url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


def _prepare(pool: Any, name: str) -> None:
    """A pool of so many connections is a semaphore that is held by who has one."""
    queue = getattr(pool, "_pool", None)
    if queue is None or not hasattr(pool, "_max_overflow"):
        return  # of no such size: nobody waits
    pool._contend_waits = Waits(locks.SEMAPHORE, name, shared=True, located=False)
    if isinstance(getattr(queue, "not_empty", None), locks.Condition):
        # Its waits are the pool's own.
        queue.not_empty, queue.not_full = (locks.unrecorded_condition(queue.mutex) for _ in range(2))


def _record_class() -> Any:
    from sqlalchemy.pool import base

    return base._ConnectionRecord


def patch_pool(module: Any) -> None:
    """Waits for a connection. SQLAlchemy reads the arguments of __init__ off its code: it stays what it is."""
    pool, record = module.QueuePool, _record_class()
    get, give, renew = pool._do_get, pool._do_return_conn, pool.recreate
    # Found in the class where an object has none: to ask for an object's __dict__ makes all its attributes slower.
    pool._contend_waits, record._contend_held = None, False

    @functools.wraps(get)
    def _do_get(self: Any) -> Any:
        waits = self._contend_waits
        if waits is None or not waits.on():
            return get(self)
        full = -1 < self._max_overflow <= self._overflow and self._pool.empty()
        token, record = waits.wait() if full else 0, None
        try:
            record = get(self)
        finally:
            if record is None:
                waits.gave_up(token)
            elif record._contend_held:
                waits.passed(token)  # it asked itself once more
            else:
                record._contend_held = True
                waits.acquired(token)
        return record

    @functools.wraps(give)
    def _do_return_conn(self: Any, record: Any) -> Any:
        if record._contend_held:
            record._contend_held = False
            self._contend_waits.released()
        return give(self, record)

    @functools.wraps(renew)
    def recreate(self: Any) -> Any:
        renewed = renew(self)
        waits = self._contend_waits
        if waits is not None:
            _prepare(renewed, "")
            renewed._contend_waits = waits
        return renewed

    pool._do_get, pool._do_return_conn, pool.recreate = _do_get, _do_return_conn, recreate
