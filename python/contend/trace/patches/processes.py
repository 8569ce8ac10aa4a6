"""subprocess: starting a program, and waiting for it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span

# A shell's command that begins with a program, not with variables or quotes.
_PLAIN = re.compile(r"[\w./+-]+")


def patch_subprocess(module: ModuleType) -> None:
    popen = module.Popen
    start = popen.__init__

    @functools.wraps(start)
    def begin(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        self._contend_program = _program(args, options.get("shell", rest[7] if len(rest) > 7 else False))
        with Span("subprocess:Popen", kind="remote", program=self._contend_program):
            start(self, args, *rest, **options)

    popen.__init__ = begin
    for name in ("wait", "communicate"):
        setattr(popen, name, _waits(getattr(popen, name), f"subprocess:Popen.{name}"))


def _waits(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **options: Any) -> Any:
        if self.returncode is not None and name.endswith("wait"):
            return original(self, *args, **options)  # it has ended: no wait
        with Span(name, kind="remote", program=getattr(self, "_contend_program", "")):
            return original(self, *args, **options)

    return wait


def _program(args: Any, shell: Any) -> str:
    """The program's name; never its arguments and variables, which may hold secrets."""
    try:
        first = os.fsdecode(args if isinstance(args, (str, bytes, os.PathLike)) else args[0]).split()[0]
    except (IndexError, TypeError, ValueError):
        return ""  # wrong arguments are for Popen to refuse
    if shell and not _PLAIN.fullmatch(first):
        return "sh"
    return os.path.basename(first)  # noqa: PTH119 - in every start
