"""concurrent.futures: what is submitted to pools, how long it waits there, and its run in a thread or a process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import TraceSubmitted as Submitted
from contend._native import Waits, trace_on
from contend.trace import flow, locks
from contend.trace.patches.multiprocessing_ import KEY
from contend.trace.patches.waiting import method, name_of, waits_of
from contend.trace.queues import UnrecordedQueue


def patch_threads(module: ModuleType) -> None:
    @method(module.ThreadPoolExecutor, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
            original(self, *args, **options)
            # It only counts idle threads: nobody waits for it, with each call that is submitted.
            if type(getattr(self, "_idle_semaphore", None)) is locks.Semaphore:
                self._idle_semaphore = locks.unrecorded_semaphore(0)
            limits(getattr(self._work_queue, "_waits", None), self._max_workers)

        return __init__

    submits(module.ThreadPoolExecutor)


def limits(waits: object, most: object) -> None:
    """Note how many workers may take from the queue of these waits: its pool starts them as they are needed."""
    if isinstance(waits, Waits) and isinstance(most, int) and 0 < most <= locks.MOST:
        waits.limit(most)


def submits(owner: type) -> None:
    """Have what is given to `submit` of that class on record where it runs."""

    @method(owner, "submit")
    def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
        def submit(self: Any, function: Any, /, *args: Any, **options: Any) -> Any:
            if not trace_on() or _elsewhere(self.__class__):
                return original(self, function, *args, **options)
            submitted = Submitted(function)
            future = original(self, submitted, *args, **options)
            condition = getattr(future, "_condition", None)
            if isinstance(condition, locks.Condition):
                submitted.stands_for(condition._waits)
            return future

        return submit


@functools.lru_cache(maxsize=64)
def _elsewhere(executor: type) -> bool:
    """Its threads have interpreters of their own, where what is submitted goes pickled (3.14)."""
    return any(base.__name__ == "InterpreterPoolExecutor" for base in executor.__mro__)


def patch_processes(module: ModuleType) -> None:
    """The flow is known by the queue to the workers and the number of the work in it: nothing is added to what is sent.

    What is submitted comes into that queue at once: the thread and the queue between are nobody's to wait for.
    """

    @method(module.ProcessPoolExecutor, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
            original(self, *args, **options)
            calls = self._call_queue
            key = _queue_key(calls)
            if key:
                calls.put = functools.partial(inspect.unwrap(type(calls).put), calls)
                self._work_ids = _WorkIds(key, self)
                limits(waits_of(calls), self._max_workers)

        return __init__

    @method(module, "_process_worker")
    def _worker(original: Callable[..., None]) -> Callable[..., None]:
        def _process_worker(call_queue: Any, *args: Any, **options: Any) -> None:
            key = _queue_key(call_queue)
            return original(_Calls(call_queue, key) if key else call_queue, *args, **options)

        return _process_worker


def _queue_key(queue: Any) -> int:
    return int(getattr(getattr(queue, "_rlock", None), KEY, 0))


def _flow(key: int, work: int) -> str:
    return f"{key}-{work}"


class _WorkIds(UnrecordedQueue[int]):
    """Where `submit` puts the number of each work, in the thread that submits."""

    def __init__(self, key: int, pool: Any) -> None:
        super().__init__()
        self._key, self._calls = key, pool._call_queue
        # Not the pool itself, which ends when nobody has it any more.
        self._pending, self._most = pool._pending_work_items, pool._max_workers

    def put(self, item: int, block: bool = True, timeout: float | None = None) -> None:
        if trace_on():
            flow.sent("submit", _flow(self._key, item))
            waits = waits_of(self._calls)
            if waits is not None:
                waits.put(max(1, len(self._pending) - self._most))
        super().put(item, block, timeout)


class _Calls:
    """The queue of a worker process; what comes out of it is on record when it runs."""

    def __init__(self, queue: Any, key: int) -> None:
        self._queue = queue
        self._key = key

    def get(self, *args: Any, **options: Any) -> Any:
        item = self._queue.get(*args, **options)
        if item is not None and trace_on():
            item.fn = functools.partial(_run, item.fn, _flow(self._key, item.work_id))
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def _run(function: Callable[..., Any], number: str, /, *args: Any, **options: Any) -> Any:
    with Span(name_of(function), kind="submitted"):
        flow.received("submit", number)
        return function(*args, **options)
