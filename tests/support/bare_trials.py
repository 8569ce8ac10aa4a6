"""A trial of a workload without contend's platforms: its commands, and what its processes have used meanwhile."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from contend.platforms.listening import ports
from contend.workloads.instance import Argv, Instance
from contend.workloads.metrics import Reading, read_metrics

NATIVE = "\0".join((sys.executable, "-P", "-m", "contend.workloads.generators"))


@dataclass(frozen=True)
class Place:
    """Where a trial runs: prefixes put it into network namespaces; `link` counts the bytes between them."""

    work: Path
    address: str = "127.0.0.1"
    server: Argv = ()
    client: Argv = ()
    link: Callable[[], int] = lambda: 0


def values(instance: Instance, place: Place) -> dict[str, object]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = place.work / "out with space"
    out.mkdir(exist_ok=True)
    return {
        "work": place.work,
        "out": out,
        "seconds": f"{instance.workload.trial / 1e9:g}",
        "cpus": 1,
        "cpu_list": "0",
        "port": port,
        "seed": 11,
        "address": place.address,
        "native": NATIVE,
        "cache": place.work / "cache",
    }


class Party:
    """A process in a session of its own, with everything it started."""

    def __init__(self, argv: Argv, out: Path, label: str) -> None:
        self.log = out / f"{label}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, cwd=out, stdout=log, stderr=log, start_new_session=True)

    def pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                fields = stat_fields(int(entry.name))
                if fields and int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def cpu_s(self) -> float:
        """CPU time of the living, and of the dead that one of them has waited for."""
        ticks = sum(sum(map(int, f[11:15])) for f in map(stat_fields, self.pids()) if f)
        return ticks / os.sysconf("SC_CLK_TCK")

    def waited_s(self) -> float:
        """Time in which a thread of the living was ready and had no CPU (second figure of schedstat)."""
        total = 0
        for pid in self.pids():
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):
                    total += int(path.read_text().split()[1])
        return total / 1e9

    def disk_bytes(self) -> int:
        total = 0
        for pid in self.pids():
            try:
                lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            except OSError:
                continue
            total += sum(
                int(line.split()[1]) for line in lines if line.startswith(("read_bytes", "write_bytes"))
            )
        return total

    def stop(self) -> None:
        """The same as a platform: a signal to the group, and after a grace the end for whoever is left."""
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, signal_)
            except ProcessLookupError:
                break
            try:
                self.process.wait(3)
                break
            except subprocess.TimeoutExpired:
                continue
        self.process.wait(3)
        # MPI's ranks are in process groups of their own: mpirun ends them, or a platform by their cgroup.
        deadline = time.monotonic() + 3
        while (left := self.pids()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat from the state on (proc(5): field 3 is index 0); empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def prepare(instance: Instance, place: Place, known: dict[str, object]) -> None:
    instance.write_files(place.work, known)
    instance.write_parameters(known)
    once((*instance.commands(known).fetch, *instance.commands(known).prepare), place)


def finish(instance: Instance, place: Place, known: dict[str, object]) -> None:
    """What `prepare` has started ends."""
    once(instance.commands(known).finish, place)


def once(commands: Iterable[Argv], place: Place) -> None:
    for argv in commands:
        # Into a file: what is started to stay would keep a pipe open.
        with (place.work / "once.err").open("w+b") as said:
            done = subprocess.run(argv, cwd=place.work, stdout=said, stderr=said, timeout=60)
            said.seek(0)
            assert done.returncode == 0, (argv, said.read())


def serve(instance: Instance, place: Place, known: dict[str, object], out: Path) -> Party | None:
    argv = instance.commands(known).serve
    if argv is None:
        return None
    party = Party((*place.server, *argv), out, "server")
    port, file = instance.ready(known)
    deadline = (
        time.monotonic() + instance.workload.serve.ready.timeout / 1e9 if instance.workload.serve else 0.0
    )
    while time.monotonic() < deadline and party.process.poll() is None:
        if Path(file).exists() if file is not None else listening(place, port):
            return party
        time.sleep(0.02)
    party.stop()
    raise AssertionError(f"the server does not serve: {party.log.read_text()}")


def listening(place: Place, port: int | None) -> bool:
    # A connection would use up iperf3's single one, and is not possible from outside the pair.
    tables = [
        subprocess.check_output([*place.server, "cat", f"/proc/net/{name}"], text=True)
        for name in ("tcp", "tcp6")
    ]
    return any(port in ports(table) for table in tables)


def children_s() -> float:
    """CPU time of all children that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def trial(instance: Instance, place: Place) -> list[Reading]:
    known = values(instance, place)
    out = Path(str(known["out"]))
    prepare(instance, place, known)
    server = serve(instance, place, known, out)
    stdout, stderr = [], []
    before, start = os.times(), time.monotonic()
    try:
        for number, argv in enumerate(instance.commands(known).run):
            stdout.append(out / f"run-{number}.out")
            stderr.append(out / f"run-{number}.err")
            with stdout[-1].open("wb") as o, stderr[-1].open("wb") as e:
                done = subprocess.run((*place.client, *argv), cwd=out, stdout=o, stderr=e, timeout=60)
            assert done.returncode == 0, (argv, stderr[-1].read_text(), stdout[-1].read_text())
    finally:
        client_s = children_s()
        if server:
            server.stop()
        server_s = children_s() - client_s
        finish(instance, place, known)
    wall, after = time.monotonic() - start, os.times()
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    builtins = {"wall": wall, "user": user, "system": system, "cpu": user + system, "max_rss": 1.0}
    builtins["server_cpu"] = server_s
    return read_metrics(instance.workload, out, stdout, stderr, builtins)
