"""Pools that are volume types of a cloud: which there are, what is known of them before a run, where they stood in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.clouds.http import Api
from contend.clouds.instances import volumes
from contend.clouds.instances.tenants import MEASURED, NEIGHBOUR
from contend.clouds.login import login
from contend.errors import BadInput
from contend.studies.storage.cloud_cells import disks
from contend.studies.storage.model import Pool, Storage

MOST = 8
_DEFAULT = "__DEFAULT__"  # Cinder's own, of volumes for which nobody names a type


def fitted(scenario: Storage) -> Storage:
    """The scenario with a pool for each volume type, as the cloud lists them where none is named, and fio's engine.

    Raises BadInput, HostFailed.
    """
    pools = scenario.pools
    if not any(pool.volume_type for pool in pools):
        pools = tuple(Pool(volume_type=name) for name in _types(scenario.cloud))
    changes: dict[str, Any] = {
        "pools": tuple(pool.model_copy(update={"direct": pool.direct is not False}) for pool in pools)
    }
    if scenario.async_engine == "auto":
        changes["async_engine"] = "libaio"  # of the instances' Linux
    scenario = scenario.model_copy(update=changes)
    return scenario.model_copy(update={"pools": scenario.named})


def _types(cloud: str) -> Sequence[str]:
    api = Api(login(cloud, services=("block-storage",)))
    try:
        names = [name for name in volumes.types(api) if name != _DEFAULT]
    finally:
        api.close()
    if not names:
        raise BadInput(
            f"cloud '{cloud}' has no volume type that is for everybody", hint="--set pools=[TYPE,OTHER]"
        )
    if len(names) > MOST:
        raise BadInput(
            f"cloud '{cloud}' has {len(names)} volume types, and {MOST} are the most that are compared",
            hint=f"--set pools=[{','.join(names[:2])}]; it has {', '.join(names)}",
        )
    return names


def facts(scenario: Storage) -> dict[str, Any]:
    """Each pool for the run's record."""
    return {
        disk.pool: {
            "path": f"volume type {disk.type}",
            "kind": f"volumes of {disk.gib} GiB",
            "device": f"cloud {scenario.cloud}",
            "cloud": scenario.cloud,
            "direct": pool.direct is not False,
            "memory": False,
            "written": True,
        }
        for disk, pool in zip(disks(scenario), scenario.named, strict=True)
    }


def instances_record(work: Path, scenario: Storage) -> dict[str, Any]:
    """Where a run's instances and volumes were, for its record: hosts by role, whether emulated, the backend of each pool
    where the cloud tells it (it does to administrators), and that of the neighbour's volume where that is another."""
    from contend.workloads.generators.on_cloud import STATE, State

    state = State.read(work / "instances" / STATE)
    backends: dict[str, dict[str, str]] = {MEASURED: {}, NEIGHBOUR: {}}
    for role, by_pool in backends.items():
        for pool in scenario.named:
            held = state.volumes.get(f"{role}-{pool.name}")
            if held is not None and held.backend:
                by_pool[pool.name] = held.backend
    return {
        "hosts": {role: of.where for role, of in state.guests.items()},
        "emulated": any(of.emulated for of in state.guests.values()),
        "backends": backends[MEASURED],
        "apart": {
            name: backend
            for name, backend in backends[NEIGHBOUR].items()
            if backend != backends[MEASURED].get(name)
        },
    }


def shared(record: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Backends under more than one pool.

    >>> list(shared({"backends": {"ssd": "cinder@lvm#lvm", "hdd": "cinder@lvm#lvm", "ceph": "cinder@rbd#rbd"}}))
    [('cinder@lvm#lvm', ('ssd', 'hdd'))]
    """
    under: dict[str, list[str]] = {}
    for name, backend in record.get("backends", {}).items():
        under.setdefault(backend, []).append(name)
    yield from ((backend, tuple(names)) for backend, names in under.items() if len(names) > 1)


def record_lines(record: Mapping[str, Any]) -> list[str]:
    """Lines on where instances and volumes were, and what was not observed.

    >>> record_lines({"hosts": {"measured": "a", "neighbour": "a"}, "emulated": False, "backends": {"ssd": "c@lvm#lvm"}})[0]
    'both instances on one host (a); backends: ssd on c@lvm#lvm'
    """
    hosts = list(dict.fromkeys(record.get("hosts", {}).values()))
    where = (
        f"both instances on one host ({hosts[0]})"
        if len(hosts) == 1
        else f"instances on {' and '.join(hosts)}"
    )
    backends = ", ".join(f"{name} on {backend}" for name, backend in record.get("backends", {}).items())
    lines = [
        f"{where}; {f'backends: {backends}' if backends else 'the cloud does not tell this user of backends'}"
    ]
    lines += [
        f"{name}: the neighbour's volume is on another backend ({backend}): what it costs there is not of one backend"
        for name, backend in record.get("apart", {}).items()
    ]
    if record.get("emulated"):
        lines.append("CPUs of instances are emulated: these are no figures of a cloud's")
    lines.append(
        "what the backends' devices did, and their networks, was not seen: who else loads them is in the figures"
    )
    return lines


def read_record(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Read what `instances_record` gave, from the run's ledger; the last one of a run that was resumed."""
    event = next((e for e in reversed(events) if e["event"] == "instances"), None)
    return {} if event is None else {key: event[key] for key in ("hosts", "emulated", "backends", "apart")}
