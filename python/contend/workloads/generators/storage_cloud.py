"""`{native} storage-cloud prepare | layout | run | neighbour | finish`: fio in two instances of a cloud, on its volumes.

The first `prepare` of a run makes both instances and all volumes, and finds each volume's disk in its instance; `layout`
writes one volume before anything is measured; `finish` removes all that the run has.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import files
from contend.clouds.instances import disks, fio, made, placed, reach, tenants, volumes
from contend.clouds.instances.tenants import NEIGHBOUR, Tenants
from contend.platforms import procfs
from contend.workloads.generators import on_cloud, verbs
from contend.workloads.generators.on_cloud import STATE, Guests, Making, State, Volumes, home
from contend.workloads.parameters_file import Placeholders

NAME = "storage-cloud"
SERVICES = (*made.SERVICES, "block-storage")
RUNS = "neighbour"
"""The file that holds the pid of the neighbour's process here, as long as nobody has seen that its fio has ended."""
NEIGHBOUR_LIMIT_S = 3600.0
LAYOUT_LIMIT_S = 550.0  # a preparation may take ten minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Making):
    """Parameters of a storage sweep's workload on volumes of a cloud (contend.studies.storage.cloud_cells).

    disks: JSON, for each volume the pool's name, a type, GiB. role: whose instance; pool: whose volume. The others are
    in fio's command line already.
    """

    neighbour_host: str
    disks: str
    role: str
    pool: str
    kind: str
    read: int
    block: str
    depth: int
    jobs: int
    engine: str
    region: str
    step: str
    offset: str


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails.

    fio's command line, in which DEVICE stands for the volume, comes last for `layout`, `run` and `neighbour`.
    """
    first = 3 if arguments[:1] == ["run"] else 2
    words = shlex.join(arguments[first:])
    return verbs.interruptible(
        arguments[:first],
        Parameters,
        {
            "prepare": _prepare,
            "layout": lambda given, at: _layout(given, at, words),
            "run": lambda given, at: _run(given, at, words),
            "neighbour": lambda given, at: _neighbour(given, at, words),
            "finish": lambda given, at: on_cloud.finish(given, at, SERVICES),
        },
    )


def _topology(given: Parameters) -> Tenants:
    return tenants.read(
        disks=tenants.disks_of(given.disks),
        neighbour_host=given.neighbour_host,
        **given.shared(),
    )


def _prepare(given: Parameters, at: Placeholders) -> None:
    topology = _topology(given)

    def reached(guests: Guests, held: Volumes, way: reach.Way, within_s: float) -> tuple[Guests, Volumes]:
        return asyncio.run(_reached(topology, guests, held, way, within_s))

    on_cloud.prepare(
        given,
        at,
        topology,
        reached,
        lambda api: volumes.check_types(api, [disk.type for disk in topology.disks]),
        SERVICES,
    )


async def _reached(
    topology: Tenants, guests: Guests, held: Volumes, way: reach.Way, within_s: float
) -> tuple[Guests, Volumes]:
    """Wait until fio can run in each instance, and find every volume's device. Raises HostFailed."""

    async def one(role: str) -> tuple[placed.Placed, dict[str, volumes.Held]]:
        to = await reach.ready(
            role, guests[role], way, install=topology.install, within_s=within_s, tools=topology.tools
        )
        own = {v.role: held[v.role] for v in topology.volumes() if v.guest == role}
        connection = await reach.connect(role, to, way)
        async with connection:
            attached = await disks.find(role, connection, own)
        return to, attached

    seen = await asyncio.gather(*(one(role) for role in guests))
    attached: dict[str, volumes.Held] = {}
    for _, own in seen:
        attached |= own
    return {role: to for role, (to, _) in zip(guests, seen, strict=True)}, attached


def _layout(given: Parameters, at: Placeholders, words: str) -> None:
    state = State.read(home(at) / STATE)
    _write(at.work / "prepare.json", asyncio.run(_fio(given, at, words, state, LAYOUT_LIMIT_S)))


def _run(given: Parameters, at: Placeholders, words: str) -> None:
    state = State.read(home(at) / STATE)
    on_cloud.not_moved(state, on_cloud.still_there(given, at, state, list(state.guests), SERVICES))
    _settle(given, at, state)
    _write(at.out / "fio.json", asyncio.run(_fio(given, at, words, state, at.seconds + fio.LATE_S)))
    emulated = sum(of.emulated for of in state.guests.values()) / len(state.guests)
    document = {
        "schema_version": 1,
        "emulated": emulated,
        "hosts": {role: of.where for role, of in state.guests.items()},
        "volume": state.volumes[f"{given.role}-{given.pool}"]._asdict(),
    }
    _write(at.out / "instances.json", document)


def _settle(given: Parameters, at: Placeholders, state: State) -> None:
    """Alone is alone: where a neighbour of the trial before was ended here, its fio has ended there too."""
    note = home(at) / RUNS
    try:
        pid = int(note.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return
    if NAME.encode() in _command_line(pid):
        return  # it runs beside this trial
    asyncio.run(fio.quiet(NEIGHBOUR, state.guests[NEIGHBOUR], state.way(given, at)))
    note.unlink(missing_ok=True)


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return (procfs.PROC / str(pid) / "cmdline").read_bytes()
    return b""


def _neighbour(given: Parameters, at: Placeholders, words: str) -> None:
    state = State.read(home(at) / STATE)
    _settle(given, at, state)
    (home(at) / RUNS).write_text(f"{os.getpid()}\n", encoding="ascii")

    def report_moved(moved: int) -> None:
        files.write(at.out / "moved", f"{moved}\n".encode())

    asyncio.run(
        fio.neighbour(
            given.role,
            state.guests[given.role],
            state.way(given, at),
            words,
            state.volumes[f"{given.role}-{given.pool}"],
            NEIGHBOUR_LIMIT_S,
            report_moved,
        )
    )


async def _fio(
    given: Parameters, at: Placeholders, words: str, state: State, limit_s: float
) -> dict[str, Any]:
    volume = state.volumes[f"{given.role}-{given.pool}"]
    return await fio.run(given.role, state.guests[given.role], state.way(given, at), words, volume, limit_s)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
