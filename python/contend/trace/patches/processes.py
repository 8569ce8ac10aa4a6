"""subprocess: starting a program, and waiting for it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span


def patch_subprocess(module: ModuleType) -> None:
    popen = module.Popen
    start = popen.__init__

    @functools.wraps(start)
    def begin(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        with Span("subprocess:Popen", kind="remote", program=_program(args)):
            start(self, args, *rest, **options)

    popen.__init__ = begin
    for name in ("wait", "communicate"):
        setattr(popen, name, _waits(getattr(popen, name), f"subprocess:Popen.{name}"))


def _waits(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **options: Any) -> Any:
        if self.returncode is not None and name.endswith("wait"):
            return original(self, *args, **options)  # it has ended: no wait
        with Span(name, kind="remote", program=_program(self.args)):
            return original(self, *args, **options)

    return wait


def _program(args: Any) -> str:
    """The program's name; never its arguments, which may hold secrets."""
    try:
        if isinstance(args, str):
            return os.path.basename(args.split(maxsplit=1)[0])  # noqa: PTH119 - of a command line
        first = args if isinstance(args, (bytes, os.PathLike)) else args[0]
        return os.path.basename(os.fsdecode(first))  # noqa: PTH119
    except (IndexError, TypeError, ValueError):
        return ""  # wrong arguments are for Popen to refuse
