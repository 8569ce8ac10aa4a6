"""contend's verbs over hostile input, each in a child of its own with a bound on its memory and its time.

A server is started once that has imported the command line; it forks for each call, so that thousands of inputs cost no
thousand starts. Run as a program this file is that server: a line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEMORY = 1536 << 20  # of addresses, which numpy and duckdb ask for in plenty
SECONDS = 20.0  # of wall; an input that is refused takes some tens of milliseconds
MISTAKE = "mistake in contend itself"


@dataclass(frozen=True)
class Answer:
    """How a call ended: its exit code (or minus the signal), what it printed, and what it took."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    cpu_s: float
    max_rss_mib: float

    def __str__(self) -> str:
        line = " ".join(word[:80] for word in self.words)
        return (
            f"contend {line}\nexit {self.code} after {self.seconds:.2f} s, {self.max_rss_mib:.0f} MiB\n"
            f"--- stdout\n{self.out[:2000]}\n--- stderr\n{self.err[:2000]}"
        )

    def refused(self, code: int = 2) -> Answer:
        """One error of a few lines with its hint, nothing else; the exit code of bad input."""
        assert self.code == code, self
        lines = self.err.splitlines()
        errors = [n for n, line in enumerate(lines) if line.startswith("error: ")]
        assert len(errors) == 1, self
        assert any(line.startswith("  hint: ") for line in lines[errors[0] + 1 :]), self
        assert len(self.err) < 5_000, f"an error of {len(self.err)} characters\n{self}"
        return self.calm()

    def calm(self) -> Answer:
        """Whatever it said, it was no accident."""
        assert self.code >= 0, self
        assert "Traceback" not in self.err + self.out, self
        assert MISTAKE not in self.err, self
        assert not any(c in self.err for c in "\x1b\x07\x00"), self
        return self


class Contend:
    """Calls `contend WORDS…` in forks of one server, in `home`."""

    def __init__(self, server: subprocess.Popen[bytes], home: Path) -> None:
        self._server = server
        self.home = home

    def __call__(
        self,
        *words: str,
        stdin: bytes = b"",
        seconds: float = SECONDS,
        memory: int = MEMORY,
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        given = stdin.decode("latin-1")
        asked = {"words": words, "stdin": given, "seconds": seconds, "memory": memory, "env": dict(env or {})}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked).encode() + b"\n")
        self._server.stdin.flush()
        told = json.loads(self._server.stdout.readline())
        return Answer(words, **told)

    def file(self, name: str, content: bytes | str) -> str:
        """A file in its home; the name, to be given to a verb."""
        data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
        (self.home / name).write_bytes(data)
        return name


@contextmanager
def contend_server(home: Path) -> Iterator[Contend]:
    """A server whose state, configuration and working directory are in `home`."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(home),
        "COLUMNS": "200",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("CONTEND_RUNS", None)
    environment.pop("CONTEND_DEBUG", None)
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=home,
        env=environment,
    )
    try:
        yield Contend(server, home)
    finally:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


def _serve() -> None:
    # What most verbs import, so that no child pays for it. None of it starts threads.

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin.buffer:
        print(json.dumps(_one(json.loads(line))), file=answers, flush=True)


def _one(asked: dict[str, object]) -> dict[str, object]:
    import time

    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(str(asked["stdin"]).encode("latin-1"))
        given.seek(0)
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child((given.fileno(), out.fileno(), err.fileno()), asked)
        _, status, used = os.wait4(pid, 0)
        seconds = time.monotonic() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 22).decode("utf-8", "replace"))
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "err": texts[1],
        "seconds": seconds,
        "cpu_s": used.ru_utime + used.ru_stime,
        "max_rss_mib": used.ru_maxrss / 1024,
    }


def _child(streams: Sequence[int], asked: dict[str, object]) -> None:
    for target, source in enumerate(streams):
        os.dup2(source, target)
    os.setsid()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    memory, seconds = int(str(asked["memory"])), float(str(asked["seconds"]))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    words = [str(word) for word in asked["words"]]  # type: ignore[attr-defined]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.argv = ["contend", *words]
    from contend import cli

    code = 70
    try:
        code = cli.run(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the harness tells it as contend's own end
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
