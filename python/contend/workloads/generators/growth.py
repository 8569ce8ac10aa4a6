"""`control-plane-growth prepare | pass`: what the workload of that name runs. Logs in once a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from contend.clouds.counters import Counters
from contend.clouds.growth.document import CloudMeter, document
from contend.clouds.growth.grow import GrowthOptions, grow
from contend.clouds.growth.kinds import GROWING, SERVICES, api_pool
from contend.clouds.growth.neighbour import Neighbour, of_another_cloud, of_own_project
from contend.clouds.http import Api
from contend.clouds.login import login
from contend.clouds.openstack import Cloud, Record
from contend.errors import TrialFailed
from contend.workloads.generators import verbs
from contend.workloads.generators.cloud import access_of, cloud_of, server_of, trial_prefix
from contend.workloads.parameters_file import Placeholders


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload control-plane-growth."""

    cloud: str
    kind: str
    modes: str
    within: float
    upto: int
    step: int
    rounds: int
    workers: int
    flood: int
    neighbour_cloud: str
    database_url: str
    broker_url: str
    image: str
    flavor: str


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "pass": _pass})


def _prepare(given: Parameters, at: Placeholders) -> None:
    """Log in, unless another cell of the run has; see that what is to be counted can be."""
    access_of(given.cloud, at, SERVICES)
    Counters.open(given.database_url, given.broker_url).close()


def _pass(given: Parameters, at: Placeholders) -> None:
    counters = Counters.open(given.database_url, given.broker_url)
    prefix = trial_prefix(at)
    pool = api_pool(given.workers, given.flood)
    with cloud_of(given.cloud, at, SERVICES, pool) as (cloud, record):
        try:
            server = server_of(cloud.api, given.image, given.flavor, "none") if given.kind == "server" else {}
            options = GrowthOptions(
                given.kind,
                given.upto,
                given.step,
                given.rounds,
                given.workers,
                tuple(given.modes.split(",")),
                given.flood,
                given.within,
                at.seed,
                server,
            )
            second = f"{prefix}-n"  # keystone takes 64 characters for a project
            happened = grow(
                cloud.api,
                record,
                prefix,
                options,
                neighbour=lambda: _neighbour(given, cloud, record, second, server),
                meter=CloudMeter(counters, GROWING[given.kind].kind.service) if counters else None,
            )
        finally:
            counters.close()
    if happened.left:
        name, why = next(iter(happened.left.items()))
        raise TrialFailed(f"{len(happened.left)} of what was made cannot be removed: {name}: {why}")
    (at.out / "growth.json").write_text(json.dumps(document(happened), indent=1) + "\n", encoding="utf-8")


def _neighbour(
    given: Parameters, cloud: Cloud, record: Record, prefix: str, server: dict[str, Any]
) -> Neighbour:
    other: str = given.neighbour_cloud
    if not other:
        return of_own_project(cloud, record, prefix, server, given.flood)
    access = login(other, services=SERVICES)
    own = Api(access, lambda: login(other, services=SERVICES), connections=given.flood + 1)
    return of_another_cloud(own, record, prefix, server)
