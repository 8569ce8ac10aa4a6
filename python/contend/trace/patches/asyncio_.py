"""asyncio's locks, semaphores, conditions, events and queues: which task waits, and which one holds."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_on
from contend.trace.patches.waiting import (
    CONDITION,
    LOCK,
    SEMAPHORE,
    counted,
    made,
    method,
    queue_waits,
    releases,
    waits_of,
)


def patch_locks(module: ModuleType) -> None:
    made(module.Lock, lambda _lock: Waits(LOCK))
    made(module.Semaphore, lambda semaphore: Waits(SEMAPHORE, shared=semaphore._value > 1))
    made(module.Condition, lambda _condition: Waits(CONDITION))
    made(module.Event, lambda _event: Waits(CONDITION))
    for held in (module.Lock, module.Semaphore):
        _awaits(held, "acquire", lambda waits: waits.acquired)
        method(held, "release")(releases)
    method(module.Condition, "notify")(_tells_its_lock)
    for passed in (module.Condition, module.Event):
        _awaits(passed, "wait", lambda waits: waits.passed)


def _tells_its_lock(original: Callable[..., None]) -> Callable[..., None]:
    def notify(self: Any, /, *args: Any, **options: Any) -> None:
        waits = waits_of(self)
        if waits is not None:
            waits.guarded_by(getattr(self._lock, "_contend_waits", None))
        original(self, *args, **options)

    return notify


def patch_sleep(module: ModuleType) -> None:
    """asyncio.sleep: time that a task asks for, apart from what it awaits of others."""
    original = module.sleep

    @functools.wraps(original)
    async def sleep(delay: float, result: Any = None) -> Any:
        if delay <= 0 or not trace_on():
            return await original(delay, result)
        with Span("sleep", kind="sleep", asked_ns=int(delay * 1e9)):
            return await original(delay, result)

    module.sleep = sleep  # type: ignore[attr-defined]
    package = sys.modules["asyncio"]
    if getattr(package, "sleep", None) is original:
        package.sleep = sleep  # type: ignore[attr-defined]


def patch_queues(module: ModuleType) -> None:
    made(module.Queue, queue_waits)
    for name in ("put", "get"):
        _awaits(module.Queue, name, lambda waits: waits.passed)
    method(module.Queue, "put_nowait")(functools.partial(counted, "put"))
    method(module.Queue, "get_nowait")(functools.partial(counted, "got"))


def _awaits(owner: Any, name: str, end: Callable[[Waits], Callable[[int], None]]) -> None:
    @method(owner, name)
    def _replace(original: Callable[..., Any]) -> Callable[..., Any]:
        async def wait(self: Any, /, *args: Any, **options: Any) -> Any:
            waits = waits_of(self)
            if waits is None:
                return await original(self, *args, **options)
            return await _steps(original(self, *args, **options), waits, end(waits))

        return wait


@types.coroutine
def _steps(coroutine: Any, waits: Waits, end: Callable[[int], None]) -> Generator[Any, Any, Any]:
    """Await it; that it waits is what its first suspension says, whatever the reasons (PEP 380's expansion)."""
    try:
        yielded = coroutine.send(None)
    except StopIteration as done:
        end(0)
        return done.value
    token = waits.wait()
    try:
        while True:
            try:
                sent = yield yielded
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed on
                yielded = coroutine.throw(error)
            else:
                yielded = coroutine.send(sent)
    except StopIteration as done:
        end(token)
        return done.value
    except BaseException:
        waits.gave_up(token)
        raise
