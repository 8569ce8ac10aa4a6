"""Begin and end a recording; children of fork go on in files of their own."""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contend._native import trace_flush, trace_start, trace_status, trace_stop
from contend.errors import BadInput
from contend.trace import interpreter, tasks

_LEAST_BUFFER_BYTES = 64 << 10


@dataclass(frozen=True)
class Status:
    """A recording that goes on, or the last one of this process."""

    path: Path | None
    """Its file; None in a child made by fork that has not recorded anything yet."""
    recording: bool
    events: int
    """Written to the file."""
    bytes: int
    """Of the file."""
    lost: int
    """Events that were dropped because there was no room: the writer could not follow."""
    failure: str | None
    """Why it ended before `stop`: the disk was full, the directory went away. The program went on."""
    gil: str
    """Waits for the GIL: "on" record, "off" (not asked for), or why they cannot be recorded."""


def start_as(options: dict[str, Any]) -> Path:
    """Record as the options of `contend trace` say; returns the file's path."""
    names = ("buffer_bytes", "overflow", "cpu_times", "run_delay", "gil", "gc", "io", "blocked_after_ms")
    return start(options["directory"], **{name: options[name] for name in names})


def start(
    directory: str | os.PathLike[str],
    *,
    buffer_bytes: int = 32 << 20,
    overflow: Literal["drop", "block"] = "drop",
    clock: Literal["auto", "monotonic"] = "auto",
    cpu_times: bool = False,
    run_delay: bool = False,
    gil: bool = False,
    gc: bool = False,
    io: bool = False,
    blocked_after_ms: float = 0,
) -> Path:
    """Record from now on, into a file of this process in `directory` (made if it is not there); returns its path.

    A thread of its own, in native code, writes at least four times a second: a process that is killed leaves a file
    that can be read up to its last quarter of a second. At most `buffer_bytes` of memory hold events that wait to be
    written; beyond, `overflow` decides: "drop" (new events are dropped and counted, `Status.lost`, and in the file)
    or "block" (the program waits for the disk). `clock` "monotonic" keeps to clock_gettime where "auto" would use
    the CPU's counter. `cpu_times` adds the thread's CPU time to the begin and end of every span and job, and to
    where a wait begins, a system call each (0.2 to 0.7 µs), `run_delay` to spans and jobs how long the thread was ready
    and had no CPU, a file of /proc each (about 5 µs).

    The interpreter's own: `gil` records waits for the GIL of 20 us and more and who held it meanwhile
    (`Status.gil` says where that cannot be), `gc` pauses for garbage collection, `blocked_after_ms` callbacks and
    greenlets that keep an asyncio loop or a hub of eventlet or gevent from all others for longer; 0: none. `io` records
    system calls of 50 us and more in which a thread waits for a file, a socket, a child, or for time to pass.

    Threads, asyncio tasks and greenlets have tracks of their own. Ends by `stop` or when the interpreter exits. A
    child made by fork records into its own file from its first event on. Raises BadInput if a recording goes on or an
    argument is wrong, HostFailed if the directory cannot be written.
    """
    if overflow not in ("drop", "block"):
        raise BadInput(
            f"overflow: {overflow!r} is not one of: drop, block", hint="'drop' never delays the program"
        )
    if clock not in ("auto", "monotonic"):
        raise BadInput(
            f"clock: {clock!r} is not one of: auto, monotonic", hint="'auto' takes the cheapest safe one"
        )
    if not 0 <= blocked_after_ms < float("inf"):
        raise BadInput(
            f"blocked_after_ms: {blocked_after_ms} is no time to wait", hint="10 is usual; 0 records none"
        )
    if buffer_bytes < _LEAST_BUFFER_BYTES:
        raise BadInput(
            f"buffer_bytes: {buffer_bytes} is too little",
            hint=f"at least {_LEAST_BUFFER_BYTES}; 32 MiB is usual",
        )
    path = trace_start(
        Path(directory),
        name=_process_name(),
        buffer_bytes=buffer_bytes,
        block=overflow == "block",
        counter=clock == "auto",
        cpu_times=cpu_times,
        run_delay=run_delay,
    )
    tasks.follow()
    global _gil  # noqa: PLW0603 - of the recording, which is one a process
    _gil = interpreter.follow(gil=gil, gc=gc, io=io, blocked_after_ms=blocked_after_ms)
    atexit.unregister(stop)
    atexit.register(stop)
    _follow_multiprocessing()
    return path


def stop() -> Status:
    """End the recording; what was recorded is in the file afterwards. Nothing happens if there is none."""
    interpreter.leave()
    return _status(trace_stop())


def flush() -> None:
    """Have everything up to now in the file when this returns."""
    trace_flush()


def status() -> Status:
    """How the recording goes, or how the last one went."""
    return _status(trace_status())


_gil = interpreter.OFF


def _status(fields: dict[str, object]) -> Status:
    return Status(**fields, gil=_gil)  # type: ignore[arg-type]  # the native module tells exactly these


def _process_name() -> str:
    program = sys.argv[0] if getattr(sys, "argv", None) and sys.argv[0] else "python"
    if program == "-m":  # so early; later it is the module's file
        after = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
        program = after[0] if after else "python -m"
    return Path(program).name or program


_followed = False
_finalised_in = 0


def _follow_multiprocessing() -> None:
    """Children of multiprocessing leave by os._exit: stop in what they run before that."""
    global _followed  # noqa: PLW0603 - handlers can be registered, never unregistered
    if not _followed:
        _followed = True
        os.register_at_fork(after_in_child=_in_child)
    if "multiprocessing.util" in sys.modules:
        _stop_with_multiprocessing()


class _Mark:
    """register_after_fork wants an object to hold on to."""


_mark = _Mark()


def _in_child() -> None:
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # A child of multiprocessing forgets its parent's finalisers, then runs these.
        util.register_after_fork(_mark, _stop_with_multiprocessing)


def _stop_with_multiprocessing(_mark: _Mark | None = None) -> None:
    global _finalised_in  # noqa: PLW0603 - once a process
    if _finalised_in != os.getpid():
        from multiprocessing.util import Finalize

        Finalize(None, stop, exitpriority=-100)
        _finalised_in = os.getpid()
