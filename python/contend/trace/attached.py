"""`contend trace --pid` inside of the process that it attaches to: record, and leave it as it was."""

from __future__ import annotations

import atexit
import json
import os
import posix
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contend.errors import BadInput
from contend.trace import interpreter, patches, tasks
from contend.trace.changes import Changes
from contend.trace.imports import hooks
from contend.trace.include import Include
from contend.trace.recording import flush, start_as, status, stop


def record(
    directory: str,
    control: int,
    known: bool,
    *,
    say: Callable[[str, Mapping[str, object]], None],
    start_thread: Callable[..., None],
) -> None:
    """Record as the file in `directory` says, until the other end of the FIFO `control` is closed. Reports by `say`.

    `known`: the program uses contend.trace itself. say, start_thread: of what brought contend there. Runs in a thread of
    its own. Raises BadInput where a recording goes on already.
    """
    options = json.loads(Path(directory, "asked.json").read_text(encoding="utf-8"))
    running = status()
    if running.recording:
        raise BadInput(
            f"it records already, into {running.path}",
            hint="it was started by `contend trace`, or calls contend.trace.start() itself",
        )
    global _attachment  # noqa: PLW0603 - one at a time: a recording goes on or not
    attachment = _Attachment(control, known, start_thread)
    try:
        begun = attachment.begin(options)
        _attachment = attachment
        _follow_forks()
        say(directory, {"state": "recording", **begun})
        _await_end(control)
    finally:
        _attachment = None
        attachment.end()
    last = status()
    say(directory, {"state": "ended", "events": last.events, "lost": last.lost, "failure": last.failure})


class _Attachment:
    """One recording of a program that ran before it."""

    def __init__(self, control: int, known: bool, start_thread: Callable[..., None]) -> None:
        self.control, self.start_thread = control, start_thread
        status_of = os.fstat(control)
        self.fifo = (status_of.st_dev, status_of.st_ino)
        self._changes = Changes()
        by_name, every, installed = hooks.state()
        # What contend's own import has asked for is not to stay in the way of the program's imports.
        self._hooks = by_name, every, installed and known
        self._followed = tasks.followed()
        self._interpreter = interpreter.followed()

    def begin(self, options: dict[str, Any]) -> dict[str, Any]:
        """Record, then patch; what is told of it."""
        hooks.changes = self._changes
        path = start_as(options)
        patches.use_digests(options)
        patches.apply(running=True)
        include = Include(options["include"], options["exclude"])
        include.install()
        self._changes.follow_imports()
        self._record_before_exit()
        return {"path": str(path), "functions": include.count}

    def end(self) -> None:
        """Everything back, then no recording any more."""
        hooks.reset(self._hooks)
        hooks.changes = None
        tasks.forget(self._followed)
        interpreter.forget(self._interpreter)
        self._changes.undo()
        atexit.unregister(stop)
        stop()

    def _record_before_exit(self) -> None:
        leave = os._exit

        def _exit(status: int) -> None:
            flush()
            leave(status)

        self._changes.put(os, "_exit", _exit)


_attachment: _Attachment | None = None
_forks_followed = False


def _await_end(control: int) -> None:
    """Until contend closes its end, or is gone. Nothing is ever written."""
    try:
        posix.read(control, 1)  # os.read may be eventlet's
    except OSError:
        return  # the program has closed all its files


def _follow_forks() -> None:
    """Children record into files of their own, and let go when their parent does."""
    global _forks_followed  # noqa: PLW0603 - handlers can be registered, never unregistered
    if not _forks_followed:
        _forks_followed = True
        os.register_at_fork(after_in_child=_in_child)


def _in_child() -> None:
    attachment = _attachment
    if attachment is not None:
        attachment.start_thread(_until_end, attachment)


def _until_end(attachment: _Attachment) -> None:
    try:
        status_of = os.fstat(attachment.control)
    except OSError:
        status_of = None
    # A child that became a daemon has closed all files; their numbers may be other files by now.
    if status_of is not None and (status_of.st_dev, status_of.st_ino) == attachment.fifo:
        _await_end(attachment.control)
    attachment.end()
