"""CPUs that a run takes offline for a while, and that come back whatever happens.

Before a CPU goes, the ledger says that it will, and what the kernel narrows with it is kept beside. So `contend destroy`
brings it back after a crash, and before that a process that waits for the run's death does: see
`contend.platforms.hotplug_guard`.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from contend import files
from contend.errors import CannotHonour, HostFailed
from contend.platforms import hotplug_guard, masks, procfs
from contend.platforms.hotplug import CPUS, FILE, KIND, restore, switch, why_not
from contend.platforms.topology import format_cpu_list
from contend.store.ledger import Ledger


class Hotplug:
    """The CPUs of this host for one run. One run at a time: the directory of CPUs is locked meanwhile.

    Raises CannotHonour where another run has it.
    """

    def __init__(self, run_id: str, ledger: Ledger, directory: Path, cpus: Path = CPUS) -> None:
        """directory: of the run. What is narrowed is kept where the ledger is."""
        self._run_id, self._ledger, self._cpus, self._directory = run_id, ledger, cpus, directory
        self._saved = ledger.path.parent / FILE
        self._gone: tuple[int, ...] = ()
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock = os.open(cpus, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise CannotHonour(
                "another run takes CPUs of this host offline", hint="wait for its end; contend destroy --all"
            ) from error

    @property
    def gone(self) -> tuple[int, ...]:
        """CPUs that this run has taken offline."""
        return self._gone

    def take(self, gone: Iterable[int]) -> None:
        """Take these CPUs offline; this run must have none offline. Raises HostFailed; all are online again then."""
        wanted = tuple(sorted(gone))
        root = masks.cpuset_root()
        if why := why_not(wanted, self._cpus, root):
            raise HostFailed(
                f"CPU {format_cpu_list(wanted)} cannot be taken offline: {why}",
                hint="--set hosts_by=confined",
            )
        kept = masks.save(wanted, root) | {"boot_id": procfs.boot_id()}
        files.write(self._saved, json.dumps(kept).encode())  # on the disk: a crash a moment later needs it
        name = format_cpu_list(wanted)
        self._ledger.intend(KIND, name, run=self._run_id, boot_id=procfs.boot_id())
        self._gone = wanted
        if self._guard is None:
            self._guard = hotplug_guard.start(self._directory, self._cpus)
        try:
            for cpu in wanted:
                switch(cpu, "0", self._cpus)
        except HostFailed:
            self.bring_back()
            raise

    def bring_back(self) -> None:
        """Bring all CPUs online that this run took. Idempotent. Raises HostFailed, and leaves them in the ledger then."""
        if self._gone:
            restore(self._gone, self._saved, self._cpus)
            self._ledger.removed(KIND, format_cpu_list(self._gone))
            self._gone = ()

    def close(self) -> None:
        try:
            self.bring_back()
        finally:
            if self._guard is not None:
                self._guard.communicate()
                self._guard = None
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1
