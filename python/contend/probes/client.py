"""Talks to contend-probe, the program that records a host while something runs there.

It is a program of its own so that only it needs privileges, and so that sampling costs the interpreter nothing: no
thread of ours wakes until the rows are asked for. The protocol is in crates/probe/src/wire.rs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.errors import BadInput, HostFailed, ProbeEnded
from contend.platforms import programs
from contend.probes.base import Coded, Cost

if TYPE_CHECKING:
    from contend.probes.base import Column, Table

_PATIENCE_S = 5.0
# A probe that answers nothing for so long is stopped or stuck; who waits for it may be waited for by a command.
SILENCE_S = 20.0


def program() -> Path | None:
    """Path of contend-probe; None where there is none.

    >>> found = program()
    >>> found is None or found.name == "contend-probe"
    True
    """
    return programs.find("contend-probe")


def probe_check() -> dict[str, Any]:
    """Ask the probe what it may do here. Raises HostFailed where it cannot be asked.

    >>> sorted(probe_check())[:2]
    ['no_bpf', 'probe']
    """
    program = installed()
    try:
        done = subprocess.run(
            (program, "check"), capture_output=True, text=True, timeout=SILENCE_S, check=True
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise HostFailed(f"{program} does not work: {reason}", hint="make setup") from error
    return answer


def installed() -> Path:
    """Path of contend-probe. Raises HostFailed where there is none."""
    return programs.installed("contend-probe")


def record_all(
    interval_ms: float,
    *,
    cpus: Sequence[int] | None = None,
    source: str = "auto",
    sched: str = "",
    stacks: bool = False,
) -> dict[str, Any]:
    """Make the configuration of a probe that records everything this build can.

    `cpus`: those the probe keeps to. `source`: of the processes' figures. `sched`: whose scheduler histograms
    (process, cgroup, thread), none when it is empty; they need BPF. `stacks`: with them, where tasks blocked.
    """
    config: dict[str, Any] = {
        "interval_ms": interval_ms,
        "host": True,
        "processes": True,
        "source": source,
        "cpus": None if cpus is None else list(cpus),
    }
    if sched:
        # Its programs run on everybody's time: only then is the kernel asked to count it.
        config |= {"sched": {"by": sched, **({"stacks": True} if stacks else {})}, "bpf_stats": True}
    return config


@dataclass(frozen=True, slots=True)
class Drained:
    """Rows recorded since the last drain, by table, and the probe's own cost since it began."""

    coded: Mapping[str, Coded]
    cost: Cost

    @property
    def tables(self) -> Mapping[str, Table]:
        """Rows by table, with names written out; made again at every use."""
        return {name: table.decoded() for name, table in self.coded.items()}


class ProbeProcess:
    """One running contend-probe. Ends with this object, or with this process however that ends.

    >>> probe = ProbeProcess({"interval_ms": 5, "host": True})
    >>> sorted(probe.stop().tables)
    ['cpu', 'disk', 'host', 'net', 'qdisc']
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Start it. Raises BadInput for a value that cannot be, HostFailed where it cannot run here."""
        program = installed()
        try:
            # A session of its own: Ctrl-C is for contend, which then stops the probe in order.
            self._process = subprocess.Popen(
                (program, "serve", json.dumps(config)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise HostFailed(f"cannot start {program}: {error.strerror}", hint="make setup") from error
        # Dropped without stop, as after an exception, it ends all the same: at the end of its stdin.
        self._finalizer = weakref.finalize(self, _end, self._process)
        assert self._process.stdout is not None
        self._answers = _Answers(self._process.stdout.fileno())
        self._names: dict[str, dict[str, list[str]]] = {}
        self._cost = Cost(cpu_ns=0, samples=0)
        self._ended = False
        hello = self._line()
        if "error" in hello:
            self._end()
            kind = BadInput if hello["bad_input"] else HostFailed
            raise kind(hello["error"], hint=hello["hint"])
        self.version: str = hello["probe"]
        self.sources: dict[str, str] = dict(hello["sources"])
        self.notes: tuple[str, ...] = tuple(hello["notes"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def drain(self) -> Drained:
        """Take the rows since the last drain; none after the end. Raises ProbeEnded, once, when the probe has died:
        those rows are lost."""
        if self._ended:
            return Drained({}, self._cost)
        self._tell(b"drain\n")
        return self._tables()

    def stop(self) -> Drained:
        """End the probe and return the rest of the rows, with a last sample taken now. Idempotent. Raises as
        `drain`."""
        if self._ended:
            return Drained({}, self._cost)
        self._tell(b"stop\n")
        rest = self._tables()
        self._end()
        return rest

    def _tell(self, what: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(what)
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def _line(self) -> dict[str, Any]:
        try:
            line = self._answers.line()
        except EOFError:
            raise self._died() from None
        except TimeoutError:
            raise self._silent() from None
        read: dict[str, Any] = json.loads(line)
        return read

    def _end(self) -> None:
        self._ended = True
        self._finalizer()

    def _died(self) -> ProbeEnded:
        self._end()
        code = self._process.returncode
        how = f"status {code}" if code is not None and code >= 0 else f"signal {-(code or 0)}"
        return ProbeEnded(
            f"contend-probe ended early ({how})",
            hint="what it recorded since the last drain is lost; the kernel's log may say why (dmesg)",
        )

    def _silent(self) -> ProbeEnded:
        self._process.kill()
        self._end()
        return ProbeEnded(
            f"contend-probe said nothing for {SILENCE_S:g} s and was ended",
            hint="was it stopped (kill -STOP)? what it recorded since the last drain is lost",
        )

    def _tables(self) -> Drained:
        import numpy as np

        header = self._line()
        tables: dict[str, Coded] = {}
        for described in header["tables"]:
            name, rows, columns = described["name"], described["rows"], described["columns"]
            names = self._names.setdefault(name, {})
            for column, new in described["names"]:
                names.setdefault(column, []).extend(new)
            try:
                data = self._answers.block(8 * rows * len(columns))
            except EOFError:
                raise self._died() from None
            except TimeoutError:
                raise self._silent() from None
            values = np.frombuffer(data, dtype="<u8").reshape(len(columns), rows)
            by_name: dict[str, Column] = dict(zip(columns, values, strict=True))
            tables[name] = Coded(by_name, names)
        self._cost = Cost(**header["cost"])
        return Drained(tables, self._cost)


class _Answers:
    """Lines and blocks of known length from a pipe. Raises EOFError at its end, TimeoutError in a long silence."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._pending = bytearray()

    def line(self) -> bytes:
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            self._wait()
            self._take(os.read(self._descriptor, 1 << 16))
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        return line

    def block(self, length: int) -> bytearray:
        block = self._pending[:length]
        del self._pending[:length]
        have = len(block)
        block.extend(bytes(length - have))
        with memoryview(block) as view:
            while have < length:
                self._wait()
                read = os.readv(self._descriptor, [view[have:]])
                if not read:
                    raise EOFError
                have += read
        return block

    def _take(self, data: bytes) -> None:
        if not data:
            raise EOFError
        self._pending += data

    def _wait(self) -> None:
        deadline = time.monotonic() + SILENCE_S
        while not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            if time.monotonic() >= deadline:
                raise TimeoutError


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what is buffered for a process that is gone
                pipe.close()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
