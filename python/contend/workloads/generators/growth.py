"""`control-plane-growth prepare | pass`: what the workload of that name runs. Logs in once a run."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.clouds.access import Access
from contend.clouds.counters import Counters
from contend.clouds.growth.document import document
from contend.clouds.growth.grow import GrowthOptions, grow
from contend.clouds.growth.kinds import GROWING, SERVICES, api_pool
from contend.clouds.growth.meter import CloudMeter
from contend.clouds.growth.neighbour import Neighbour, of_another_cloud, of_own_project
from contend.clouds.http import Api
from contend.clouds.login import kept, login
from contend.clouds.openstack import Cloud, Record, unique_name
from contend.errors import TrialFailed
from contend.store.state import ledger_of
from contend.workloads.generators import verbs
from contend.workloads.generators.boot import server_of
from contend.workloads.parameters_file import Placeholders


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Those of the workload control-plane-growth."""

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
    """The exit code: that of the error where there is one."""
    return verbs.run(arguments, Parameters, {"prepare": _prepare, "pass": _pass})


def _file(at: Placeholders) -> Path:
    """Of the token, shared by the run."""
    return at.work.parent / "cloud-access.json"


def _access(given: Parameters, at: Placeholders) -> Access:
    """The run's token."""
    return kept(_file(at), given.cloud, SERVICES)


def _prepare(given: Parameters, at: Placeholders) -> None:
    """Log in, unless another cell of the run has; see that what is to be counted can be."""
    _access(given, at)
    Counters.open(given.database_url, given.broker_url).close()


def _pass(given: Parameters, at: Placeholders) -> None:
    access = _access(given, at)

    def renew() -> Access:
        fresh = login(given.cloud, services=SERVICES)
        fresh.save(_file(at))
        return fresh

    run = at.run
    counters = Counters.open(given.database_url, given.broker_url)
    api = Api(access, renew, connections=api_pool(given.workers, given.flood))
    # Of no other pass, nor of this trial's when it was tried before.
    prefix = unique_name(run.name, f"{at.out.name.lstrip('0') or '0'}-{secrets.token_hex(2)}")
    with Record(ledger_of(run), run=run.name, cloud=access.cloud, config=access.config) as record:
        try:
            server = server_of(api, given.image, given.flavor, "none") if given.kind == "server" else {}
            asked = GrowthOptions(
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
                api,
                record,
                prefix,
                asked,
                neighbour=lambda: _neighbour(given, api, record, second, server),
                meter=CloudMeter(counters, GROWING[given.kind].kind.service) if counters else None,
            )
        finally:
            api.close()
            counters.close()
    if happened.left:
        name, why = next(iter(happened.left.items()))
        raise TrialFailed(f"{len(happened.left)} of what was made cannot be removed: {name}: {why}")
    (at.out / "growth.json").write_text(json.dumps(document(happened), indent=1) + "\n", encoding="utf-8")


def _neighbour(given: Parameters, api: Api, record: Record, prefix: str, server: dict[str, Any]) -> Neighbour:
    other: str = given.neighbour_cloud
    if not other:
        return of_own_project(Cloud(api, record.run), record, prefix, server, given.flood)
    access = login(other, services=SERVICES)
    own = Api(access, lambda: login(other, services=SERVICES), connections=given.flood + 1)
    return of_another_cloud(own, record, prefix, server)
