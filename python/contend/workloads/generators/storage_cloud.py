"""`{native} storage-cloud prepare | layout | run | neighbour | finish`: fio in two instances of a cloud, on its volumes.

The first `prepare` of a run makes both instances and all volumes, and finds each volume's disk in its instance; `layout`
writes one volume before anything is measured; `finish` removes all that the run has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from contend.clouds.instances import disks, fio, made, placed, reach, tenants, volumes
from contend.clouds.instances.tenants import MEASURED, NEIGHBOUR, Tenants
from contend.platforms import procfs
from contend.workloads.generators import on_cloud, verbs
from contend.workloads.generators.on_cloud import STATE, Guests, State, Volumes, home

NAME = "storage-cloud"
SERVICES = (*made.SERVICES, "block-storage")
RUNS = "neighbour"
"""The file that holds the pid of the neighbour's process here, as long as nobody has seen that its fio has ended."""
NEIGHBOUR_LIMIT_S = 3600.0
LAYOUT_LIMIT_S = 550.0  # a preparation may take ten minutes


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.interruptible(_parser(), arguments)


def _topology(given: argparse.Namespace) -> Tenants:
    return tenants.read(
        disks=tenants.disks_of(given.disks),
        neighbour_host=given.neighbour_host,
        means=given.means,
        zone=given.zone,
        hosts=given.hosts,
        networks=given.networks,
        cidrs=given.cidrs,
        external=given.external,
        install=given.install == "true",
    )


def _prepare(given: argparse.Namespace) -> None:
    topology = _topology(given)

    def reached(guests: Guests, held: Volumes, way: reach.Way, within_s: float) -> tuple[Guests, Volumes]:
        return asyncio.run(_reached(topology, guests, held, way, within_s))

    on_cloud.prepare(
        given,
        topology,
        reached,
        lambda api: volumes.check_types(api, [disk.type for disk in topology.disks]),
    )


async def _reached(
    topology: Tenants, guests: Guests, held: Volumes, way: reach.Way, within_s: float
) -> tuple[Guests, Volumes]:
    """Both once fio can run in each, and the device of every volume. Raises HostFailed."""

    async def one(role: str) -> tuple[placed.Placed, dict[str, volumes.Held]]:
        to = await reach.ready(
            role, guests[role], way, install=topology.install, within_s=within_s, tools=topology.tools
        )
        own = {v.role: held[v.role] for v in topology.volumes() if v.guest == role}
        connection = await reach.connect(role, to, way)
        async with connection:
            found = await disks.find(role, connection, own)
        return to, found

    seen = await asyncio.gather(*(one(role) for role in guests))
    found: dict[str, volumes.Held] = {}
    for _, own in seen:
        found |= own
    return {role: to for role, (to, _) in zip(guests, seen, strict=True)}, found


def _layout(given: argparse.Namespace) -> None:
    state = State.read(home(given) / STATE)
    _write(given.out, asyncio.run(_fio(given, state, LAYOUT_LIMIT_S)))


def _run(given: argparse.Namespace) -> None:
    state = State.read(home(given) / STATE)
    on_cloud.not_moved(state, on_cloud.still_there(given, state, list(state.guests)))
    _settle(given, state)
    _write(given.out, asyncio.run(_fio(given, state, given.seconds + fio.LATE_S)))
    emulated = sum(of.emulated for of in state.guests.values()) / len(state.guests)
    told = {
        "schema_version": 1,
        "emulated": emulated,
        "hosts": {role: of.where for role, of in state.guests.items()},
        "volume": state.volumes[f"{given.role}-{given.pool}"]._asdict(),
    }
    _write(given.out.with_name("instances.json"), told)


def _settle(given: argparse.Namespace, state: State) -> None:
    """Alone is alone: where a neighbour of the trial before was ended here, its fio has ended there too."""
    note = home(given) / RUNS
    try:
        pid = int(note.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return
    if NAME.encode() in _command_line(pid):
        return  # it runs beside this trial
    asyncio.run(fio.quiet(NEIGHBOUR, state.guests[NEIGHBOUR], state.way(given)))
    note.unlink(missing_ok=True)


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return (procfs.PROC / str(pid) / "cmdline").read_bytes()
    return b""


def _neighbour(given: argparse.Namespace) -> None:
    state = State.read(home(given) / STATE)
    _settle(given, state)
    (home(given) / RUNS).write_text(f"{os.getpid()}\n", encoding="ascii")

    def told(moved: int) -> None:
        part = given.out.with_suffix(".part")
        part.write_text(f"{moved}\n", encoding="ascii")
        part.replace(given.out)

    asyncio.run(
        fio.neighbour(
            given.role,
            state.guests[given.role],
            state.way(given),
            given.fio,
            state.volumes[f"{given.role}-{given.pool}"],
            NEIGHBOUR_LIMIT_S,
            told,
        )
    )


async def _fio(given: argparse.Namespace, state: State, limit_s: float) -> dict[str, Any]:
    volume = state.volumes[f"{given.role}-{given.pool}"]
    return await fio.run(given.role, state.guests[given.role], state.way(given), given.fio, volume, limit_s)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="fio in instances of a cloud, on its volumes.")
    subparsers = parser.add_subparsers(required=True, metavar="prepare | layout | run | neighbour | finish")
    for name, act, about in (
        ("prepare", _prepare, "make instances and volumes"),
        ("layout", _layout, "write a volume before it is measured"),
        ("run", _run, "a trial"),
        ("neighbour", _neighbour, "load a volume until it is ended"),
        ("finish", on_cloud.finish, "remove what the run made"),
    ):
        verb = subparsers.add_parser(name, help=about)
        verb.set_defaults(run_verb=act)
        on_cloud.add_run(verb, SERVICES)
        if act is on_cloud.finish:
            continue
        on_cloud.add_ssh(verb)
        if act is _prepare:
            verb.add_argument("--disks", required=True, help="JSON: of each a pool's name, a type, GiB")
            verb.add_argument("--neighbour-host", choices=tenants.HOSTS, default="any")
            on_cloud.add_means(verb)
            on_cloud.add_making(verb)
            continue
        verb.add_argument("--role", choices=(MEASURED, NEIGHBOUR), required=True)
        verb.add_argument("--pool", required=True, help="whose volume it is")
        verb.add_argument(
            "--fio", required=True, help=f"its command line; {fio.DEVICE} stands for the volume"
        )
        verb.add_argument("--out", type=Path, required=True, help="what comes back goes here")
        if act is _run:
            verb.add_argument("--seconds", type=float, required=True, help="of the trial")
    return parser
