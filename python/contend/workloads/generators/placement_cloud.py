"""`{native} network-placement-cloud prepare | run | finish`: pairs of instances of a cloud.

The first `prepare` of a run makes all of its instances and verifies where they are; `finish` removes all that the run has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contend.clouds.access import kept, login
from contend.clouds.http import Api
from contend.clouds.instances import heat, made, placed, reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import MEANS, Spot, Topology, read
from contend.clouds.openstack import Cloud, Record, unique_name
from contend.errors import BadInput, ContendError, HostFailed
from contend.units import parse_duration_ns, parse_size_bytes
from contend.workloads.generators import verbs
from contend.workloads.generators.boot import server_of
from contend.workloads.generators.placement import check

LEDGER, STATE, TEMPLATE, KEY = "ledger.ndjson", "instances.json", "stack.yaml", "key"
USER_PROPERTY = "os_admin_user"
"""The property in which an image names its user (glance's common image properties)."""


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return verbs.run(_parser(), arguments)
    except KeyboardInterrupt:
        return 130


def _topology(given: argparse.Namespace) -> Topology:
    return read(
        places=given.places or Spot(given.host, given.subnet).short,
        pairs=max(given.most, given.pairs),
        means=given.means,
        zone=given.zone,
        hosts=given.hosts,
        networks=given.networks,
        cidrs=given.cidrs,
        external=given.external,
        install=given.install == "true",
    )


def home(given: argparse.Namespace) -> Path:
    """Of what the run knows of its instances; parties share it."""
    run: Path = given.run.resolve()
    return run / "work" / "instances"


@contextmanager
def _cloud(given: argparse.Namespace) -> Iterator[tuple[Cloud, Record]]:
    run: Path = given.run.resolve()
    services = made.SERVICES

    def renew() -> Any:
        fresh = login(given.cloud, services=services)
        fresh.save(given.access)
        return fresh

    access = kept(given.access, given.cloud, services)
    api = Api(access, renew)
    try:
        with Record(run / LEDGER, run=run.name, cloud=access.cloud, config=access.config) as record:
            yield Cloud(api, run.name), record
    finally:
        api.close()


def _prepare(given: argparse.Namespace) -> None:
    check(given.protocol, given.message, "none", given.host)
    topology = _topology(given)
    place = home(given)
    if (place / STATE).exists():  # by another cell of the run
        return
    place.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with _cloud(given) as (cloud, record):
        user = given.user or _user(cloud.api, given.image)
        server = server_of(cloud.api, given.image, given.flavor, "none")
        wanted = made.Wanted(server["imageRef"], server["flavorRef"], reach.make_key(place / KEY))
        prefix = unique_name(record.run, secrets.token_hex(2))
        maker = made.Maker(cloud, record, prefix, topology, given.within)
        try:
            if given.by == "heat":
                text = heat.text(heat.template(topology, prefix, record.run))
                (given.run.resolve() / TEMPLATE).write_text(text, encoding="utf-8")
                found = maker.by_heat(wanted)
            else:
                found = maker.by_requests(wanted)
            guests = {role: placed.read(item) for role, item in found.items()}
            placed.check(topology, guests)
            way = reach.Way(user, place / KEY, given.ssh_config)
            left_s = max(1.0, given.within - (time.monotonic() - began))
            guests = asyncio.run(_reached(guests, way, install=topology.install, within_s=left_s))
        except BaseException:
            # A run that cannot begin leaves nothing, also where `finish` is not asked for. What stays, stays in the ledger.
            with suppress(ContendError):
                made.remove(cloud, record)
            (place / KEY).unlink(missing_ok=True)
            raise
    _write(place / STATE, user, maker.prefix, guests)


async def _reached(
    guests: dict[str, Placed], way: reach.Way, *, install: bool, within_s: float
) -> dict[str, Placed]:
    """All instances, once the benchmark can run in each. Raises HostFailed for the first that it cannot run in."""
    seen = await asyncio.gather(
        *(reach.ready(role, to, way, install=install, within_s=within_s) for role, to in guests.items())
    )
    return dict(zip(guests, seen, strict=True))


def _user(api: Api, image: str) -> str:
    """Whom an image lets in by key, as it says. Raises BadInput where it does not."""
    images = api.request("GET", "image", "/images?status=active&limit=500").json()["images"]
    found = [i for i in images if image in (i["name"], i["id"])] if image or len(images) != 1 else images
    user = str(found[0].get(USER_PROPERTY) or "") if len(found) == 1 else ""
    if not user and len(found) == 1:
        raise BadInput(
            f"image '{found[0]['name']}' does not say as whom to log in (its property {USER_PROPERTY})",
            hint="--set parameters.user=debian, ubuntu, cloud-user, …",
        )
    return user


def _write(path: Path, user: str, prefix: str, guests: dict[str, Placed]) -> None:
    told = {
        "schema_version": 1,
        "prefix": prefix,
        "user": user,
        "instances": {role: of._asdict() for role, of in guests.items()},
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _run(given: argparse.Namespace) -> None:
    from contend.clouds.instances import trial
    from contend.testbed.placement.trial import Asked

    topology, spot, place = _topology(given), Spot(given.host, given.subnet), home(given)
    try:
        told = json.loads((place / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HostFailed("the run's instances are not there", hint="`prepare` makes them") from None
    guests = {role: Placed(**of) for role, of in told["instances"].items()}
    _still_there(given, topology, spot, told["prefix"], guests)
    seconds = parse_duration_ns(given.duration) / 1e9 / 2
    # Another in every trial: what a lost connection left there listens for a while.
    port = 20_000 + 2 * (zlib.crc32(f"{given.work.name} {given.seed}".encode()) % 5_000)
    asked = Asked(given.protocol, given.message, seconds, given.rate, given.seed, port)
    ends = [topology.ends(pair, spot) for pair in range(1, given.pairs + 1)]
    pairs = [((c, guests[c]), (s, guests[s])) for c, s in ends]
    way = reach.Way(told["user"], place / KEY, given.ssh_config)
    document = trial.run(pairs, asked, way)
    roles = [role for of in ends for role in of]
    document["emulated"] = sum(guests[role].emulated for role in roles) / len(roles)
    document["hosts"] = placed.hosts_of(guests, roles)
    given.out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _still_there(
    given: argparse.Namespace, topology: Topology, spot: Spot, prefix: str, guests: dict[str, Placed]
) -> None:
    """The cell's pairs are where they were when the run began: clouds move instances. Raises HostFailed."""
    roles = {f"{prefix}-{r}": r for p in range(1, given.pairs + 1) for r in topology.ends(p, spot)}
    with _cloud(given) as (cloud, _):
        found = {roles[str(i["name"])]: placed.read(i) for i in cloud.find(made.SERVER, roles)}
    if gone := sorted(set(roles.values()) - set(found)):
        raise HostFailed(f"the cloud has no instance {gone[0]} any more", hint="who removed it?")
    for pair in range(1, given.pairs + 1):
        placed.check_pair(topology, found, pair, spot)
    moved = [role for role, of in found.items() if of.host_id != guests[role].host_id]
    if moved:
        raise HostFailed(
            f"instance {moved[0]} was moved to {found[moved[0]].where} since the run began",
            hint="trials before and after that are not of one place: run it again",
        )


def _finish(given: argparse.Namespace) -> None:
    place = home(given)
    if not place.exists():
        return
    with _cloud(given) as (cloud, record):
        left = made.remove(cloud, record)
    for name in (STATE, KEY):
        (place / name).unlink(missing_ok=True)
    if left:
        name, why = next(iter(left.items()))
        raise HostFailed(
            f"{len(left)} of what was made cannot be removed: {name}: {why}", hint="contend destroy"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="network-placement-cloud", description="Pairs of instances of a cloud, over hosts and subnets."
    )
    subparsers = parser.add_subparsers(required=True, metavar="prepare | run | finish")
    for name, act, about in (
        ("prepare", _prepare, "make the instances"),
        ("run", _run, "a trial"),
        ("finish", _finish, "remove what the run made"),
    ):
        verb = subparsers.add_parser(name, help=about)
        verb.set_defaults(run_verb=act)
        verb.add_argument("--run", type=Path, required=True, help="the run's directory, with its ledger")
        verb.add_argument("--access", type=Path, required=True, help="file of the token, shared by the run")
        verb.add_argument("--cloud", default="")
        if act is _finish:
            continue
        _add_topology(verb)
        verb.add_argument("--protocol", choices=("tcp", "udp"), default="tcp")
        verb.add_argument("--message", type=parse_size_bytes, default=1400, help="bytes")
        verb.add_argument("--ssh-config", default="", help="an OpenSSH client configuration")
        if act is _prepare:
            verb.add_argument("--by", choices=("requests", "heat"), default="requests")
            verb.add_argument("--image", default="")
            verb.add_argument("--flavor", default="")
            verb.add_argument("--user", default="", help="of the instances")
            verb.add_argument("--within", type=float, default=540.0, help="seconds")
        else:
            verb.add_argument("--work", type=Path, required=True, help="the party's directory in its run")
            verb.add_argument("--for", dest="duration", default="10s", help="both halves together")
            verb.add_argument("--rate", type=float, default=500.0, help="requests a second of each pair")
            verb.add_argument("--seed", type=int, default=0)
            verb.add_argument("--out", type=Path, required=True, help="the trial's document goes here")
    return parser


def _add_topology(verb: argparse.ArgumentParser) -> None:
    for option in ("--host", "--subnet"):
        verb.add_argument(option, choices=("same", "different"), default="same")
    verb.add_argument("--places", default="", help="of the whole run, like ss,sd,ds,dd: host, subnet")
    verb.add_argument("--pairs", type=int, default=1)
    verb.add_argument("--most", type=int, default=1, help="pairs, of the whole run")
    verb.add_argument("--means", choices=MEANS, default=MEANS[0], help="what places instances")
    for option in ("--zone", "--hosts", "--networks", "--cidrs", "--external"):
        verb.add_argument(option, default="")
    verb.add_argument("--install", choices=("true", "false"), default="false")
