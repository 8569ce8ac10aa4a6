"""The processes of both ends: starts them, exchanges lines of JSON with them, ends them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from contend.errors import HostFailed
from contend.workloads.drivers.rpc import native
from contend.workloads.drivers.rpc.options import URL, End

_START_S = 120.0
_END_S = 15.0


class Starter(Protocol):
    """Starts processes and finds them again, as a test bed does. options: as subprocess.Popen takes them."""

    def popen(
        self, command: Sequence[str], env: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[Any]: ...


class Process:
    """The process of one end. It ends with its parent.

    command: a program that is spoken to as `contend.workloads.drivers.rpc.end` is, for an end by a library that contend does
    not know. A native one is contend-rpc.
    """

    def __init__(
        self,
        end: End,
        url: str,
        environment: Mapping[str, str],
        command: Sequence[str] = (),
        of: Starter | None = None,
    ) -> None:
        """environment: beside this process's own. of: the bed that it belongs to. Raises CannotHonour."""
        self.end = end
        self.queues: list[str] = []
        own = {**os.environ, **environment, URL: url}
        if end.library == "native":
            del own[URL]  # of the user's, too: it reads the order alone
            command, first = [str(native.program())], json.dumps(native.order(end, url))
        else:
            # Its libraries warn of each other's deprecations.
            command = command or [
                sys.executable,
                "-P",
                "-W",
                "ignore",
                "-m",
                "contend.workloads.drivers.rpc.end",
            ]
            first = end.to_json()
        start = subprocess.Popen if of is None else of.popen
        self._process = start(
            command,
            env=own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tell(first)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_ns(self) -> int:
        return cpu_ns(self.pid)

    def ready(self) -> None:
        """Wait until the end is ready. Raises BadInput for wrong input of the user's, HostFailed for everything else."""
        self.hear(_START_S)

    def ask(self, line: str, limit_s: float) -> dict[str, Any]:
        self.tell(line)
        return self.hear(limit_s)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: hear() says how
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def hear(self, limit_s: float) -> dict[str, Any]:
        """Read its next answer. Raises the error that it reports, and HostFailed if it ends or is silent for `limit_s`."""
        stdout = self._process.stdout
        assert stdout is not None
        what = f"the {self.end.role} ({self.end.library})"
        if not select.select([stdout], [], [], limit_s)[0]:
            raise HostFailed(f"{what} said nothing for {limit_s:.0f} s", hint="does the broker still answer?")
        answer = self._next(stdout)
        if answer is None:
            code = self._process.wait(_END_S)
            raise HostFailed(f"{what} ended with {code}", hint="what it said is on standard error")
        if "error" in answer:
            raise native.error_of(answer)
        return answer

    def _next(self, stdout: IO[str]) -> dict[str, Any] | None:
        """Its next answer; None after the last."""
        for line in stdout:
            try:
                answer: dict[str, Any] = json.loads(line)
            except ValueError:  # an answer that was cut short, or the end of one
                continue
            self._learn(answer)
            if "over" not in answer:
                return answer
        return None

    def _learn(self, answer: Mapping[str, Any]) -> None:
        self.queues += [name for name in answer.get("queues", ()) if name not in self.queues]

    def close(self) -> None:
        """Idempotent."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if self._process.stdout.closed:
            return
        # It may be in the middle of an answer: all is read, its queues stand at the end.
        late = threading.Timer(_END_S, self._process.kill)
        late.start()
        try:
            while self._next(self._process.stdout) is not None:
                pass
            self._process.wait()
        finally:
            late.cancel()
        self._process.stdout.close()


def hear_all(processes: Sequence[Process], limit_s: float) -> list[dict[str, Any]]:
    """Read one answer of each process."""
    deadline = time.monotonic() + limit_s
    return [process.hear(max(1.0, deadline - time.monotonic())) for process in processes]


def cpu_ns(pid: int) -> int:
    """CPU time of a process of any user so far, ns, with all its threads, those that have ended too.

    The clock that clock_getcpuclockid(3) makes of the pid. Raises HostFailed where the process has gone.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError as error:
        raise HostFailed(f"process {pid} has ended", hint="its log says why") from error
