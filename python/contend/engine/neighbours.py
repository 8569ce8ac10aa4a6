"""A trial's neighbours: started, and proven to use their resource before the victim runs and while it does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.engine.output import last_words
from contend.engine.seating import Seat, wait_ready
from contend.errors import TrialFailed
from contend.platforms import procfs
from contend.platforms.base import Command, Process
from contend.workloads.variables import expand_argv, expand_env

# A neighbour must have shown over this long, before the victim starts, that it uses its resource.
BURN_WINDOW_S = 0.1
BURN_TIMEOUT_S = 15.0
KILL_S = 2.0
# Rates that count as burning when the workload does not say: CPUs' worth of CPU time, bytes a second.
LOOPBACK_BURN_RATE = 0.005  # of a server on loopback, where nobody counts its bytes: CPUs
BURN_RATE = {"cpu": 0.3, "memory": 0.3, "lock": 0.1, "disk": 1e6, "network": 1e6}
# Once the victim is there too it may be left with little. Of a CPU it must have used, or have been ready for, so much of
# that rate: what a fair share of few CPUs does not give it, it still wants. Of anything else, where nobody counts what it
# wants, it must have had something.
WANTED_DURING = 0.5
HAD_DURING = 0.02


@dataclass
class Burning:
    """One running neighbour and the proof that it runs."""

    seat: Seat
    processes: list[Process]
    errors: Path
    before: float = 0.0
    during: float = 0.0
    waited: float | None = None  # CPUs that it was ready for and another had; None: not known
    mark: float = 0.0
    mark_ns: int = 0
    mark_ready_s: float | None = None
    counter: Path | None = None  # the file that tells what it has used, where that is not on this host
    ended: bool = False  # it had gone when the victim was done: it burnt for a part of the window at most

    @property
    def resource(self) -> str:
        return self.seat.participant.instance.workload.dominant

    @property
    def least(self) -> float:
        if self.resource == "network" and self.seat.network is None and self.counter is None:
            return LOOPBACK_BURN_RATE * self.seat.participant.instance.share
        instance = self.seat.participant.instance
        wanted = instance.workload.neighbour.burning
        return instance.share * (wanted if wanted is not None else BURN_RATE[self.resource])

    def used(self) -> float:
        """Cumulative use of its resource: CPU seconds, or bytes read and written."""
        if self.counter is not None:
            return _number(self.counter)
        if self.resource == "network" and self.seat.network is not None:
            return float(self.seat.network.bytes())
        usage = self.seat.host.usage()
        if self.resource != "disk":
            # A server and what asks of it stand on the same CPUs, and either may be the one that keeps them busy.
            asks = self.seat.load.usage() if self.seat.load is not None else None
            return ((usage.cpu_ns or 0) + ((asks and asks.cpu_ns) or 0)) / 1e9
        if usage.read_bytes is not None and usage.write_bytes is not None:
            return float(usage.read_bytes + usage.write_bytes)
        return float(sum(disk_bytes(pid) for pid in self.seat.host.pids()))

    def begin(self) -> None:
        """Count from here on."""
        self.mark, self.mark_ready_s, self.mark_ns = self.used(), self._ready_s(), time.monotonic_ns()

    def count(self) -> None:
        """Count what it did and wanted since `begin`."""
        spent_s = (time.monotonic_ns() - self.mark_ns) / 1e9
        self.during = (self.used() - self.mark) / spent_s
        ready_s = self._ready_s()
        if ready_s is not None and self.mark_ready_s is not None:
            self.waited = max(0.0, ready_s - self.mark_ready_s) / spent_s
        self.ended = not self.processes[-1].alive()

    def _ready_s(self) -> float | None:
        """Time that its tasks were ready for a CPU, s; None of one that is not about CPUs, or whose tasks are out of
        sight."""
        if self.resource in ("disk", "network") or self.counter is not None or not self.seat.host.visible:
            return None
        hosts = [self.seat.host] if self.seat.load is None else [self.seat.host, self.seat.load]
        return sum(procfs.ready_ns(pid) for host in hosts for pid in host.pids()) / 1e9

    @property
    def is_burning(self) -> bool:
        """It used its resource, or wanted to, for all of the time."""
        if self.ended:
            return False
        if self.least == 0:
            return True
        if self.waited is None:
            return self.during > HAD_DURING * self.least
        return self.during > 0 and self.during + self.waited >= WANTED_DURING * self.least

    def stop(self) -> None:
        """Stop the neighbour at once; one whose work is elsewhere has its time to end that."""
        grace_s = self.seat.participant.instance.workload.neighbour.grace / 1e9
        for process in reversed(self.processes):
            process.stop("TERM" if grace_s else "KILL", grace_s or KILL_S)

    def to_json(self) -> dict[str, Any]:
        of_bytes = self.resource == "disk" or (
            self.resource == "network" and (self.seat.network is not None or self.counter is not None)
        )
        return {
            "name": self.seat.participant.label,
            "resource": self.resource,
            "before": self.before,
            "during": self.during,
            "unit": "B/s" if of_bytes else "CPUs",
            **({} if self.waited is None else {"waited": self.waited}),
            "burning": self.is_burning,
        }


def ignite(seat: Seat, out: Path, number: int, seed: int) -> Burning:
    """Start a neighbour, its server first. Raises TrialFailed, with nothing left of it."""
    folder = out / f"neighbour-{number}"
    folder.mkdir(exist_ok=True)
    commands = seat.commands(folder, seed)
    errors = folder / "stderr"
    counter = seat.participant.instance.workload.neighbour.counter
    burning = Burning(seat, [], errors, counter=folder / counter if counter else None)
    try:
        if commands.serve is not None:
            burning.processes.append(serve(seat, commands.serve, folder))
        host = seat.load if seat.load is not None else seat.host
        # A command of the user's expects its own files; a workload of the catalogue writes where it stands.
        workload = seat.participant.instance.workload
        where = Path(commands.directory) if workload.users_own and workload.directory else folder
        burning.processes.append(
            host.run(Command(expand_argv(commands.neighbour), where, folder / "stdout", errors))
        )
    except BaseException:
        burning.stop()
        raise
    return burning


def prove(neighbour: Burning) -> None:
    """Wait until the neighbour uses its resource at the rate that counts as burning. Raises TrialFailed."""
    deadline = time.monotonic() + BURN_TIMEOUT_S
    label = neighbour.seat.participant.label
    while True:
        start, used = time.monotonic(), neighbour.used()
        time.sleep(BURN_WINDOW_S)
        neighbour.before = (neighbour.used() - used) / (time.monotonic() - start)
        if neighbour.before >= neighbour.least:
            return
        if not neighbour.processes[-1].alive():
            raise TrialFailed(
                f"neighbour {label} ended before the victim started",
                hint=f"it said: {last_words(neighbour.errors)}",
            )
        if time.monotonic() > deadline:
            rates = f"{neighbour.before:.3g} of {neighbour.least:.3g} ({neighbour.resource})"
            busy = neighbour.before > 0.1 * neighbour.least
            raise TrialFailed(
                f"neighbour {label} does not burn: {rates} after {BURN_TIMEOUT_S:g} s",
                hint="it gets only a part of what it wants: is this host busy with other work?"
                if busy
                else f"it said: {last_words(neighbour.errors)}; see `burning` in its workload file",
            )


def serve(seat: Seat, argv: tuple[str, ...], out: Path, env: Mapping[str, str] | None = None) -> Process:
    """Start a server and wait until it is ready. Raises TrialFailed, with nothing left of it."""
    process = seat.host.run(
        Command(expand_argv(argv), seat.work, out / "serve.out", out / "serve.err", expand_env(env or {}))
    )
    try:
        wait_ready(seat, process, out, out / "serve.err")
    except BaseException:
        process.stop("KILL", KILL_S)
        raise
    return process


def _number(file: Path) -> float:
    """The number in a neighbour's own file; 0 before it says anything."""
    try:
        return float(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


def disk_bytes(pid: int) -> int:
    """Bytes a process and its ended children have read from and written to disks: proc(5), /proc/PID/io.

    For hosts without an I/O controller on the party's cgroup; 0 when it has ended or may not be read.
    """
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("read_bytes:", "write_bytes:")))
