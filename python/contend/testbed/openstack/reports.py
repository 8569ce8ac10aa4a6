"""Reports of services to their databases: that they live, and what capacity computes have."""

from __future__ import annotations

import time
from collections.abc import Mapping

from contend.testbed.openstack import daemons, servers
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.shape import Shape

_LIMIT_S = 300.0
# They report every ten seconds; later than that they are up, but have said nothing for long.
_FRESH_S = 60.0
# Age in seconds by service and host. Rows of hosts that are no longer there stay.
_AGES = (
    "select `binary`, host, timestampdiff(second, coalesce(updated_at, created_at), utc_timestamp())"
    " from {}.services where deleted = 0 and report_count > 0"
)


def ages(bed: Bed, environment: Mapping[str, str]) -> dict[str, int]:
    """Seconds since each service's last report, by its name in the bed. Raises HostFailed."""
    by_service: dict[str, int] = {}
    rows = servers.sql(
        bed, " union all ".join(_AGES.format(name) for name in ("nova", "cinder")) + ";", environment
    )
    for row in rows.splitlines():
        program, host, age = row.split("\t")
        name = f"{program}-{host}" if program == "nova-compute" else program
        by_service[name] = min(int(age), by_service.get(name, int(age)))
    return by_service


def wait(bed: Bed, when: Mapping[str, float | None], environment: Mapping[str, str]) -> None:
    """Wait until each of these services has reported since it was started: rows of an earlier start do not count."""
    expected = {
        name: started
        for name, started in when.items()
        if name.startswith("nova-") or name in ("cinder-scheduler", "cinder-volume")
    }
    expected.pop("nova-api", None)
    silent: list[str] = []

    def reported() -> bool:
        known, now = ages(bed, environment), time.monotonic()
        silent[:] = [
            name
            for name, started in expected.items()
            # Ages are whole seconds.
            if known.get(name, 1 << 30) > (_FRESH_S if started is None else now - started - 1)
        ]
        return not silent

    daemons.wait(bed, list(when), reported, "services have not reported", _LIMIT_S)


def undiscovered(bed: Bed, environment: Mapping[str, str]) -> bool:
    """True if there are computes that the cell does not know."""
    query = (
        "select count(*) from nova.compute_nodes n left join nova_api.host_mappings m on m.host = n.host"
        " where n.deleted = 0 and m.id is null;"
    )
    return int(servers.sql(bed, query, environment)) > 0


def wait_for_room(bed: Bed, shape: Shape, environment: Mapping[str, str]) -> None:
    """Wait until placement knows each compute's capacity."""
    query = (
        "select distinct n.host from nova.compute_nodes n"
        " join placement.resource_providers p on p.uuid = n.uuid"
        " join placement.inventories i on i.resource_provider_id = p.id where n.deleted = 0;"
    )
    wanted = set(shape.hosts)
    names = [f"nova-compute-{host}" for host in shape.hosts]
    daemons.wait(
        bed,
        names,
        lambda: wanted <= set(servers.sql(bed, query, environment).split()),
        "placement does not know all computes",
        _LIMIT_S,
    )
