"""`boot-storm prepare | storm`: what the workload boot-storm runs. Logs in once a run; a storm uses that token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from contend.clouds.access import Access
from contend.clouds.http import Api
from contend.clouds.login import login
from contend.clouds.openstack import Record, need_id, unique_name
from contend.clouds.secrets import BROKER, DATABASE, NOTIFICATIONS
from contend.clouds.storm.document import write
from contend.clouds.storm.servers import Servers
from contend.clouds.storm.storm import StormOptions, storm
from contend.clouds.storm.watchers import Beside
from contend.errors import BadInput
from contend.names import short_hash
from contend.workloads.generators import verbs
from contend.workloads.parameters_file import Placeholders


class Parameters(NamedTuple):
    """Those of the workload boot-storm."""

    cloud: str
    n: int
    network: str
    rate: float
    image: str
    flavor: str
    poll_ms: float
    poll_share: float
    states: bool
    within: float
    tolerate: float
    database_url: str
    broker_url: str
    traces: str
    notifications_url: str
    served: str
    served_within: float
    quiet: float


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "storm": _storm})


def _prepare(asked: Parameters, at: Placeholders) -> None:
    """Log in, unless another cell of the run has; look up the names, so that no storm has to."""
    api = Api(_access(asked, at), lambda: login(asked.cloud))
    try:
        wanted = server_of(api, asked.image, asked.flavor, asked.network)
    finally:
        api.close()
    _server(at).write_text(json.dumps(wanted) + "\n", encoding="utf-8")
    _check(asked)
    if not _background(at).exists():
        _watch_background(asked, _background(at))


def _server(at: Placeholders) -> Path:
    """File of what each server is to be."""
    return at.work / "server.json"


def _background(at: Placeholders) -> Path:
    """File of what the cloud counts anyway, of the whole run."""
    return at.work.parent / "cloud-background.json"


def _check(given: Parameters) -> None:
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
    if not given.states:
        raise BadInput("served: addresses are told beside states", hint="--set parameters.states=true")


def _watch_background(given: Parameters, file: Path) -> None:
    """What the cloud's counters count while nothing is asked for, once a run."""
    from contend.clouds.counters import NOTHING, Counters

    counters = Counters.open(given.database_url, given.broker_url)
    try:
        background = counters.quiet(given.quiet) if counters or given.traces else NOTHING
    finally:
        counters.close()
    file.write_text(json.dumps(background.to_json()) + "\n", encoding="utf-8")


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


def _file(cloud: str, at: Placeholders) -> Path:
    """Of the token, shared by the run's storms: a run may compare clouds."""
    return at.work.parent / (f"cloud-access-{short_hash(cloud)}.json" if cloud else "cloud-access.json")


def _access(asked: Parameters, at: Placeholders) -> Access:
    """The run's for that cloud; a new login where it has none that will do."""
    file = _file(asked.cloud, at)
    access = Access.load(file)
    if access is None or not access.fresh:
        access = login(asked.cloud)
        access.save(file)
    return access


def _storm(given: Parameters, at: Placeholders) -> None:
    access = _access(given, at)

    def renew() -> Access:
        fresh = login(given.cloud)
        fresh.save(_file(given.cloud, at))
        return fresh

    run = at.run
    wanted = json.loads(_server(at).read_text(encoding="utf-8"))
    asked = StormOptions(given.n, given.rate, given.within)
    # Of no other storm, nor of this trial's when it was tried before.
    prefix = unique_name(run.name, f"{at.out.name.lstrip('0') or '0'}-{os.urandom(2).hex()}")
    api = Api(access, renew, connections=min(given.n, 64) + 1)
    beside = _beside(given, _background(at))
    from contend.store.state import (
        ledger_of,  # brings shutil, which what else this program is for does without
    )

    with Record(ledger_of(run), run=run.name, cloud=access.cloud, config=access.config) as record:
        try:
            servers = Servers(
                api,
                record,
                prefix,
                wanted,
                poll_s=given.poll_ms / 1e3,
                poll_share=given.poll_share,
                states=given.states,
                beside=beside,
            )
            happened = storm(servers, prefix, asked)
        finally:
            api.close()
            beside.close()
    write(happened, at.out / "storm.json", given.tolerate)


def _beside(given: Parameters, file: Path) -> Beside:
    asked = (given.database_url, given.broker_url, given.notifications_url, given.served, given.traces)
    if not any(asked) and not any(os.environ.get(name) for name in (DATABASE, BROKER, NOTIFICATIONS)):
        return Beside()
    from contend.clouds.counters import Background, Counters
    from contend.clouds.storm.counted import Counting
    from contend.clouds.storm.notices import listen, where
    from contend.clouds.storm.served import Prober, Service

    counters = Counters.open(given.database_url, given.broker_url)
    background = Background.from_json(json.loads(file.read_text(encoding="utf-8")))
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
