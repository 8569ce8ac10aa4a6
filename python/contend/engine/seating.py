"""Seats of a trial's workloads: the host, the inputs and the commands of each.

A participant keeps one host for the whole run (a cgroup, a container), so a trial starts processes and nothing
else. A victim and a neighbour of the same workload are two participants with two hosts and two sets of inputs;
where a study compares platforms, each of them is one host, and what runs there takes turns.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from contend import names
from contend.engine.output import last_words, refusal, shown
from contend.errors import BadInput, ContendError, TrialFailed
from contend.files import user_home
from contend.platforms import standing
from contend.platforms.base import (
    Command,
    Exit,
    Host,
    HostSpec,
    Limit,
    Platform,
    Process,
    Releases,
    Role,
)
from contend.platforms.network import NetPair, Networks
from contend.platforms.topology import Placement, Topology
from contend.store.directory import RunDirectory, safe_name
from contend.store.ledger import Ledger
from contend.studies.cell import Cell, CellWorkload
from contend.studies.model import GUESTS
from contend.studies.platform_settings import PlatformSetting
from contend.workloads.instance import Argv, Commands
from contend.workloads.variables import expand_argv, hide

NATIVE = "\0".join((sys.executable, "-P", "-m", "contend.workloads.generators"))
PREPARE_TIMEOUT_S = 600.0
FETCH_TIMEOUT_S = 3600.0  # it may build what it has downloaded


@dataclass
class Seat:
    """One participant on its host. `load` is where its load generator runs, when it is a server."""

    participant: CellWorkload
    role: Role
    name: str
    host: Host
    load: Host | None
    work: Path
    cpu_list: tuple[int, ...]
    network: NetPair | None
    values: dict[str, object] = field(default_factory=dict)
    shared: bool = False  # its inputs are another seat's, who made them and ends what they need

    @property
    def served(self) -> bool:
        return self.participant.instance.workload.serve is not None

    def commands(self, out: Path, seed: int) -> Commands:
        """The commands with their output in `out`, whose file of parameters is written there."""
        values = {**self.values, "out": out, "seed": seed}
        self.participant.instance.write_parameters(values)
        return self.participant.instance.commands(values)


class Seating:
    """Makes and keeps the seats of a run; closes them all. Knows nothing of trials' results."""

    def __init__(
        self,
        run: RunDirectory,
        ledger: Ledger,
        platforms: Mapping[str, Platform],
        placement: Placement,
        networks: Networks,
        *,
        kind: str = "bare",
        own_files: frozenset[str] = frozenset(),
        limit: Limit,
        seconds: float | None,
        hosts: Mapping[int | None, Topology] | None = None,
        data: Mapping[tuple[Role, str], Path] | None = None,
    ) -> None:
        """platforms: by kind, `bare` among them; kind, limit: of victims that the plan has given no place; own_files: kinds
        whose programs are not the host's, so that what is made in one of them is no input in another; hosts: the CPUs of
        each size of the host that places are on, None for the only one; data: by role and group of parties, the file or
        device that is linked as {work}/data."""
        self._run, self._ledger = run, ledger
        self._platforms, self._kind, self._placement = platforms, kind, placement
        self._own_files = own_files
        self._networks, self._limit, self._seconds = networks, limit, seconds
        self._seats: dict[tuple[Role, str], Seat] = {}
        self._placed: dict[tuple[Role, PlatformSetting], Host] = {}
        self._inputs: dict[object, Path] = {}
        self._data = data or {}
        self._groups: dict[tuple[Role, str], Seat] = {}
        self._hosts = hosts or {None: Topology.read(allowed=placement.all)}
        self._down: set[str] = set()  # names of hosts that are closed for a while,
        self._again: dict[str, Host] = {}  # and what was made in their stead
        self.limits: dict[str, str] = {}  # of the hosts' control groups, by file, as each was made

    def seat(self, participant: CellWorkload, role: Role) -> Seat:
        """The participant's seat, made and its inputs prepared on first use. Raises CannotHonour, TrialFailed."""
        known = self._seats.get((role, participant.label))
        if known is None:
            return self._make(participant, role)
        known.host = self._standing(known.host, self._kind_of(known))
        known.load = None if known.load is None else self._standing(known.load, "bare")
        return known

    def groups(self) -> set[str]:
        """Cgroups of everything the run has started: its own, and those that engines gave its containers."""
        hosts = [
            host for seat in list(self._seats.values()) for host in (seat.host, seat.load) if host is not None
        ]
        own = {str(group) for host in hosts if (group := host.cgroup()) is not None}
        return own | {f"/{names.run_group(self._run.id)}"}

    def left_running(self) -> list[Host]:
        """Hosts where processes of a preparation go on between trials, and may serve other participants too."""
        seats = [seat for seat in self._seats.values() if seat.participant.instance.workload.finish]
        return [
            self._again.get(name, seat.host)
            for seat in seats
            if (name := seat.host.spec.name) not in self._down
        ]

    def stand_down(self) -> None:
        """Close everything on the host's CPUs, which are about to change; each seat is made again on its next use.

        What was prepared is kept. Guests stay. Every one is tried; the first error is raised.
        """
        with contextlib.ExitStack() as stack:
            for seat in self._seats.values():
                for host in (seat.load, seat.host):
                    guest = host is seat.host and self._kind_of(seat) in GUESTS
                    if host is not None and not guest and host.spec.name not in self._down:
                        # Of those who share a place one may have it anew, and another not have asked since.
                        stack.callback(self._again.get(host.spec.name, host).close)
                        self._down.add(host.spec.name)

    def _kind_of(self, seat: Seat) -> str:
        if seat.participant.platform is not None:
            return seat.participant.platform.kind
        # A neighbour sits on the bare host whatever the victim's platform is: it is another tenant.
        return self._kind if seat.role == "victim" else "bare"

    def _prepare(self, kind: str, spec: HostSpec) -> Host:
        host = self._platforms[kind].prepare(spec)
        self.limits |= standing.read(standing.groups_of(host.honoured()))
        return host

    def _standing(self, host: Host, kind: str) -> Host:
        """The host, or what stands in its stead since it was closed."""
        name = host.spec.name
        if name in self._down:
            self._again[name] = self._prepare(kind, host.spec)
            self._down.discard(name)
        return self._again.get(name, host)

    def seats(self, cell: Cell) -> tuple[Seat, tuple[Seat, ...]]:
        return self.seat(cell.victim, "victim"), tuple(self.seat(n, "neighbour") for n in cell.neighbours)

    def close(self) -> None:
        """Run what ends each workload, close every host, then the networks they stood in.

        Every one is tried; the first error is raised.
        """
        errors: list[BaseException] = []
        for seat in reversed(self._seats.values()):
            try:
                self._finish(seat)
            except Exception as error:  # noqa: BLE001 - the rest must still be closed; raised below
                errors.append(error)
        for seat in reversed(self._seats.values()):
            for host in (seat.load, seat.host):
                try:
                    if host is not None:
                        host.close()
                except Exception as error:  # noqa: BLE001 - the rest must still be closed; raised below
                    errors.append(error)
        self._seats.clear()
        self._groups.clear()
        self._placed.clear()
        self._networks.close()
        if errors:
            raise errors[0]

    def __enter__(self) -> Seating:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. What went wrong first is what is told first: what could not be prepared often cannot be finished either."""
        try:
            self.close()
        except ContendError as later:
            if not isinstance(error, ContendError):
                raise
            error.add_note(f"nor {later.message}")

    def _make(self, participant: CellWorkload, role: Role) -> Seat:
        if kin := self._groups.get((role, participant.group)):
            return self._beside_kin(participant, role, kin)
        workload = participant.instance.workload
        name = safe_name(f"{role}-{participant.group or participant.label}").lower()
        while any(seat.name == name for seat in self._seats.values()):
            name += "x"  # two labels that differ only in what a file name cannot hold
        network = self._networks.pair(name) if participant.instance.network == "pair" else None
        # One port for the whole run: files written once may name it.
        port = free_port() if workload.serve is not None else 0
        host = self._host(participant, role, name, network, port)
        if port and host.spec.ports:  # of a place, whose servers take turns
            port = host.spec.ports[0]
        load = None
        if workload.serve is not None:
            load = self._platforms["bare"].prepare(
                HostSpec(
                    f"{name}-load",
                    "load",
                    self._load_cpus(participant, role),
                    netns=network.client_ns if network else None,
                    directory=self._run.path,
                )
            )
        of = (
            self._placement.all
            if participant.platform is None
            else self._hosts[participant.platform.host].ids
        )
        shown = host.spec.cpu_list if host.spec.cpu_list is not None else of
        seconds = self._seconds if self._seconds is not None else workload.trial / 1e9
        sized = participant.platform is not None and participant.platform.threads == "size"
        values: dict[str, object] = {
            "seconds": f"{seconds:g}",
            "cpus": participant.platform.size.whole_cpus
            if participant.platform is not None and sized
            else len(shown),
            "cpu_list": ",".join(str(c) for c in shown),
            "address": network.server_address if network else "127.0.0.1",
            "native": NATIVE,
            "cache": downloads(),
            "port": port,
        }
        work, made = self._work(participant, role, name, values)
        seat = Seat(
            participant, role, name, host, load, work, shown, network, {**values, "work": work}, shared=made
        )
        # Before its inputs are made: what a preparation that fails half-way has started is to end, too.
        self._seats[role, participant.label] = seat
        if participant.group:
            self._groups[role, participant.group] = seat
        if data := self._data.get((role, participant.group)):
            (work / "data").symlink_to(data)
        if not made:
            self._write_files(seat)
        return seat

    def _beside_kin(self, participant: CellWorkload, role: Role, kin: Seat) -> Seat:
        """A seat on the host and in the directory of another of its group, whose inputs are its own too."""
        seat = replace(kin, participant=participant, shared=True)
        self._seats[role, participant.label] = seat
        return seat

    def _host(
        self, participant: CellWorkload, role: Role, name: str, network: NetPair | None, port: int
    ) -> Host:
        """A host of the participant's own; that of its platform where it has one: all that run there take turns."""
        platform = participant.platform
        if platform is not None and network is None and (known := self._placed.get((role, platform))):
            return self._standing(known, platform.kind)
        cpus = self._placement.victim if role == "victim" else self._placement.neighbours
        limit = self._limit if role == "victim" and self._limit else participant.limit
        # A neighbour sits on the bare host whatever the victim's platform is: it is another tenant.
        kind = self._kind if role == "victim" else "bare"
        if platform is not None:
            kind, limit, cpus = platform.kind, platform.limit, self._cpus_of(platform)
            name = safe_name(f"{role}-{platform.label}").lower() if network is None else name
            port = port or free_port()  # of those that are to run there, some may be servers
        spec = HostSpec(
            name=name,
            role=role,
            cpu_list=cpus,
            limit=limit,
            netns=network.server_ns if network else None,
            directory=self._run.path,
            ports=(port,) if port else (),
        )
        host = self._prepare(kind, spec)
        if platform is not None and network is None:
            self._placed[role, platform] = host
        return host

    def _cpus_of(self, platform: PlatformSetting) -> tuple[int, ...] | None:
        """Its set of CPUs; None for no set, and for the whole host where that is bare: nothing is to be treated there."""
        of = self._hosts[platform.host]
        if platform.cpus_wanted is None or (platform.kind == "bare" and platform.cpus_wanted == len(of.cpus)):
            return of.ids if platform.host_by == "confined" else None
        return platform.cpus(of)

    def _load_cpus(self, participant: CellWorkload, role: Role) -> tuple[int, ...] | None:
        """Beside the measured party; the same for all platforms of a size: those that a set of CPUs leaves, if any.

        Beside a set that is spread those that this one leaves, which are as many.
        """
        if participant.platform is None:
            return self._placement.load if role == "victim" else self._placement.neighbours
        of = self._hosts[participant.platform.host]
        taken = participant.platform.cpus(of)
        left = tuple(cpu for cpu in of.ids if cpu not in taken)
        return left or (of.ids if participant.platform.host_by == "confined" else None)

    def _work(
        self, participant: CellWorkload, role: Role, name: str, values: dict[str, object]
    ) -> tuple[Path, bool]:
        """Its directory, and whether its inputs are there: places that would make the same ones share them."""
        key: object = (role, participant.label)
        if participant.platform is not None:
            apart = participant.platform if participant.platform.kind in self._own_files else None
            key = apart, participant.instance.inputs({**values, "work": "WORK", "out": "WORK", "seed": 0})
        if key in self._inputs:
            return self._inputs[key], True
        work = self._inputs[key] = self._run.work / name
        work.mkdir(parents=True, exist_ok=True)
        return work, False

    def _write_files(self, seat: Seat) -> None:
        """Put the workload's files into {work} and run its prepare commands there, in its own place."""
        instance = seat.participant.instance
        commands = seat.commands(seat.work, 0)
        instance.write_files(seat.work, {**seat.values, "out": seat.work, "seed": 0})
        if commands.fetch:
            self._fetch(seat, commands.fetch)
        self._once(seat, seat.host, "prepare", commands.prepare)

    def _fetch(self, seat: Seat, commands: Sequence[Argv]) -> None:
        """On the bare host, in a place of its own: a platform sees neither the cache nor what is in the user's home."""
        Path(str(seat.values["cache"])).mkdir(parents=True, exist_ok=True)
        spec = HostSpec(f"{seat.name}-fetch", "load", directory=self._run.path)
        host = self._platforms["bare"].prepare(spec)
        try:
            self._once(seat, host, "fetch", commands, FETCH_TIMEOUT_S)
        finally:
            host.close()

    def _finish(self, seat: Seat) -> None:
        if not seat.shared and (commands := seat.commands(seat.work, 0).finish):
            self._once(seat, self._standing(seat.host, self._kind_of(seat)), "finish", commands)

    @staticmethod
    def _once(
        seat: Seat, host: Host, what: str, commands: Sequence[Argv], timeout_s: float = PREPARE_TIMEOUT_S
    ) -> None:
        """Run them in {work}, one after the other. Raises TrialFailed for the first that fails, BadInput if that is one of
        contend's own that says so."""
        users_own = (
            seat.participant.instance.workload.users_own
        )  # of a revision's build: a build server may outlive it
        for number, argv in enumerate(commands):
            files = seat.work / f"{what}-{number}.out", seat.work / f"{what}-{number}.err"
            command = Command(expand_argv(argv), seat.work, *files, left="released" if users_own else "ended")
            exit_ = host.run(command).wait(timeout_s)
            if users_own and isinstance(host, Releases):
                host.release()
            if exit_.code == BadInput.exit_code and (error := refusal(command.stderr)):
                raise error
            if exit_.code != 0:
                doing = {"fetch": "getting what is needed for", "prepare": "preparing"}.get(what, "finishing")
                raise TrialFailed(
                    f"{doing} {seat.participant.label} failed with exit status {exit_.code}: {shown(argv)}",
                    hint=f"it said: {hide(last_words(command.stderr, command.stdout), argv)}",
                )


def downloads() -> Path:
    """The folder of workloads' downloads, kept between runs: `$XDG_CACHE_HOME/contend/workloads`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or user_home() / ".cache") / "contend" / "workloads"


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port nobody listens on now. The server binds it a moment later; a lost race fails that trial."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_ready(seat: Seat, process: Process, out: Path, stderr: Path) -> None:
    """Wait until the seat's server serves. Raises TrialFailed when it ends first or takes too long."""
    serve, what = seat.participant.instance.workload.serve, seat.participant.label
    timeout_s = serve.ready.timeout / 1e9 if serve else 0.0
    port, file = seat.participant.instance.ready({**seat.values, "out": out, "seed": 0})
    deadline = time.monotonic() + timeout_s
    while True:
        if not process.alive():
            raise TrialFailed(
                f"the server of {what} ended before it served", hint=f"it said: {last_words(stderr)}"
            )
        if Path(file).exists() if file is not None else port is None or seat.host.listens(port):
            return
        if time.monotonic() > deadline:
            raise TrialFailed(
                f"the server of {what} did not serve within {timeout_s:g} s",
                hint=f"it said: {last_words(stderr)}",
            )
        time.sleep(0.005)


def clear(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def add_exits(exits: list[Exit]) -> Exit:
    """Add up the exits of commands that ran one after the other."""
    return Exit(
        code=next((e.code for e in exits if e.code), 0),
        wall_ns=sum(e.wall_ns for e in exits),
        user_ns=sum(e.user_ns for e in exits),
        system_ns=sum(e.system_ns for e in exits),
        max_rss_bytes=max(e.max_rss_bytes for e in exits),
        voluntary_switches=sum(e.voluntary_switches for e in exits),
        involuntary_switches=sum(e.involuntary_switches for e in exits),
        startup_ns=sum(e.startup_ns for e in exits),
        timed_out=any(e.timed_out for e in exits),
        read_bytes=_sum_known(e.read_bytes for e in exits),
        major_faults=_sum_known(e.major_faults for e in exits),
    )


def _sum_known(figures: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    known = list(figures)
    return None if None in known else sum(filter(None, known))
