"""`traced`: functions, methods, generators and coroutines that record when they run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from contend._native import Traced, trace_wrap
from contend.errors import BadInput

F = TypeVar("F")

_RESULT, _COROUTINE, _GENERATOR, _ASYNC_GENERATOR = range(4)


@overload
def traced(function: F, /, *, name: str | None = None) -> F: ...
@overload
def traced(function: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...
def traced(function: Any = None, /, *, name: str | None = None) -> Any:
    """Decorator: each call is a span, named as the function (or by `name`), that says if it ended by an exception.

    Works on functions, methods, `classmethod`, `staticmethod` and `property` (above or below the decorator),
    generators and coroutines, whose span is left where they are suspended and entered again where they go on.
    Signature, docstring, attributes and pickling are those of the function, which is in `__wrapped__`.

    Raises BadInput for what is none of these, such as a class.

    >>> @traced
    ... def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> add(1), add.__name__, str(inspect.signature(add))
    (2, 'add', "(a: 'int', b: 'int' = 1) -> 'int'")
    """
    if function is None:
        return functools.partial(traced, name=name) if name is not None else traced
    if isinstance(function, Traced):
        return function
    if isinstance(function, (classmethod, staticmethod)):
        inner: Any = function.__func__
        return type(function)(traced(inner, name=name))
    if isinstance(function, property):
        parts: list[Any] = [function.fget, function.fset, function.fdel]
        get, set_, delete = (part and traced(part, name=name) for part in parts)
        return type(function)(get, set_, delete, function.__doc__)
    if inspect.isclass(function) or not callable(function):
        raise BadInput(
            f"{function!r} cannot be traced: it is no function",
            hint="decorate its methods, or use `with span(...)` around what it does",
        )
    wrapped = trace_wrap(function, name or _name(function), _kind(function))
    return functools.update_wrapper(wrapped, function)


def _name(function: Any) -> str:
    """As people know it: `nova.compute.manager:ComputeManager.build`."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}" if module else name


def _kind(function: Any) -> int:
    """Kind of a function, by what it says of itself: a call that gives a coroutine has not run yet."""
    if inspect.isasyncgenfunction(function):
        return _ASYNC_GENERATOR
    if inspect.iscoroutinefunction(function):
        return _COROUTINE
    if inspect.isgeneratorfunction(function):
        return _GENERATOR
    return _RESULT
