"""multiprocessing.Pipe: each way of a pipe is a queue, into which one end puts and from which the other gets."""

from __future__ import annotations

import os
import select
import sys
from types import FrameType, ModuleType
from typing import Any

from contend._native import Waits
from contend.trace.names import describe_part
from contend.trace.patches.waiting import QUEUE, method

_LIBRARIES = ("multiprocessing", "concurrent")
_SENDS, _RECEIVES = "_contend_sends", "_contend_receives"
"""Attributes of an end: the queues of its two ways. Whoever is forked has them too, and nobody else."""


def patch_connection(module: ModuleType) -> None:
    pipe = module.Pipe

    def make(duplex: bool = True) -> Any:
        ends = pipe(duplex)
        asker = _asker(sys._getframe(1))
        if asker is not None:
            one, other = ends
            _join(other, one, describe_part(asker.f_code, asker.f_lasti, 1))
            _join(one, other, describe_part(asker.f_code, asker.f_lasti, 2))
        return ends

    make.__name__, make.__qualname__, make.__doc__ = pipe.__name__, pipe.__qualname__, pipe.__doc__
    vars(module)["Pipe"] = make

    @method(module.Connection, "send")
    def _send(original: Any) -> Any:
        def send(self: Any, obj: Any) -> None:
            original(self, obj)
            waits = _way(self, _SENDS)
            if waits is not None:
                waits.put(1)

        return send

    @method(module.Connection, "recv")
    def _recv(original: Any) -> Any:
        def recv(self: Any) -> Any:
            waits = _way(self, _RECEIVES)
            if waits is None or self.closed:
                return original(self)
            token = waits.wait() if _nothing(self) else 0
            try:
                result = original(self)
            except BaseException:
                waits.gave_up(token)
                raise
            waits.passed(token)
            waits.got(0)
            return result

        return recv


def _asker(frame: FrameType | None) -> FrameType | None:
    """Who asks for a pipe. Of those that the library makes for itself the user knows nothing: None."""
    # `multiprocessing.Pipe` itself is a method there.
    while frame is not None and frame.f_globals.get("__name__") == "multiprocessing.context":
        frame = frame.f_back
    name = frame.f_globals.get("__name__") if frame is not None else None
    return None if isinstance(name, str) and name.split(".")[0] in _LIBRARIES else frame


def _join(sender: Any, receiver: Any, name: str) -> None:
    """Record what goes from one end to the other as of one queue."""
    if sender.writable and receiver.readable:
        way = Waits(QUEUE, name or "pipe", across=int.from_bytes(os.urandom(8), "little") | 1)
        setattr(sender, _SENDS, way)
        setattr(receiver, _RECEIVES, way)


def _way(end: Any, name: str) -> Waits | None:
    waits = getattr(end, name, None)
    return waits if isinstance(waits, Waits) and waits.on() else None


def _nothing(end: Any) -> bool:
    """Whoever receives has to wait."""
    ready = select.poll()
    ready.register(end, select.POLLIN)
    return not ready.poll(0)
