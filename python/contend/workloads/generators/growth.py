"""`control-plane-growth prepare | pass`: what the workload of that name runs. Logs in once a run."""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path
from typing import Any

from contend.clouds.access import Access, kept, login
from contend.clouds.counters import Counters
from contend.clouds.growth.document import document
from contend.clouds.growth.grow import MODES, NEIGHBOUR, GrowthOptions, grow
from contend.clouds.growth.kinds import GROWING, SERVICES, api_pool
from contend.clouds.growth.meter import CloudMeter
from contend.clouds.growth.neighbour import Neighbour, of_another_cloud, of_own_project
from contend.clouds.http import Api
from contend.clouds.openstack import Cloud, Record, unique_name
from contend.errors import TrialFailed
from contend.ledger import path_of
from contend.workloads.generators import verbs
from contend.workloads.generators.boot import server_of


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(_parser(), arguments)


def _access(given: argparse.Namespace) -> Access:
    """The run's token."""
    return kept(given.access, given.cloud, SERVICES)


def _prepare(given: argparse.Namespace) -> None:
    """Log in, unless another cell of the run has; see that what is to be counted can be."""
    _access(given)
    Counters.open(given.database_url, given.broker_url).close()


def _pass(given: argparse.Namespace) -> None:
    access = _access(given)

    def renew() -> Access:
        fresh = login(given.cloud, services=SERVICES)
        fresh.save(given.access)
        return fresh

    run: Path = given.run.resolve()
    counters = Counters.open(given.database_url, given.broker_url)
    api = Api(access, renew, connections=api_pool(given.workers, given.flood))
    # Of no other pass, nor of this trial's when it was tried before.
    prefix = unique_name(run.name, f"{given.out.parent.name.lstrip('0') or '0'}-{secrets.token_hex(2)}")
    with Record(path_of(run), run=run.name, cloud=access.cloud, config=access.config) as record:
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
                given.seed,
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
    given.out.write_text(json.dumps(document(happened), indent=1) + "\n", encoding="utf-8")


def _neighbour(
    given: argparse.Namespace, api: Api, record: Record, prefix: str, server: dict[str, Any]
) -> Neighbour:
    other: str = given.neighbour_cloud
    if not other:
        return of_own_project(Cloud(api, record.run), record, prefix, server, given.flood)
    access = login(other, services=SERVICES)
    own = Api(access, lambda: login(other, services=SERVICES), connections=given.flood + 1)
    return of_another_cloud(own, record, prefix, server)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="control-plane-growth", description="One kind of a cloud's entities, grown, its calls timed."
    )
    verbs = parser.add_subparsers(required=True, metavar="prepare | pass")
    prepare = verbs.add_parser("prepare", help="log in")
    prepare.set_defaults(run_verb=_prepare)
    one = verbs.add_parser("pass", help="one pass up and down")
    one.add_argument("--run", type=Path, required=True, help="the run's directory, with its ledger")
    one.add_argument("--out", type=Path, required=True, help="the pass's document goes here")
    one.add_argument("--kind", choices=tuple(GROWING), required=True)
    one.add_argument("--upto", type=int, required=True, help="entities")
    one.add_argument("--step", type=int, default=30, help="entities")
    one.add_argument("--rounds", type=int, default=7, help="of all calls, at every step")
    one.add_argument("--workers", type=int, default=4, help="that create and remove a step's entities")
    one.add_argument("--modes", default="quiet", help=f"of {', '.join(MODES)}; {NEIGHBOUR}: a second tenant")
    one.add_argument("--flood", type=int, default=2, help="creations at once, beside the calls")
    one.add_argument("--within", type=float, default=120.0, help="seconds")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--image", default="")
    one.add_argument("--flavor", default="")
    one.add_argument("--neighbour-cloud", default="", help="the second tenant; else one is made")
    one.set_defaults(run_verb=_pass)
    for verb in (prepare, one):
        verb.add_argument("--cloud", default="")
        verb.add_argument("--database-url", default="", help="else $CONTEND_DATABASE_URL")
        verb.add_argument("--broker-url", default="", help="else $CONTEND_BROKER_URL")
        verb.add_argument("--access", type=Path, required=True, help="file of the token, shared by the run")
    return parser
