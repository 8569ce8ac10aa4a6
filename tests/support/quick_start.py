"""Starts of `contend` at the cost of a fork: a process per worker has its modules imported, and each start is a child of it.

A start of a new interpreter takes most of a second of CPU time, nearly all of it imports; a test of the command line has
dozens. What a child of fork does is otherwise the real thing: a process and a session of its own, the caller's streams,
environment and working directory, an exit status. It can leave nothing in the tests' process, nor in the next start. What
an interpreter reads once, when it starts (PYTHON*, the locale), must be as it was for the process that forks: `possible`
says so. That each verb starts by itself too is tested by tests/system/cli/test_cli_starts.py.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

CONTEND = str(Path(sys.executable).with_name("contend"))
# What is read when an interpreter, or a library, starts.
EARLY = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "ARROW_", "MALLOC_", "TZ")
# What nearly every verb imports before its work, and what takes long.
WARM = (
    *(
        f"contend.cli.{path.stem}"
        for path in sorted(Path(__file__).parents[2].glob("python/contend/cli/*_.py"))
    ),
    *(
        "contend.engine.run",
        "contend.analysis.run",
        "contend.engine.doctor",
        "contend.report.html",
        "contend.report.terminal",
    ),
    *("contend._native", "duckdb", "jinja2", "numpy", "rich.console", "rich.table"),
)
TEMPLATES = ("report.html.j2", "sample.html.j2")
"""Compiled in the process that forks: pure text, and half of what a page takes."""


def possible(env: Mapping[str, str]) -> bool:
    """Does a fork of a process with this process's environment start as an interpreter with that one would?"""
    return _early(env) == _early(os.environ)


def _early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(EARLY)}


class Starter:
    """The process that forks."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        """What the starts that have ended took, with what they waited for."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        # Of no test, for support.left_behind.
        env = {**os.environ, "PYTEST_CURRENT_TEST": "what starts contend (fixture of a session)"}
        with theirs:
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        self._socket.close()
        self._process.wait()
        self._said.close()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> AssertionError:
        """Why it has ended, in its own words."""
        code = self._process.wait(timeout=10)
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        return AssertionError(f"what starts contend has ended with {code}: {said or 'it said nothing'}")

    def start(
        self, words: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], streams: Sequence[int]
    ) -> Started:
        """`contend WORDS` with these as its standard input, output and error."""
        asked = json.dumps({"words": [os.fspath(word) for word in words], "cwd": str(cwd), "env": dict(env)})
        told, telling = os.pipe()
        try:
            with os.fdopen(os.memfd_create("contend-start"), "w+b") as memory:
                memory.write(asked.encode("utf-8", "surrogateescape"))
                memory.seek(0)
                socket.send_fds(self._socket, [b"."], [memory.fileno(), telling, *streams])
        except OSError as error:
            os.close(told)
            raise self.ended() from error
        finally:
            os.close(telling)
        return Started(self, os.fdopen(told, encoding="ascii"))


class Started:
    """One start. Whoever made it waits for it."""

    def __init__(self, starter: Starter, told: IO[str]) -> None:
        self._starter, self._told = starter, told
        line = told.readline()
        if not line:
            told.close()
            raise starter.ended()
        self.pid = int(line)

    def kill(self) -> None:
        """Until `wait` has returned its process is there, if only as a zombie."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit status, as subprocess has it."""
        with self._told:
            line = self._told.readline()
        if not line:
            raise self._starter.ended()
        ended = json.loads(line)
        self._starter.cpu_s += ended["cpu_s"]
        return int(ended["code"])


_here: list[Starter] = []
_making = threading.Lock()


def starter() -> Starter:
    """This process's, made when it is first wanted; another if it has ended, so that one test fails and not all."""
    with _making:
        if not _here or not _here[-1].runs:
            _here.append(Starter())
        return _here[-1]


def end() -> None:
    """The process that forks, if there is one; for the end of a run."""
    while _here:
        _here.pop().close()


def cpu_s() -> float:
    """What all starts of this process took, so far."""
    return sum(each.cpu_s for each in _here)


def run(
    words: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], timeout: float, errors: str = "strict"
) -> subprocess.CompletedProcess[str]:
    """As subprocess.run has it, with captured output and nothing to read."""
    with (
        Path(os.devnull).open("rb") as nothing,
        contextlib.ExitStack() as pipes,
    ):
        ends = [os.pipe() for _ in range(2)]
        readers = [pipes.enter_context(os.fdopen(read, "rb")) for read, _ in ends]
        try:
            started = starter().start(
                words, cwd=cwd, env=env, streams=[nothing.fileno(), *(write for _, write in ends)]
            )
        finally:
            for _, write in ends:
                os.close(write)
        try:
            out, err = _read_all(readers, time.monotonic() + timeout)
        except TimeoutError:
            started.kill()
            started.wait()
            raise subprocess.TimeoutExpired([CONTEND, *words], timeout) from None
        except BaseException:
            started.kill()
            started.wait()
            raise
        code = started.wait()
    return subprocess.CompletedProcess([CONTEND, *words], code, _text(out, errors), _text(err, errors))


def _read_all(readers: Sequence[IO[bytes]], until: float) -> list[bytes]:
    """What each gives to its end. Raises TimeoutError."""
    parts: dict[int, list[bytes]] = {reader.fileno(): [] for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if part := os.read(key.fd, 1 << 16):
                    parts[key.fd].append(part)
                else:
                    selector.unregister(key.fileobj)
    return [b"".join(parts[reader.fileno()]) for reader in readers]


def _text(said: bytes, errors: str) -> str:
    """As subprocess decodes it."""
    return io.TextIOWrapper(io.BytesIO(said), errors=errors).read()


# The process that forks


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork for every request. Returns in each child, with what is asked of it; ends with whoever asks."""
    telling: dict[
        int, tuple[int, int]
    ] = {}  # by the handle of a child: its pid, and the pipe of whoever waits
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    _tell_end(*telling.pop(key.fd))
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    continue
                message, fds, _, _ = socket.recv_fds(requests, 1, 5)
                if not message:
                    # Whoever asks has ended, a killed one too: nobody waits for these any more.
                    for pid, _ in telling.values():
                        os.kill(pid, signal.SIGTERM)
                    os._exit(0)
                memory, tell, *streams = fds
                pid = os.fork()
                if pid == 0:
                    os.close(tell)
                    for handle, (_, other) in telling.items():
                        os.close(handle)
                        os.close(other)
                    return {**json.loads(_whole(memory)), "streams": streams}
                for fd in (memory, *streams):
                    os.close(fd)
                handle = os.pidfd_open(pid)
                try:
                    os.write(tell, f"{pid}\n".encode())
                except BrokenPipeError:  # a test's time was over while it asked
                    os.kill(pid, signal.SIGKILL)
                telling[handle] = (pid, tell)
                selector.register(handle, selectors.EVENT_READ)


def _whole(memory: int) -> str:
    with os.fdopen(memory, "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")


def _tell_end(pid: int, tell: int) -> None:
    _, status, usage = os.wait4(pid, 0)
    ended = {"code": os.waitstatus_to_exitcode(status), "cpu_s": usage.ru_utime + usage.ru_stime}
    with contextlib.suppress(BrokenPipeError):
        os.write(tell, json.dumps(ended).encode() + b"\n")
    os.close(tell)


def _become(asked: dict[str, Any]) -> None:
    """What the interpreter of a new process has from whoever starts it."""
    os.setsid()
    for number, fd in enumerate(asked["streams"]):
        os.dup2(fd, number)  # inheritable
        os.close(fd)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = [CONTEND, *asked["words"]]
    sys.orig_argv = [sys.executable, CONTEND, *asked["words"]]
    sys.modules["__main__"].__file__ = CONTEND
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        was = getattr(sys, name)
        stream = open(  # noqa: SIM115 - it lasts as long as the process
            was.fileno(),
            mode,
            encoding=was.encoding,
            errors=was.errors,
            closefd=False,
        )
        if name == "stderr":
            stream.reconfigure(line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _main(number: int) -> None:
    sys.path[0] = str(Path(CONTEND).parent)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for name in WARM:
        importlib.import_module(name)
    from contend.cli import main
    from contend.report.html import templates

    for name in TEMPLATES:
        templates().get_template(name)
    gc.freeze()  # else the first collection in each child copies the memory

    requests = socket.socket(fileno=number)
    requests.setblocking(True)
    os.set_inheritable(number, False)
    asked = _serve(requests)
    requests.close()
    _become(asked)
    sys.exit(main())


if __name__ == "__main__":
    _main(int(sys.argv[1]))
