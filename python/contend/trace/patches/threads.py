"""threading.Thread: from start to run as a flow, and waits for its end with the thread that is waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import Waits, trace_on, trace_track
from contend.trace import flow
from contend.trace.patches.waiting import CONDITION, method, name_of


def patch_threads(module: ModuleType) -> None:
    thread = module.Thread

    @method(thread, "start")
    def _start(original: Callable[..., None]) -> Callable[..., None]:
        def start(self: Any) -> None:
            if not trace_on() or not getattr(self, "_initialized", False) or self._started.is_set():
                return original(self)
            own = vars(self).get("run")
            _run_from(self, flow.sent("thread"))
            try:
                return original(self)
            except BaseException:
                _put_back(self, own)
                raise

        return start

    @method(thread, "join")
    def _join(original: Callable[..., None]) -> Callable[..., None]:
        def join(self: Any, timeout: float | None = None) -> None:
            if not trace_on() or not self.is_alive() or module.current_thread() is self:
                return original(self, timeout)
            waits = Waits(CONDITION, f"join {name_of(getattr(self, '_target', None) or type(self))}")
            waits.hold(getattr(self, "_contend_track", 0))
            token = waits.wait()
            try:
                original(self, timeout)
            except BaseException:
                waits.gave_up(token)
                raise
            (waits.gave_up if timeout is not None and self.is_alive() else waits.passed)(token)
            return None

        return join


def _run_from(thread: Any, number: int) -> None:
    """Its run says first that it was started; from then on it is its own again."""
    own = vars(thread).get("run")

    def run() -> None:
        _put_back(thread, own)
        thread._contend_track = trace_track()
        flow.received("thread", number)
        thread.run()

    with contextlib.suppress(AttributeError, TypeError):  # a class that does not let itself be changed
        thread.run = run


def _put_back(thread: Any, own: Any) -> None:
    if own is None:
        vars(thread).pop("run", None)
    else:
        thread.run = own
