"""concurrent.futures: what is submitted to a pool of threads, how long it waits there, and its run."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import trace_on
from contend.trace import flow


def patch_threads(module: ModuleType) -> None:
    original = module.ThreadPoolExecutor.submit

    @functools.wraps(original)
    def submit(self: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not trace_on():
            return original(self, function, *args, **kwargs)
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        number = flow.sent("submit")

        def run(*args: Any, **kwargs: Any) -> Any:
            with Span(name, kind="submitted"):
                flow.received("submit", number)
                return function(*args, **kwargs)

        return original(self, run, *args, **kwargs)

    module.ThreadPoolExecutor.submit = submit
