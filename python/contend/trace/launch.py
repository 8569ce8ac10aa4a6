"""Run a program, traced: its environment, its end."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import contend


@dataclass(frozen=True)
class TraceOptions:
    """Options of `contend trace`."""

    directory: Path
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    buffer_bytes: int = 32 << 20
    overflow: str = "drop"
    cpu_times: bool = False
    run_delay: bool = False
    gil: bool = True
    gc: bool = True
    io: bool = True
    blocked_after_ms: float = 10
    digests: bool = True
    key: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """Of the digests of arguments, which all processes of the recording share; never in the trace."""

    def as_text(self) -> str:
        """The options as JSON text, for the traced process."""
        document = {**asdict(self), "directory": str(self.directory.resolve())}
        if not self.digests:
            del document["key"]
        return json.dumps(document)


def environment(options: TraceOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of the traced program and its children: contend's sitecustomize comes before their own."""
    package = Path(contend.__file__).resolve().parent
    path = [str(package / "trace" / "inject"), *filter(None, [environ.get("PYTHONPATH")])]
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(path),
        "CONTEND_TRACE_PACKAGE": str(package.parent),
        "CONTEND_TRACE": options.as_text(),
    }


def run(options: TraceOptions, command: Sequence[str]) -> int:
    """Run a command to its end and return its exit code, 128 + N if signal N ended it. It has the terminal, and gets
    the signals.

    Raises OSError if it cannot be started.
    """
    options.directory.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(list(command), env=environment(options, os.environ))
    with _signals_go_to(child):
        ended = child.wait()
    return 128 - ended if ended < 0 else ended


@contextmanager
def _signals_go_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """A Ctrl-C reaches the child by the terminal; what is sent to us alone is handed on."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        **{
            number: signal.signal(number, lambda number, _frame: child.send_signal(number))
            for number in (signal.SIGTERM, signal.SIGHUP)
        },
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
