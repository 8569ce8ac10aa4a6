"""Parts of generators whose work is in instances of a cloud: the run's things, made once, kept in a file, removed."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import files
from contend.clouds.http import Api
from contend.clouds.instances import heat, made, placed, reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import Topology
from contend.clouds.instances.volumes import Held
from contend.clouds.openstack import unique_name
from contend.errors import ContendError, HostFailed
from contend.workloads.generators.cloud import cloud_of, image_user, server_of
from contend.workloads.parameters_file import Placeholders

STATE, TEMPLATE, KEY = "instances.json", "stack.yaml", "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Parameters of what makes the instances of a run, where, and how they are reached."""

    cloud: str
    by: str
    means: str
    zone: str
    hosts: str
    image: str
    flavor: str
    user: str
    networks: str
    cidrs: str
    external: str
    ssh_config: str
    install: bool
    within: float

    def shared(self) -> dict[str, Any]:
        """Fields of every topology, as `topology.shared` reads them. Raises BadInput."""
        wanted = ("means", "zone", "hosts", "networks", "cidrs", "external", "install")
        return {name: getattr(self, name) for name in wanted}


def home(at: Placeholders) -> Path:
    """Folder of what the run knows of its instances; its workloads share it."""
    return at.run / "work" / "instances"


@dataclass(frozen=True)
class State:
    """The kept record of a run's instances. prefix: of their names; user: of the instances."""

    prefix: str
    user: str
    guests: Mapping[str, Placed]
    volumes: Mapping[str, Held]

    def way(self, given: Making, at: Placeholders) -> reach.Way:
        """How they are reached."""
        return reach.Way(self.user, home(at) / KEY, given.ssh_config)

    def write(self, path: Path) -> None:
        """Whole, or not at all."""
        told = {
            "schema_version": 1,
            "prefix": self.prefix,
            "user": self.user,
            "instances": {role: of._asdict() for role, of in self.guests.items()},
            **(
                {"volumes": {role: of._asdict() for role, of in self.volumes.items()}} if self.volumes else {}
            ),
        }
        files.write(path, f"{json.dumps(told, indent=1)}\n".encode())

    @classmethod
    def read(cls, path: Path) -> State:
        """Raises HostFailed where nothing was made."""
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HostFailed("the run's instances are not there", hint="`prepare` makes them") from None
        return cls(
            told["prefix"],
            told["user"],
            {role: Placed(**of) for role, of in told["instances"].items()},
            {role: Held(**of) for role, of in told.get("volumes", {}).items()},
        )


Guests = Mapping[str, Placed]
Volumes = Mapping[str, Held]
Reached = Callable[[Guests, Volumes, reach.Way, float], tuple[Guests, Volumes]]
"""(instances, volumes, how they are reached, seconds that are left) → both, with what is found in the instances. Raises
HostFailed."""


def prepare(
    given: Making,
    at: Placeholders,
    topology: Topology,
    reached: Reached,
    before: Callable[[Api], None] = lambda api: None,
    services: tuple[str, ...] = made.SERVICES,
) -> None:
    """Make the run's instances, unless another cell of it has. before: checks what the cloud has to have, first.

    Raises BadInput, RequestFailed, HostFailed, with nothing left of it.
    """
    place = home(at)
    if (place / STATE).exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with cloud_of(given.cloud, at, services) as (cloud, record):
        before(cloud.api)
        user = given.user or image_user(cloud.api, given.image)
        server = server_of(cloud.api, given.image, given.flavor, "none")
        wanted = made.Wanted(server["imageRef"], server["flavorRef"], reach.make_key(place / KEY))
        prefix = unique_name(record.run, secrets.token_hex(2))
        maker = made.Maker(cloud, record, prefix, topology, given.within)
        try:
            if given.by == "heat":
                text = heat.text(heat.template(topology, prefix, record.run))
                (at.run / TEMPLATE).write_text(text, encoding="utf-8")
                found = maker.by_heat(wanted)
            else:
                found = maker.by_requests(wanted)
            guests: Guests = {role: placed.read(item) for role, item in found.items()}
            placed.check(topology, guests)
            held: Volumes = maker.volumes() if topology.disks else {}
            way = reach.Way(user, place / KEY, given.ssh_config)
            left_s = max(1.0, given.within - (time.monotonic() - began))
            guests, held = reached(guests, held, way, left_s)
        except BaseException:
            # A run that cannot begin leaves nothing, also where `finish` is not asked for. What stays, stays in the ledger.
            with suppress(ContendError):
                made.remove(cloud, record)
            (place / KEY).unlink(missing_ok=True)
            raise
    State(prefix, user, guests, held).write(place / STATE)


def still_there(
    given: Making,
    at: Placeholders,
    state: State,
    roles: Sequence[str],
    services: tuple[str, ...] = made.SERVICES,
) -> Mapping[str, Placed]:
    """These instances as the cloud has them now, on the hosts where they were when the run began. Raises HostFailed."""
    names = {f"{state.prefix}-{role}": role for role in roles}
    with cloud_of(given.cloud, at, services) as (cloud, _):
        found = {names[str(i["name"])]: placed.read(i) for i in cloud.find(made.SERVER, names)}
    if gone := sorted(set(names.values()) - set(found)):
        raise HostFailed(f"the cloud has no instance {gone[0]} any more", hint="who removed it?")
    return found


def not_moved(state: State, found: Mapping[str, Placed]) -> None:
    """Raises HostFailed for an instance that is elsewhere than when the run began: clouds move them."""
    moved = [role for role, of in found.items() if of.host_id != state.guests[role].host_id]
    if moved:
        raise HostFailed(
            f"instance {moved[0]} was moved to {found[moved[0]].where} since the run began",
            hint="trials before and after that are not of one place: run it again",
        )


def finish(given: Making, at: Placeholders, services: tuple[str, ...] = made.SERVICES) -> None:
    """Remove all that the run has on the cloud. Idempotent. Raises HostFailed for what stays."""
    place = home(at)
    if not place.exists():
        return
    with cloud_of(given.cloud, at, services) as (cloud, record):
        left = made.remove(cloud, record)
    for name in (STATE, KEY):
        (place / name).unlink(missing_ok=True)
    if left:
        name, why = next(iter(left.items()))
        raise HostFailed(
            f"{len(left)} of what was made cannot be removed: {name}: {why}", hint="contend destroy"
        )
