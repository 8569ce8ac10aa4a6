"""`boot-storm prepare | storm`: what the workload boot-storm runs. Logs in once a run; a storm uses that token."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from contend.clouds.access import Access, login
from contend.clouds.http import Api
from contend.clouds.openstack import Record, need_id, unique_name
from contend.clouds.secrets import BROKER, DATABASE, NOTIFICATIONS
from contend.clouds.storm.document import write
from contend.clouds.storm.servers import Servers
from contend.clouds.storm.storm import StormOptions, storm
from contend.clouds.storm.watchers import Beside
from contend.errors import BadInput
from contend.ledger import path_of
from contend.platforms.names import short_hash
from contend.workloads.generators import verbs


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(_parser(), arguments)


def _prepare(given: argparse.Namespace) -> None:
    """Log in, unless another cell of the run has; look up the names, so that no storm has to."""
    access = _access(given)
    api = Api(access, lambda: login(given.cloud))
    try:
        wanted = server_of(api, given.image, given.flavor, given.network)
    finally:
        api.close()
    given.server.write_text(json.dumps(wanted) + "\n", encoding="utf-8")
    _check(given)
    if not given.background.exists():
        _watch_background(given)


def _check(given: argparse.Namespace) -> None:
    """What storms will be asked for can be done. Raises BadInput, HostFailed, CannotHonour."""
    from contend.clouds.storm.notices import listen, where
    from contend.clouds.storm.served import Service

    bus = where(given.notifications_url)
    if bus is not None:
        listen(bus).close()
    if not given.served:
        return
    Service.parse(given.served)
    if given.network == "none":
        hint = "--set network=auto, or a name"
        raise BadInput("served: servers without a network have no address", hint=hint)
    if given.states != "true":
        raise BadInput("served: addresses are told beside states", hint="--set parameters.states=true")


def _watch_background(given: argparse.Namespace) -> None:
    """What the cloud's counters count while nothing is asked for, once a run."""
    from contend.clouds.counters import NOTHING, Counters

    counters = Counters.open(given.database_url, given.broker_url)
    try:
        background = counters.quiet(given.quiet) if counters or given.traces else NOTHING
    finally:
        counters.close()
    given.background.write_text(json.dumps(background.to_json()) + "\n", encoding="utf-8")


def server_of(api: Api, image: str, flavor: str, network: str) -> dict[str, Any]:
    """What a request for a server wants, ids for names. "" takes the only image, and the smallest flavour.

    network: `none`, `auto` (the cloud's choice), or a network's name. Raises HostFailed for what is not there.
    """
    images = api.request("GET", "image", "/images?status=active&limit=500").json()["images"]
    if image or len(images) != 1:
        images = [i for i in images if image in (i["name"], i["id"])]
    flavors = api.request("GET", "compute", "/flavors/detail").json()["flavors"]
    if flavor:
        flavors = [f for f in flavors if flavor in (f["name"], f["id"])]
    else:
        flavors = sorted(flavors, key=lambda f: (f["ram"], f["vcpus"], f["disk"]))[:1]
    hint = "--set parameters.{0}=NAME; openstack {0} list shows them"
    networks: Any = network
    if network not in ("none", "auto"):
        found = api.request("GET", "network", "/networks?limit=500").json()["networks"]
        named = [n for n in found if network in (n["name"], n["id"])]
        networks = [{"uuid": need_id(named, "network", network, "--set network=[none,auto]")}]
    return {
        "imageRef": need_id(images, "image", image or "(any)", hint.format("image")),
        "flavorRef": need_id(flavors, "flavour", flavor or "(any)", hint.format("flavor")),
        "networks": networks,
    }


def _file(given: argparse.Namespace) -> Path:
    """Of the token: a run may compare clouds."""
    path: Path = given.access
    number = short_hash(given.cloud)
    return path.with_name(f"{path.stem}-{number}{path.suffix}") if given.cloud else path


def _access(given: argparse.Namespace) -> Access:
    """The run's for that cloud; a new login where it has none that will do."""
    access = Access.load(_file(given))
    if access is None or not access.fresh:
        access = login(given.cloud)
        access.save(_file(given))
    return access


def _storm(given: argparse.Namespace) -> None:
    access = _access(given)

    def renew() -> Access:
        fresh = login(given.cloud)
        fresh.save(_file(given))
        return fresh

    run: Path = given.run.resolve()
    wanted = json.loads(given.server.read_text(encoding="utf-8"))
    asked = StormOptions(given.n, given.rate, given.within)
    # Of no other storm, nor of this trial's when it was tried before.
    prefix = unique_name(run.name, f"{given.out.parent.name.lstrip('0') or '0'}-{os.urandom(2).hex()}")
    api = Api(access, renew, connections=min(given.n, 64) + 1)
    beside = _beside(given)
    with Record(path_of(run), run=run.name, cloud=access.cloud, config=access.config) as record:
        try:
            servers = Servers(
                api,
                record,
                prefix,
                wanted,
                poll_s=given.poll_ms / 1e3,
                poll_share=given.poll_share,
                states=given.states == "true",
                beside=beside,
            )
            happened = storm(servers, prefix, asked)
        finally:
            api.close()
            beside.close()
    write(happened, given.out, given.tolerate)


def _beside(given: argparse.Namespace) -> Beside:
    asked = (given.database_url, given.broker_url, given.notifications_url, given.served, given.traces)
    if not any(asked) and not any(os.environ.get(name) for name in (DATABASE, BROKER, NOTIFICATIONS)):
        return Beside()
    from contend.clouds.counters import Background, Counters
    from contend.clouds.storm.counted import Counting
    from contend.clouds.storm.notices import listen, where
    from contend.clouds.storm.served import Prober, Service

    counters = Counters.open(given.database_url, given.broker_url)
    background = Background.from_json(json.loads(given.background.read_text(encoding="utf-8")))
    bus = where(given.notifications_url)
    beside = Beside(
        Counting(counters, background) if counters or given.traces else None,
        listen(bus) if bus is not None else None,
        Prober(Service.parse(given.served), given.poll_ms / 1e3) if given.served else None,
        given.served_within,
    )
    if beside.prober is not None:
        beside.prober.start()
    return beside


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="boot-storm", description="Servers of a cloud, created at once and timed."
    )
    verbs = parser.add_subparsers(required=True, metavar="prepare | storm")
    prepare = verbs.add_parser("prepare", help="log in and look up image, flavour and network")
    prepare.add_argument("--image", default="")
    prepare.add_argument("--flavor", default="")
    prepare.add_argument("--network", default="none")
    prepare.add_argument(
        "--quiet", type=float, default=10.0, help="seconds in which the counters are watched"
    )
    prepare.set_defaults(run_verb=_prepare)
    one = verbs.add_parser("storm", help="one storm")
    one.add_argument("--run", type=Path, required=True, help="the run's directory, with its ledger")
    one.add_argument("--out", type=Path, required=True, help="the storm's document goes here")
    one.add_argument("--n", type=int, required=True)
    one.add_argument("--rate", type=float, default=0.0)
    one.add_argument("--poll-ms", type=float, default=100.0)
    one.add_argument("--poll-share", type=float, default=0.5, help="of one worker of the API, at most")
    one.add_argument("--within", type=float, default=300.0, help="seconds")
    one.add_argument(
        "--served-within", type=float, default=60.0, help="seconds from due to the guests' answers"
    )
    one.add_argument("--tolerate", type=float, default=0.0, help="share of servers that may fail")
    one.set_defaults(run_verb=_storm)
    for verb in (prepare, one):
        verb.add_argument("--cloud", default="")
        verb.add_argument(
            "--access", type=Path, required=True, help="file of the token, shared by the run's storms"
        )
        verb.add_argument(
            "--states", choices=("true", "false"), default="true", help="watch those on the way too"
        )
        verb.add_argument("--database-url", default="", help="whose statements are counted")
        verb.add_argument("--broker-url", default="", help="whose messages are counted")
        verb.add_argument(
            "--notifications-url", default="", help="the bus on which nova's notifications are heard"
        )
        verb.add_argument("--served", default="", help="tcp:PORT or http:PORT/PATH that guests answer on")
        verb.add_argument("--traces", default="", help="directory that the cloud's services are recorded in")
        verb.add_argument(
            "--background", type=Path, required=True, help="file of what is counted anyway, of the whole run"
        )
        verb.add_argument("--server", type=Path, required=True, help="file of what each server is to be")
    return parser
