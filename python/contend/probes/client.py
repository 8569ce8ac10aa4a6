"""Talks to contend-probe, the program that records a host while something runs there.

It is a program of its own so that only it needs privileges, and so that sampling costs the interpreter nothing: no
thread of ours wakes until the rows are asked for. The protocol is in crates/probe/src/wire.rs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from contend.errors import BadInput, HostFailed
from contend.probes.base import Cost

if TYPE_CHECKING:
    from contend.probes.base import Table

_PATIENCE_S = 5.0


def program() -> Path | None:
    """The contend-probe named by CONTEND_PROBE, that of this Python, or the one on PATH; None where there is none.

    >>> found = program()
    >>> found is None or found.name == "contend-probe"
    True
    """
    named = os.environ.get("CONTEND_PROBE")
    if named:
        return Path(named)
    beside = Path(sys.executable).with_name("contend-probe")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("contend-probe")
    return None if found is None else Path(found)


@dataclass(frozen=True, slots=True)
class Drained:
    """What was recorded since the last drain, by table, and the probe's own cost since it began."""

    tables: Mapping[str, Table]
    cost: Cost


class ProbeProcess:
    """One running contend-probe. Ends with this object, or with this process however that ends.

    >>> probe = ProbeProcess({"interval_ms": 5, "host": True})
    >>> sorted(probe.stop().tables)
    ['cpu', 'disk', 'host', 'net']
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Start it. Raises BadInput for a value that cannot be, HostFailed where it cannot run here."""
        found = program()
        if found is None:
            raise HostFailed(
                "contend-probe is not installed", hint="make setup, or pip install contend-probe"
            )
        try:
            # A session of its own: Ctrl-C is for contend, which then stops the probe in order.
            self._process = subprocess.Popen(
                (found, "serve", json.dumps(config)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise HostFailed(f"cannot start {found}: {error.strerror}", hint="make setup") from error
        # Dropped without stop, as after an exception, it ends all the same: at the end of its stdin.
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._names: dict[tuple[str, str], list[str]] = {}
        self._last: Drained | None = None
        hello = self._line()
        if "error" in hello:
            self._finalizer()
            kind = BadInput if hello["bad_input"] else HostFailed
            raise kind(hello["error"], hint=hello["hint"])
        self.version: str = hello["probe"]
        self.sources: dict[str, str] = dict(hello["sources"])
        self.notes: tuple[str, ...] = tuple(hello["notes"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def drain(self) -> Drained:
        """The rows since the last drain. Raises HostFailed when the probe has died; those rows are lost."""
        if self._last is not None:
            return Drained({}, self._last.cost)
        self._tell(b"drain\n")
        return self._tables()

    def stop(self) -> Drained:
        """The rest of the rows, with a last sample taken now; the probe has ended then. Idempotent."""
        if self._last is not None:
            return Drained({}, self._last.cost)
        self._tell(b"stop\n")
        self._last = self._tables()
        self._finalizer()
        return self._last

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _tell(self, what: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(what)
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def _line(self) -> dict[str, Any]:
        line = self._pipe.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        read: dict[str, Any] = json.loads(line)
        return read

    def _died(self) -> HostFailed:
        self._finalizer()
        code = self._process.returncode
        how = f"status {code}" if code is not None and code >= 0 else f"signal {-(code or 0)}"
        return HostFailed(
            f"contend-probe ended early ({how})",
            hint="what it recorded since the last drain is lost; the kernel's log may say why (dmesg)",
        )

    def _tables(self) -> Drained:
        import numpy as np

        header = self._line()
        tables: dict[str, Table] = {}
        for described in header["tables"]:
            name, rows = described["name"], described["rows"]
            for column, new in described["names"]:
                self._names.setdefault((name, column), []).extend(new)
            table: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
            for column in described["columns"]:
                data = self._pipe.read(8 * rows)
                if len(data) != 8 * rows:
                    raise self._died()
                values = np.frombuffer(data, dtype="<u8")
                names = self._names.get((name, column))
                table[column] = values if names is None else _named(names, values)
            tables[name] = table
        return Drained(tables, Cost(**header["cost"]))


def _named(names: Sequence[str], positions: Any) -> Any:
    import numpy as np

    return np.array(names, dtype=object)[positions.astype(np.intp)]


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
