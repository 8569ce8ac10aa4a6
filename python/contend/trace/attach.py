"""Attach to a running Python process: have it record for a time, and leave it as it was (`contend trace --pid`)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import select
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contend
from contend.errors import BadInput, HostFailed
from contend.probes.client import installed
from contend.trace import reach
from contend.trace.launch import TraceOptions

# How long a process may take to run its next bytecode, and to load contend.
_PATIENCE_S = 10.0
_LOAD_S = 30.0
_LONGEST_ORDER_S = 30.0
# How long a main thread that waits in a system call may take to come to the script that its interpreter has.
_SOON_S = 1.0
OLDEST = (3, 11)
REMOTE_FROM = (3, 14)
"""CPython from where the interpreter itself is asked to run a script (PEP 768)."""

# What is compiled in the process first: in its main thread, at a place of its own choosing, it does the least.
_SCRIPT = """\
import _thread, os, sys
place, file, root = {place!r}, {file!r}, {root!r}
main = _thread.get_native_id() == os.getpid()
def run():
    try:
        try:
            with open(file, encoding="utf-8") as source:
                text = source.read()
        except OSError as error:
            import json
            told = dict(state="failed", error="contend cannot be read there: " + str(error), hint={hint!r})
            with open(place + "/status.part", "w") as status:
                json.dump(told, status)
            os.replace(place + "/status.part", place + "/status.json")
            return
        names = dict(__name__="contend_inject")
        exec(compile(text, file, "exec"), names)
        names["attach"](place, root, main)
    except Exception:
        pass
if main:
    start = _thread.start_new_thread
    if type(start) is not type(len):
        import _imp
        from importlib.machinery import BuiltinImporter, ModuleSpec
        start = _imp.create_builtin(ModuleSpec("_thread", BuiltinImporter)).start_new_thread
    if "threading" not in sys.modules:
        import threading
    start(run, ())
else:
    run()
"""
_UNREADABLE = "the user of that process must be allowed to read where contend is installed"


@dataclass(frozen=True)
class Attached:
    """State of the process when recording began."""

    python: str
    stopped_ns: int | None
    """How long the main thread of the process stood still; None where the interpreter alone did it."""
    functions: int
    """Traced at once, of those that are imported."""


@dataclass(frozen=True)
class Ended:
    """State of the recording at its end."""

    gone: bool
    """The process has ended itself."""
    lost: int
    failure: str | None


class Session:
    """One attachment. `begin`, then `wait`, then `end`; the process is let go however this one ends.

    Raises BadInput for a process that cannot be attached to, HostFailed where it does not answer.
    """

    def __init__(self, pid: int, options: TraceOptions) -> None:
        self.pid = pid
        self._options = options
        self._directory = options.directory.resolve() / ".attach"
        self._ticket = self._directory / "ticket"
        self._lifeline = -1
        self._pidfd = -1
        self._alone: socket.socket | None = None
        self._made = False

    def begin(self) -> Attached:
        """Make the process record. Raises BadInput, HostFailed."""
        self._alone = _only_one(self.pid)
        known = _order({"pid": self.pid})
        version = tuple(known["python"])
        _check(self.pid, known)
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError as error:
            raise BadInput(
                f"process {self.pid} has ended", hint="pgrep -a python lists those that run"
            ) from error
        reach.check_package(self.pid)
        self._made = not self._options.directory.exists()
        try:
            self._prepare()
            answer, stopped_ns = self._enter(version)
        except BaseException:
            self.close()
            if self._made:
                with contextlib.suppress(OSError):
                    self._options.directory.rmdir()
            raise
        return Attached(".".join(map(str, version)), stopped_ns, int(answer.get("functions", 0)))

    def wait(self, seconds: float | None) -> None:
        """Wait for that long, until the process has ended, or until an exception interrupts this."""
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        waiting.poll(None if seconds is None else max(0, round(seconds * 1000)))

    def end(self) -> Ended:
        """Make the process stop recording and put back what was patched; returns when it has."""
        self._let_go()
        status = self._status(
            time.monotonic() + _LOAD_S, lambda status: status["state"] in ("ended", "failed")
        )
        gone = self._gone()
        self.close()
        if status is None and not gone:
            raise HostFailed(
                f"process {self.pid} has not answered for {_LOAD_S:g} s: it lets go when its interpreter runs again",
                hint=f"the trace up to now is in {self._options.directory}",
            )
        status = status or {}
        return Ended(gone, int(status.get("lost", 0)), status.get("failure"))

    def close(self) -> None:
        """Let the process go, and remove all files. Idempotent."""
        self._let_go()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        for name in (
            "ticket",
            "control",
            "asked.json",
            "status.json",
            "status.json.part",
            "status.part",
            "script.py",
        ):
            with contextlib.suppress(OSError):
                (self._directory / name).unlink()
        with contextlib.suppress(OSError):
            self._directory.rmdir()
        if self._alone is not None:
            self._alone.close()

    def _let_go(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _prepare(self) -> None:
        """A directory that the process may write to, and the line that holds its recording."""
        options = self._options
        self._directory.mkdir(parents=True)
        os.mkfifo(self._ticket, 0o600)
        self._lifeline = os.open(self._ticket, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        (self._directory / "asked.json").touch(mode=0o600)  # it has the key of the digests
        (self._directory / "asked.json").write_text(options.as_text(), encoding="utf-8")
        reach.give(self.pid, options.directory.resolve(), (self._directory, *self._directory.iterdir()))

    def _enter(self, version: tuple[int, ...]) -> tuple[dict[str, Any], int | None]:
        stopped_ns: int | None = None
        answer = None
        if version[:2] >= REMOTE_FROM:
            answer = self._ask_interpreter()
        for main_only in (False, True):
            if answer is None:
                done = _order({"pid": self.pid, "script": self._script(), "main_only": main_only})
                stopped_ns = (stopped_ns or 0) + done["stopped_ns"]
                answer = self._answer()
            if answer["state"] == "recording":
                return answer, stopped_ns
            if answer["state"] == "failed":
                raise BadInput(f"process {self.pid}: {answer['error']}", hint=answer["hint"])
            # Its main thread has to do it, at its next bytecode.
            (self._directory / "status.json").unlink()
            answer = None
        raise HostFailed(f"process {self.pid} did not begin to record", hint="try again")

    def _ask_interpreter(self) -> dict[str, Any] | None:
        """Have its main thread run the script at its next bytecode; what it says first.

        None where it does not come to one: it waits in a system call, and no longer has the script.
        """
        script = self._directory / "script.py"
        script.write_text(self._script(), encoding="utf-8")
        reach.give(self.pid, self._directory, (script,))
        order = {"pid": self.pid, "file": str(script)}
        _order(order)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            status = self._status(time.monotonic() + _SOON_S, lambda _status: True)
            if status is not None or self._gone() or self._taken():
                return self._answer()
            waits = reach.system_call(self.pid) is not None
            if waits or time.monotonic() >= deadline:
                break
        # Before the file goes: what it finds no more it would complain of.
        if _order({**order, "withdraw": True})["way"] is not None:
            return self._answer()
        return None if waits else self._answer(0)

    def _taken(self) -> bool:
        return not self._ticket.exists()

    def _script(self) -> str:
        root = Path(contend.__file__).resolve().parent
        return _SCRIPT.format(
            place=str(self._directory),
            file=str(root / "trace" / "inject" / "contend_inject.py"),
            root=str(root.parent),
            hint=_UNREADABLE,
        )

    def _answer(self, patience_s: float = _PATIENCE_S) -> dict[str, Any]:
        """Read what the process says first. Too late, it finds no ticket and does nothing."""
        status = self._status(time.monotonic() + patience_s, lambda _status: True)
        if status is None and not self._gone():
            with contextlib.suppress(FileNotFoundError):
                self._ticket.unlink()
                raise HostFailed(
                    f"process {self.pid} ran no Python for {_PATIENCE_S:g} s: {reach.where(self.pid)}",
                    hint="try again when it works (a request wakes a server); later than now it does nothing",
                )
            # It has just begun.
            status = self._status(time.monotonic() + _LOAD_S, lambda _status: True)
        if status is None and self._gone():
            raise BadInput(f"process {self.pid} ended meanwhile", hint="pgrep -a python lists those that run")
        if status is None:
            raise HostFailed(
                f"process {self.pid} has not loaded contend in {_LOAD_S:g} s", hint="is it very busy?"
            )
        return status

    def _status(self, deadline: float, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """Read what the process tells, once it is wanted; None where that time passes, or it ends, without."""
        path = self._directory / "status.json"
        pause_s = 0.001
        while True:
            gone = self._gone()
            status = _read(path)
            if status is not None and wanted(status):
                return status
            if gone or time.monotonic() >= deadline:
                return None
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)

    def _gone(self) -> bool:
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        return bool(waiting.poll(0))


def _read(path: Path) -> dict[str, Any] | None:
    """The process writes it, perhaps as another user: followed nowhere, and read no further than it can be."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = json.loads(os.read(file, 1 << 16))
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return status if isinstance(status, dict) and isinstance(status.get("state"), str) else None


def _only_one(pid: int) -> socket.socket:
    """Held while one contend is attached; the kernel lets go of it however that ends."""
    alone = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        alone.bind(f"\0contend-attach-{pid}")
    except OSError as error:
        alone.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise BadInput(
            f"another contend is attached to process {pid}", hint="one at a time: end that one (Ctrl-C) first"
        ) from error
    return alone


def _order(order: dict[str, Any]) -> dict[str, Any]:
    """Have contend-probe do it: it alone may need rights."""
    program = installed()
    try:
        done = subprocess.run(
            (program, "inject", json.dumps(order)),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=_LONGEST_ORDER_S,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise HostFailed(f"{program} does not work: {error}", hint="make setup") from error
    if "error" in answer:
        raise (BadInput if answer["bad_input"] else HostFailed)(answer["error"], hint=answer["hint"])
    return answer


def _check(pid: int, known: dict[str, Any]) -> None:
    """True if our native module can be loaded there, and how the process can be asked to."""
    major, minor, _ = known["python"]
    version = f"{major}.{minor}"
    if known["musl"] and platform.libc_ver()[0] == "glibc":
        raise BadInput(
            f"process {pid} uses musl, this contend glibc",
            hint="install contend where the program is, in its container, and run it there",
        )
    if (major, minor) < OLDEST:
        raise BadInput(f"process {pid} runs Python {version}", hint="contend traces CPython 3.11 and newer")
    if known["free_threaded"] and (major, minor) < REMOTE_FROM:
        raise BadInput(
            f"process {pid} runs a free-threaded Python {version}",
            hint="of those, contend attaches to 3.14 and newer",
        )
    if known["free_threaded"] and not reach.has_native(f"{major}{minor}t"):
        raise BadInput(
            f"process {pid} runs a free-threaded Python {version}, for which this contend has no native module",
            hint=f"install contend with a python{version}t, and run that one: docs/guides/tracing.md",
        )
    if (major, minor) >= REMOTE_FROM and known["remote"] is None:
        raise BadInput(
            f"process {pid} runs Python {version}, whose remote execution this contend does not know",
            hint="start the program with: contend trace -- COMMAND",
        )
