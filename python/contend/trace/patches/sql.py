"""SQLAlchemy 1.4 and 2: statements, commits and rollbacks as spans, waits for a connection of the pool.

Parameters are never looked at; of the text of a statement its values are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_on
from contend.trace import locks
from contend.trace.patches.sql_text import title, without_values

_MOST_STATEMENTS = 4096
# Titles of statements that were seen, and their texts where these are longer, by dialect and statement.
_seen: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}


def _said(dialect: str, statement: str) -> tuple[str, dict[str, str]]:
    """What a span is called, and its arguments."""
    said = _seen.get((dialect, statement))
    if said is None:
        text = without_values(statement, dialect)
        short = title(text)
        told = {"kind": "remote"} if short == text else {"kind": "remote", "statement": text}
        if len(_seen) >= _MOST_STATEMENTS:
            _seen.clear()
        said = _seen[dialect, statement] = (short, told)
    return said


def patch_statements(module: Any) -> None:
    """By SQLAlchemy's own events, of every engine."""
    listen, engine = module.event.listen, module.engine.Engine
    listen(engine, "before_cursor_execute", _begins)
    listen(engine, "after_cursor_execute", _ends)
    listen(engine, "handle_error", _fails)


def _begins(
    connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool
) -> None:
    if not trace_on():
        return
    name, told = _said(connection.dialect.name, statement)
    span = Span(name, **told, sets=len(parameters)) if many else Span(name, **told)
    connection._contend_span = span.__enter__()


def _ends(
    connection: Any, cursor: Any, _statement: str, _parameters: Any, _context: Any, _many: bool
) -> None:
    span = connection.__dict__.pop("_contend_span", None)
    if span is not None:
        rows = cursor.rowcount
        if isinstance(rows, int) and rows >= 0:  # otherwise it is not known yet
            span.end(rows=rows)
        else:
            span.end()


def _fails(failure: Any) -> None:
    span = getattr(failure.connection, "__dict__", {}).pop("_contend_span", None)
    if span is not None:
        error = failure.original_exception
        span.__exit__(type(error), error, None)


def patch_dialect(module: Any) -> None:
    """Also where the pool rolls back what comes in."""
    dialect = module.DefaultDialect
    dialect.do_commit = _call(dialect.do_commit, "COMMIT")
    dialect.do_rollback = _call(dialect.do_rollback, "ROLLBACK")


def _call(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, connection: Any) -> Any:
        with Span(name, kind="remote"):
            return original(self, connection)

    return call


def patch_engines(module: Any) -> None:
    """A pool is called by what its engine connects to."""
    original = module.create_engine

    @functools.wraps(original)
    def create_engine(*args: Any, **options: Any) -> Any:
        engine = original(*args, **options)
        _prepare(engine.pool, _named(engine.url))
        return engine

    module.create_engine = create_engine


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


def patch_pool(module: Any) -> None:
    """Waits for a connection. SQLAlchemy reads the arguments of __init__ off its code: it stays what it is."""
    pool = module.QueuePool
    get, give, renew = pool._do_get, pool._do_return_conn, pool.recreate

    @functools.wraps(get)
    def _do_get(self: Any) -> Any:
        waits = self.__dict__.get("_contend_waits")
        if waits is None or not waits.on():
            return get(self)
        full = -1 < self._max_overflow <= self._overflow and self._pool.empty()
        token, record = waits.wait() if full else 0, None
        try:
            record = get(self)
        finally:
            if record is None:
                waits.gave_up(token)
            elif record.__dict__.get("_contend_held"):
                waits.passed(token)  # it asked itself once more
            else:
                record._contend_held = True
                waits.acquired(token)
        return record

    @functools.wraps(give)
    def _do_return_conn(self: Any, record: Any) -> Any:
        if record.__dict__.pop("_contend_held", False):
            self._contend_waits.released()
        return give(self, record)

    @functools.wraps(renew)
    def recreate(self: Any) -> Any:
        renewed = renew(self)
        waits = self.__dict__.get("_contend_waits")
        if waits is not None:
            _prepare(renewed, "")
            renewed._contend_waits = waits
        return renewed

    pool._do_get, pool._do_return_conn, pool.recreate = _do_get, _do_return_conn, recreate
