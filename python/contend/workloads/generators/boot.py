"""`boot-storm prepare | storm`: what the workload boot-storm runs. Logs in once a run; a storm uses that token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from contend.clouds.secrets import BROKER, DATABASE, NOTIFICATIONS
from contend.clouds.storm.document import write
from contend.clouds.storm.servers import Servers
from contend.clouds.storm.storm import StormOptions, storm
from contend.clouds.storm.watchers import Beside
from contend.errors import BadInput
from contend.workloads.generators import verbs
from contend.workloads.generators.cloud import cloud_of, server_of, trial_prefix
from contend.workloads.parameters_file import Placeholders


class Parameters(NamedTuple):
    """Parameters of the workload boot-storm."""

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
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "storm": _storm})


def _prepare(given: Parameters, at: Placeholders) -> None:
    """Log in, unless another cell of the run has; look up the names, so that no storm has to."""
    with cloud_of(given.cloud, at) as (cloud, _):
        wanted = server_of(cloud.api, given.image, given.flavor, given.network)
    _server(at).write_text(json.dumps(wanted) + "\n", encoding="utf-8")
    _check(given)
    if not _background(at).exists():
        _watch_background(given, _background(at))


def _server(at: Placeholders) -> Path:
    """File of what each server is to be."""
    return at.work / "server.json"


def _background(at: Placeholders) -> Path:
    """File of what the cloud counts anyway, of the whole run."""
    return at.work.parent / "cloud-background.json"


def _check(given: Parameters) -> None:
    """Check that the cloud can do what the storms will ask. Raises BadInput, HostFailed, CannotHonour."""
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
    """Write what the cloud's counters count while it is idle, once a run."""
    from contend.clouds.counters import NOTHING, Counters

    counters = Counters.open(given.database_url, given.broker_url)
    try:
        background = counters.quiet(given.quiet) if counters or given.traces else NOTHING
    finally:
        counters.close()
    file.write_text(json.dumps(background.to_json()) + "\n", encoding="utf-8")


def _storm(given: Parameters, at: Placeholders) -> None:
    wanted = json.loads(_server(at).read_text(encoding="utf-8"))
    options = StormOptions(given.n, given.rate, given.within)
    prefix = trial_prefix(at)
    with cloud_of(given.cloud, at, connections=min(given.n, 64) + 1) as (cloud, record):
        beside = _beside(given, _background(at))
        try:
            servers = Servers(
                cloud.api,
                record,
                prefix,
                wanted,
                poll_s=given.poll_ms / 1e3,
                poll_share=given.poll_share,
                states=given.states,
                beside=beside,
            )
            happened = storm(servers, prefix, options)
        finally:
            beside.close()
    write(happened, at.out / "storm.json", given.tolerate)


def _beside(given: Parameters, file: Path) -> Beside:
    sources = (given.database_url, given.broker_url, given.notifications_url, given.served, given.traces)
    if not any(sources) and not any(os.environ.get(name) for name in (DATABASE, BROKER, NOTIFICATIONS)):
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
