"""A sweep's fio on volumes of a cloud: in two instances, by SSH; what they are, and what a run makes there."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from contend.clouds.instances.before import check_cloud, creation_lines
from contend.clouds.instances.fio import DEVICE
from contend.clouds.instances.tenants import HOSTS, MEASURED, NEIGHBOUR, Tenants, read
from contend.clouds.instances.topology import Disk
from contend.studies.storage import fio_words
from contend.studies.storage.fio_words import LOAD
from contend.studies.storage.model import Pool, Storage
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Metric, Neighbour, Parameter, Scalar, Workload

AROUND_S = 3.0
"""What a trial takes beside its time, expected: a look at the cloud, SSH, fio's start."""
# As placed pairs have them.
_AS_PAIRS = (
    "by", "means", "zone", "hosts", "image", "flavor", "user", "networks", "cidrs", "external", "ssh_config", "install",
    "within",
)  # fmt: skip
_ABOUT = {
    "flavor": "name or id; empty: the smallest",
    "networks": "one of the cloud's; empty: the run makes its own",
    "install": "cloud-init installs fio in the instances",
}


def parameters(scenario: Storage, pool: Pool, *, first: bool) -> dict[str, Scalar]:
    """Parameters of a workload besides its fio's: its own instance and pool, and what it must know of all instances."""
    return {
        **scenario.parameters,
        "cloud": scenario.cloud,
        "disks": json.dumps(disks(scenario)),
        "role": MEASURED if first else NEIGHBOUR,
        "pool": pool.name,
    }


def disks(scenario: Storage) -> list[Disk]:
    """The volumes of each instance. Whole GiB, which Cinder counts in."""
    gib = math.ceil(scenario.size / 2**30)
    return [Disk(pool.name, pool.volume_type, gib) for pool in scenario.named]


@functools.lru_cache(maxsize=32)
def workload(pool: Pool, size: int, passes: int, burning: float) -> Workload:
    """The catalogue's fio, in an instance. burning: bytes a second that a neighbour there has to move."""
    fio, pairs = load_workload("fio"), load_workload("network-placement-cloud")
    direct = pool.direct is not False
    native = "{native} storage-cloud"
    of_run = {name: pairs.parameters[name] for name in _AS_PAIRS}
    of_run |= {name: of_run[name].model_copy(update={"about": about}) for name, about in _ABOUT.items()}
    return Workload(
        name="fio",
        title=f"{fio.title}, on volumes of type {pool.volume_type}",
        about=fio.about,
        install=pairs.install,
        parameters={
            **LOAD,
            "cloud": pairs.parameters["cloud"],
            **of_run,
            "neighbour_host": Parameter(
                default="any",
                choices=list(HOSTS),
                about="of the neighbour's instance: the measured one's, another, or wherever the cloud puts it",
            ),
            "disks": Parameter(default="[]", about="volumes of each instance. A study fills it in"),
            "role": Parameter(default=MEASURED, choices=[MEASURED, NEIGHBOUR]),
            "pool": Parameter(default=""),
        },
        prepare=(
            f"{native} prepare {{parameters}}",
            f"{native} layout {{parameters}} {fio_words.layout(DEVICE, size, passes, direct)}",
        ),
        run=(f"{native} run {{parameters}} {{seconds}}s {fio_words.trial(DEVICE, direct)}",),
        finish=(f"{native} finish {{parameters}}",),
        neighbour=Neighbour(
            run=f"{native} neighbour {{parameters}} {fio_words.neighbour(DEVICE, direct)}",
            burning=burning,
            counter="moved",
        ),
        metrics={
            **fio.metrics,
            "emulated": Metric.model_validate(
                {
                    "from": "instances.json",
                    "path": "$.emulated",
                    "unit": "ratio",
                    "better": "lower",
                    "about": "of the two instances, those whose CPU is emulated: theirs are no figures of a cloud's",
                }
            ),
        },
        dominant="disk",
        trial=fio.trial,
        around=round(AROUND_S * 1e9),
        elsewhere=True,
        origin=fio.origin,
    )  # fmt: skip


def topology_of(scenario: Storage) -> tuple[Tenants, Mapping[str, Any]]:
    """The instances and volumes that a run makes, and the workload's parameters. Raises BadInput."""
    of = _settings(scenario)
    names = ("neighbour_host", "means", "zone", "hosts", "networks", "cidrs", "external")
    texts = {name: str(of[name]) for name in names}
    return read(disks=disks(scenario), install=bool(of["install"]), **texts), of


def _settings(scenario: Storage) -> Mapping[str, Any]:
    pool = scenario.named[0]
    made = workload(pool, scenario.size, scenario.passes, 1.0)
    return resolve(made, parameters(scenario, pool, first=True)).parameters


def check(scenario: Storage) -> None:
    """Check that the cloud is described and the scenario fits it, without a request to the cloud. Raises BadInput."""
    _, of = topology_of(scenario)
    check_cloud(scenario.cloud, of)


def instance_lines(scenario: Storage) -> Iterator[str]:
    """Lines on what a run makes on the cloud, and the template where Heat makes it. Raises BadInput."""
    topology, of = topology_of(scenario)
    volumes = topology.volumes()
    by_type = ", ".join(
        f"{sum(v.disk.pool == disk.pool for v in volumes)} volumes of type {disk.type}, {disk.gib} GiB each"
        for disk in topology.disks
    )
    where = {"same": "on one host", "different": "on different hosts", "any": "wherever the cloud puts them"}
    made = [f"2 instances ({MEASURED}, {NEIGHBOUR}; {where[topology.spots[0].host]})", by_type]
    made += ["a server group"] if list(topology.groups()) else []
    yield from creation_lines(scenario.cloud, topology, of, made)
