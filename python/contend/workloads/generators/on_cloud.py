"""Instances of a cloud for generators: made once a run, kept in a file, removed at its end."""

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
    """Parameters of a run's instances: the cloud, what makes them, and how they are reached."""

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
        """The way to reach the instances by SSH."""
        return reach.Way(self.user, home(at) / KEY, given.ssh_config)

    def write(self, path: Path) -> None:
        """Write the record, whole or not at all."""
        document = {
            "schema_version": 1,
            "prefix": self.prefix,
            "user": self.user,
            "instances": {role: of._asdict() for role, of in self.guests.items()},
            **(
                {"volumes": {role: of._asdict() for role, of in self.volumes.items()}} if self.volumes else {}
            ),
        }
        files.write(path, f"{json.dumps(document, indent=1)}\n".encode())

    @classmethod
    def read(cls, path: Path) -> State:
        """Read the record. Raises HostFailed where the instances were not made."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HostFailed("the run's instances are not there", hint="`prepare` makes them") from None
        return cls(
            document["prefix"],
            document["user"],
            {role: Placed(**of) for role, of in document["instances"].items()},
            {role: Held(**of) for role, of in document.get("volumes", {}).items()},
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
    folder = home(at)
    if (folder / STATE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with cloud_of(given.cloud, at, services) as (cloud, record):
        before(cloud.api)
        user = given.user or image_user(cloud.api, given.image)
        server = server_of(cloud.api, given.image, given.flavor, "none")
        wanted = made.Wanted(server["imageRef"], server["flavorRef"], reach.make_key(folder / KEY))
        prefix = unique_name(record.run, secrets.token_hex(2))
        maker = made.Maker(cloud, record, prefix, topology, given.within)
        try:
            if given.by == "heat":
                text = heat.text(heat.template(topology, prefix, record.run))
                (at.run / TEMPLATE).write_text(text, encoding="utf-8")
                items = maker.by_heat(wanted)
            else:
                items = maker.by_requests(wanted)
            guests: Guests = {role: placed.read(item) for role, item in items.items()}
            placed.check(topology, guests)
            held: Volumes = maker.volumes() if topology.disks else {}
            way = reach.Way(user, folder / KEY, given.ssh_config)
            left_s = max(1.0, given.within - (time.monotonic() - began))
            guests, held = reached(guests, held, way, left_s)
        except BaseException:
            # A run that cannot begin leaves nothing, also where `finish` is not asked for. What stays, stays in the ledger.
            with suppress(ContendError):
                made.remove(cloud, record)
            (folder / KEY).unlink(missing_ok=True)
            raise
    State(prefix, user, guests, held).write(folder / STATE)


def still_there(
    given: Making,
    at: Placeholders,
    state: State,
    roles: Sequence[str],
    services: tuple[str, ...] = made.SERVICES,
) -> Mapping[str, Placed]:
    """Read these instances as the cloud has them now. Raises HostFailed where one is gone."""
    names = {f"{state.prefix}-{role}": role for role in roles}
    with cloud_of(given.cloud, at, services) as (cloud, _):
        instances = {names[str(i["name"])]: placed.read(i) for i in cloud.find(made.SERVER, names)}
    if gone := sorted(set(names.values()) - set(instances)):
        raise HostFailed(f"the cloud has no instance {gone[0]} any more", hint="who removed it?")
    return instances


def not_moved(state: State, instances: Mapping[str, Placed]) -> None:
    """Check that no instance is on another host than when the run began. Raises HostFailed."""
    moved = [role for role, of in instances.items() if of.host_id != state.guests[role].host_id]
    if moved:
        raise HostFailed(
            f"instance {moved[0]} was moved to {instances[moved[0]].where} since the run began",
            hint="trials before and after that are not of one place: run it again",
        )


def finish(given: Making, at: Placeholders, services: tuple[str, ...] = made.SERVICES) -> None:
    """Remove all that the run has on the cloud. Idempotent. Raises HostFailed for what stays."""
    folder = home(at)
    if not folder.exists():
        return
    with cloud_of(given.cloud, at, services) as (cloud, record):
        left = made.remove(cloud, record)
    for name in (STATE, KEY):
        (folder / name).unlink(missing_ok=True)
    if left:
        name, why = next(iter(left.items()))
        raise HostFailed(
            f"{len(left)} of what was made cannot be removed: {name}: {why}", hint="contend destroy"
        )
