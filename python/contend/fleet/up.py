"""Fleets of the starting machine: brought up, looked at, taken down; each is found again by its folder.

certificates, folder ─► scheduler (a process here) ─► hosts join: by SSH, or by hand with the file made for each
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml

from contend.errors import BadInput, HostFailed
from contend.fleet import background, certificates, folders, ssh
from contend.fleet import host as worker
from contend.fleet.names import file_name
from contend.fleet.needs import HERE, need, settle_dask
from contend.fleet.scheduler import members as listed
from contend.fleet.ssh import Problem, Way
from contend.text.shape import Shape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from distributed import Client

READY_S = 30.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet, as its folder has it. keep: it stays until `contend fleet stop`; by_hand: its user starts the
    workers."""

    id: str
    folder: Path
    hosts: tuple[str, ...]
    way: Way
    keep: bool
    by_hand: bool
    lost_s: float

    @classmethod
    def of(cls, folder: Path) -> Fleet:
        document = folders.read_json(folder / "fleet.json")
        return cls(
            folder.name,
            folder,
            tuple(document["hosts"]),
            Way(**document["way"]),
            bool(document["keep"]),
            bool(document["by_hand"]),
            float(document["lost_s"]),
        )

    @property
    def scheduler(self) -> int | None:
        """The pid of its scheduler, while that runs."""
        return folders.alive_in(self.folder / "scheduler.json")

    @property
    def port(self) -> int:
        return int(folders.read_json(self.folder / "scheduler.json")["port"])

    @property
    def near(self) -> str:
        """The address at which its scheduler is reached from this machine."""
        listens = folders.read_json(self.folder / "scheduler.json").get("listen", [EVERYWHERE])
        return LOOPBACK if {EVERYWHERE, LOOPBACK} & set(listens) else str(listens[0])

    def document(self, host: str, address: str) -> dict[str, Any]:
        """The invitation of a host: it holds the host's key."""
        return folders.read_json(self.folder / "hosts" / file_name(host)) | {
            "address": f"tls://{address}:{self.port}"
        }


def every() -> list[Fleet]:
    """The fleets that this state directory knows, oldest first."""
    paths = sorted(folders.fleets().glob("*/fleet.json")) if folders.fleets().is_dir() else []
    return [Fleet.of(path.parent) for path in paths]


def with_hosts(hosts: Iterable[str]) -> Fleet | None:
    """Find a fleet that is up, stays, and has all of these hosts."""
    wanted = set(hosts)
    return next((f for f in every() if f.keep and f.scheduler is not None and wanted <= set(f.hosts)), None)


def find(fleet: str) -> Fleet | None:
    folder = folders.fleets() / fleet
    return Fleet.of(folder) if (folder / "fleet.json").exists() else None


LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


def addresses(hosts: Sequence[str], way: Way, address: str = "", listen: str = "") -> tuple[str, ...]:
    """Choose the scheduler's addresses to listen at: `listen`, else `address`, else the addresses that SSH came from.
    It listens nowhere else. Raises BadInput for what is no IPv4 address of this machine."""
    if named := listen or address:
        return (_own(named),)

    async def own_addresses() -> set[str]:
        answers = await ssh.of_all(hosts, lambda host: ssh.own_address(host, way))
        return {mine for mine in answers.values() if isinstance(mine, str) and ":" not in mine}

    return tuple(sorted(asyncio.run(own_addresses()))) or (LOOPBACK,)


def _own(address: str) -> str:
    try:
        resolved = str(socket.getaddrinfo(address, 0, socket.AF_INET)[0][4][0])
        with socket.socket() as probe:
            probe.bind((resolved, 0))
    except OSError as error:
        raise BadInput(
            f"{address} is no address of this machine: {error.strerror}, and a fleet's scheduler listens there only",
            hint="behind a translated address: contend fleet start --listen MINE --address AS_HOSTS_REACH_IT",
        ) from error
    return resolved


def check_address(address: str) -> None:
    """Raise BadInput for an address that hosts cannot be given."""
    if ":" in address:
        raise BadInput(
            f"--address {address}: a fleet's hosts connect back over IPv4",
            hint="name this machine's IPv4 address, as they reach it",
        )


def make(
    hosts: Sequence[str],
    way: Way,
    *,
    keep: bool,
    by_hand: bool = False,
    port: int = 0,
    listen: Sequence[str] = (LOOPBACK,),
    lost_s: float,
    name: str = "",
) -> Fleet:
    """Make a fleet's folder, certificates and scheduler, which listens at `listen`. Raises HostFailed where the port is
    taken."""
    need(HERE)
    fleet = name or f"fleet-{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    folder = folders.fleets() / fleet
    if folder.exists():
        raise BadInput(f"there is a fleet '{fleet}' already", hint="contend fleet stop ends it")
    made = certificates.make([certificates.COORDINATOR, *hosts])
    own = made[certificates.COORDINATOR]
    for file, text in ((folders.AUTHORITY, own.authority), (folders.OWN, own.own), (folders.KEY, own.key)):
        folders.write(folder / file, text)
    for host in hosts:
        document = {"fleet": fleet, "name": host, "lost_s": lost_s, "authority": made[host].authority}
        document |= {"certificate": made[host].own, "key": made[host].key}
        folders.write_json(folder / "hosts" / file_name(host), document)
    document_of_fleet = {
        "schema_version": 1,
        "hosts": list(hosts),
        "way": way.to_json(),
        "keep": keep,
        "by_hand": by_hand,
    }
    folders.write_json(
        folder / "fleet.json", {**document_of_fleet, "lost_s": lost_s, "port": port, "listen": list(listen)}
    )
    try:
        _schedule(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Fleet.of(folder)


def _schedule(folder: Path) -> None:
    """Start the scheduler and wait until it listens."""
    background.start(
        "contend.fleet.scheduler",
        folder,
        "scheduler.json",
        READY_S,
        "the fleet's scheduler did not start",
        "is the port free? --port names another",
    )


async def look_at(hosts: Sequence[str], way: Way) -> None:
    """Check that every host can join. Raises BadInput with all their problems at once."""
    answers = await ssh.of_all(hosts, lambda host: ssh.look(host, way))
    problems = [
        Problem(host, answer.message, answer.hint) if isinstance(answer, HostFailed) else answer
        for host, answer in answers.items()
        if answer is not None
    ]
    complain(problems, len(hosts))


def complain(problems: Sequence[Problem], hosts: int) -> None:
    """Raise BadInput for any problem: the first in the message, the others as notes."""
    if not problems:
        return
    first, *others = problems
    count = f"{len(problems)} of {hosts} hosts cannot take part: " if hosts > 1 else ""
    error = BadInput(f"{count}{first.host}: {first.message}", hint=first.hint)
    for other in others:
        error.add_note(str(other))
    raise error


async def bring(
    fleet: Fleet, hosts: Sequence[str], address: str = ""
) -> dict[str, dict[str, Any] | HostFailed]:
    """Have hosts join by SSH. Returns what each worker is, or why it is not one."""

    async def one(host: str) -> dict[str, Any]:
        mine = address or await ssh.own_address(host, fleet.way)
        if ":" in mine:
            raise HostFailed(
                f"{host} is reached over IPv6, and a fleet's hosts connect back over IPv4",
                hint="--address names this machine's IPv4 address, as hosts reach it",
            )
        return await ssh.join(host, fleet.way, fleet.document(host, mine))

    return await ssh.of_all(hosts, one)


@asynccontextmanager
async def client_of(fleet: Fleet) -> AsyncIterator[Client]:
    """Connect Dask's client to a fleet that is up. Raises HostFailed."""
    from distributed import Client

    settle_dask()
    if fleet.scheduler is None:
        raise HostFailed(f"the scheduler of {fleet.id} does not run", hint=f"contend fleet stop {fleet.id}")
    try:
        client = await Client(  # type: ignore[no-untyped-call]
            f"tls://{fleet.near}:{fleet.port}",
            asynchronous=True,
            security=folders.security(fleet.folder),
            set_as_default=False,
            heartbeat_interval="5s",
        )
    except (OSError, TimeoutError) as error:
        raise HostFailed(
            f"cannot reach the scheduler of {fleet.id}: {error}", hint="contend fleet status"
        ) from error
    try:
        yield client
    finally:
        await client.close()


async def members(client: Client) -> dict[str, str]:
    """Worker's address by host's name, of those that are there."""
    workers: dict[str, str] = await client.run_on_scheduler(listed)  # type: ignore[no-untyped-call]
    return workers


@dataclass(frozen=True, slots=True)
class Status(Shape):
    """One fleet, and which of its hosts are there."""

    id: str
    up: Annotated[bool, "its scheduler runs and answers"]
    by_hand: Annotated[bool, "its user starts the workers"]
    stays: Annotated[bool, "until contend fleet stop"]
    hosts: Annotated[Mapping[str, str], "by name the address of its worker; empty where it is not there"]


@dataclass(frozen=True, slots=True)
class Fleets(Shape):
    """The fleets of this user."""

    fleets: tuple[Status, ...]


def status() -> list[Status]:
    """Status of every fleet of this user."""

    async def there(fleet: Fleet) -> dict[str, str]:
        async with client_of(fleet) as client:
            return await members(client)

    statuses = []
    for fleet in every():
        up = fleet.scheduler is not None
        try:
            listed = asyncio.run(there(fleet)) if up else {}
        except HostFailed:  # it hangs: the other fleets are told of all the same
            up, listed = False, {}
        hosts = {host: listed.get(host, "") for host in fleet.hosts}
        statuses.append(Status(fleet.id, up, fleet.by_hand, fleet.keep, hosts))
    return statuses


def write_joins(fleet: Fleet, host: str, address: str) -> tuple[Path, Path]:
    """Write a machine's invitation, and the same as user data for cloud-init. Both hold its key."""
    document = fleet.document(host, address)
    file, cloud = (fleet.folder / "join" / f"{host}.{kind}" for kind in ("json", "cloud-config.yaml"))
    folders.write_json(file, document)
    data = {
        "write_files": [
            {"path": "/root/contend-join.json", "permissions": "0600", "content": json.dumps(document)},
        ],
        "runcmd": [
            "setsid contend fleet join /root/contend-join.json </dev/null >/var/log/contend-fleet.log 2>&1 &"
        ],
    }
    folders.write(cloud, "#cloud-config\n" + yaml.safe_dump(data, sort_keys=False, width=10_000))
    return file, cloud


def stop(fleet: Fleet, *, purge: bool = False) -> dict[str, str]:
    """Take a fleet down: every host's worker and what its parts left there, then the scheduler and the folder.

    Returns why a host could not be cleaned up, by host; the folder then stays, so that it can be tried again.
    """
    failed = asyncio.run(_stop(fleet, purge=purge))
    if (pid := fleet.scheduler) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 15
        while fleet.scheduler is not None:
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
            with suppress(ChildProcessError):  # ours, where this very process started it
                os.waitpid(pid, os.WNOHANG)
    if not failed:
        shutil.rmtree(fleet.folder, ignore_errors=True)
    return failed


async def _stop(fleet: Fleet, *, purge: bool) -> dict[str, str]:
    if fleet.by_hand:
        return await _dismiss(fleet)
    answers = await ssh.of_all(fleet.hosts, lambda host: ssh.leave(host, fleet.way, fleet.id, purge=purge))
    return {host: why for host, answer in answers.items() if (why := _left(answer))}


def _left(answer: Mapping[str, Any] | HostFailed) -> str:
    return answer.message if isinstance(answer, HostFailed) else "; ".join(answer["failed"])


def end_run(fleet: Fleet, run: str) -> bool:
    """End a run's parts on all hosts that are there. Raises HostFailed where the scheduler is gone."""

    async def ended() -> bool:
        async with client_of(fleet) as client:
            addresses = list((await members(client)).values())
            if addresses:
                await client.run(worker.end, run, workers=addresses, on_error="return")
        return bool(addresses)

    return asyncio.run(ended())


async def _dismiss(fleet: Fleet) -> dict[str, str]:
    """Without SSH: the workers that are there are told to leave. Those that are not end by themselves."""
    if fleet.scheduler is None:
        return {}
    with suppress(HostFailed):  # of a scheduler that hangs, which is then ended all the same
        async with client_of(fleet) as client:
            addresses = list((await members(client)).values())
            if addresses:
                await client.run(worker.leave, workers=addresses, on_error="return")
            deadline = time.monotonic() + 15
            while await members(client) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
    return {}
