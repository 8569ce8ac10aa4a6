"""Parts that the patches of locks share: a `Waits` in each lock, and methods in the place of a class's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from contend._native import Waits

LOCK, REENTRANT, SEMAPHORE, CONDITION, QUEUE = range(1, 6)
LIFO_QUEUE, PRIORITY_QUEUE = 8, 9
"""Kinds, as in docs/reference/ctrace.md."""

ATTRIBUTE = "_contend_waits"


def queue_waits(queue: Any) -> Waits:
    """Waits of a queue of any library: its order is that of the class it derives from, which all of them call alike."""
    classes = {of.__name__ for of in type(queue).__mro__}
    kind = LIFO_QUEUE if "LifoQueue" in classes else PRIORITY_QUEUE if "PriorityQueue" in classes else QUEUE
    return Waits(kind)


def waits_of(thing: Any) -> Waits | None:
    """The waits on record of an object; None where it has none, and while nothing is recorded."""
    waits = getattr(thing, ATTRIBUTE, None)
    return waits if isinstance(waits, Waits) and waits.on() else None


def within(blocking: bool, timeout: float | None) -> float | None:
    """How long acquire waits at most with these arguments of threading's, seconds; None: for ever.

    >>> within(False, -1), within(True, 0.5), within(True, None), within(True, -1)
    (0.0, 0.5, None, None)
    """
    if not blocking:
        return 0.0
    return timeout if timeout is not None and timeout >= 0 else None


def let_go(thing: Any, times: int = 1) -> None:
    """Note that an object is about to be released, also while nothing is recorded: nobody holds it after that."""
    waits = getattr(thing, ATTRIBUTE, None)
    if isinstance(waits, Waits):
        waits.released(times)


def held_by(thing: Any, track: int) -> None:
    """Note that those who wait for an object from now on wait for that track, 0 for nobody known."""
    waits = getattr(thing, ATTRIBUTE, None)
    if isinstance(waits, Waits):
        waits.hold(track)


def made(owner: Any, waits: Callable[[Any], Waits | None]) -> None:
    """Make each new object of a class carry what `waits` gives for it."""
    original = owner.__init__

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
        original(self, *args, **options)
        try:
            object.__setattr__(self, ATTRIBUTE, waits(self))  # not by what a subclass makes of attributes
        except AttributeError:
            return  # a subclass with slots: its waits are not on record

    owner.__init__ = __init__


def method(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: put `replace(original)` in the place of a method."""

    def put(replace: Callable[..., Any]) -> Callable[..., Any]:
        original = getattr(owner, name)
        replacement = functools.wraps(original)(replace(original))
        setattr(owner, name, replacement)
        return replace

    return put


def releases(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that releases its object."""

    def release(self: Any, /, *args: Any, **options: Any) -> Any:
        let_go(self)
        return original(self, *args, **options)

    return release


def counted(event: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that moves an item; the length after it is recorded."""

    def move(self: Any, /, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        waits = waits_of(self)
        if waits is not None:
            getattr(waits, event)(self.qsize())
        return result

    return move


def passing(owner: Any, name: str, waits_now: Callable[..., bool]) -> None:
    """Wrap a method that waits for something that is not held afterwards, where `waits_now(self, *args)` says so."""

    @method(owner, name)
    def _replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(self: Any, /, *args: Any, **options: Any) -> Any:
            waits = waits_of(self)
            if waits is None or not waits_now(self, *args, **options):
                return original(self, *args, **options)
            token = waits.wait()
            try:
                result = original(self, *args, **options)
            except BaseException:
                waits.gave_up(token)
                raise
            waits.passed(token)
            return result

        return wait


def name_of(function: Any) -> str:
    """The name of a callable as people know it: of a partial, a bound context or a chunk of `map` the function
    inside."""
    inner = function
    for _ in range(4):
        if not isinstance(inner, functools.partial):
            break
        through = getattr(inner.func, "__name__", "")
        inner = inner.args[0] if through in ("run", "_process_chunk") and inner.args else inner.func
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__
