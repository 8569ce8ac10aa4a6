"""Volumes of a run's instances: made, waited for, attached, read back.

Attachments have no names and no marks: they are of a server, which is in the ledger, and go with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from contend.clouds.http import Api, RequestFailed
from contend.clouds.instances.topology import Topology, Volume
from contend.clouds.openstack import KINDS, Cloud, Record
from contend.errors import BadInput, HostFailed, UnknownName

VOLUME = KINDS["volume"]
_MESSAGES_VERSION = "3.5"
_DETAILS_VERSION = "2.84"  # nova tells users what an action's failure was
_POLL_S = 1.0
_NO_BACKEND = "has its type a backend with room? as an administrator: openstack volume service list; or --set pools=OTHERS"


class Held(NamedTuple):
    """A volume of the run. backend: as Cinder names it to administrators, "" for who may not see it; device: its name in the
    guest, and test: a command that fails there once this is no longer so; "" before it was looked for."""

    id: str
    type: str
    gib: int
    backend: str = ""
    device: str = ""
    test: str = ""


def types(api: Api) -> list[str]:
    """Names of the volume types that are for everybody, as Cinder lists them. Raises RequestFailed."""
    listed = api.request("GET", "block-storage", "/types?is_public=true").json()["volume_types"]
    return sorted(str(of["name"]) for of in listed)


def check_types(api: Api, wanted: Iterable[str]) -> None:
    """Check that this user sees these volume types, by name or id. Raises UnknownName."""
    listed = api.request("GET", "block-storage", "/types?is_public=None").json()["volume_types"]
    known = {str(of[key]) for of in listed for key in ("name", "id")}
    for type_ in wanted:
        if type_ not in known:
            raise UnknownName("volume type", type_, [str(of["name"]) for of in listed])


def make(cloud: Cloud, record: Record, name: Callable[[str], str], topology: Topology) -> None:
    """Request all volumes. Raises RequestFailed, BadInput for a quota."""
    for volume in topology.volumes():
        body = {"size": volume.disk.gib, "volume_type": volume.disk.type}
        try:
            cloud.create(record, VOLUME, name(volume.role), body)
        except RequestFailed as error:
            if error.status == 413 or (error.status == 403 and "quota" in error.message.lower()):
                wanted = topology.volumes()
                raise BadInput(
                    f"the cloud's quota refuses a volume: {error.message}",
                    hint=f"the run needs {len(wanted)} volumes, {sum(v.disk.gib for v in wanted)} GiB together:"
                    " `openstack quota show --volume`; or fewer with --set pools=ONE,OTHER, smaller with --set size=…",
                ) from error
            raise


def await_all(
    cloud: Cloud,
    name: Callable[[str], str],
    topology: Topology,
    state: str,
    until: float,
    servers: Mapping[str, str],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Held]:
    """Wait until every volume is in that state: `available` or `in-use`. Returns them by role. servers: ids by role, of
    attached ones.

    Raises HostFailed for one that fails, with what the cloud says of it, or that takes longer.
    """
    wanted = {name(volume.role): volume for volume in topology.volumes()}
    while True:
        by_name = {str(item["name"]): item for item in cloud.find(VOLUME, wanted)}
        for of, item in by_name.items():
            _refuse(cloud.api, wanted[of], item, state, servers)
        waiting = {of: str(by_name.get(of, {}).get("status", "not there")) for of in wanted}
        waiting = {of: status for of, status in waiting.items() if status != state}
        if not waiting:
            return {wanted[of].role: _held(item) for of, item in by_name.items()}
        if time.monotonic() > until:
            of, status = next(iter(waiting.items()))
            raise HostFailed(
                f"volume {wanted[of].role} of type '{wanted[of].disk.type}' is still {status}, not {state}",
                hint="a longer time: --set parameters.within=SECONDS; the logs of cinder-volume and nova-compute say more",
            )
        sleep(_POLL_S)


def attach(cloud: Cloud, name: Callable[[str], str], topology: Topology, servers: Mapping[str, str]) -> None:
    """Request every attachment from nova. servers: ids by role. Raises RequestFailed."""
    ids = {str(item["name"]): str(item["id"]) for item in cloud.find(VOLUME, map(name, _roles(topology)))}
    for volume in topology.volumes():
        cloud.api.request(
            "POST",
            "compute",
            f"/servers/{servers[volume.guest]}/os-volume_attachments",
            body={"volumeAttachment": {"volumeId": ids[name(volume.role)]}},
        )


def _roles(topology: Topology) -> list[str]:
    return [volume.role for volume in topology.volumes()]


def _held(item: Mapping[str, Any]) -> Held:
    return Held(
        str(item["id"]),
        str(item.get("volume_type") or ""),
        int(item["size"]),
        str(item.get("os-vol-host-attr:host") or ""),
    )


def _refuse(
    api: Api, volume: Volume, item: Mapping[str, Any], state: str, servers: Mapping[str, str]
) -> None:
    """Raises HostFailed for a volume that has failed."""
    status = str(item["status"])
    if status.startswith("error"):
        raise HostFailed(
            f"volume {volume.role} of type '{volume.disk.type}' is in {status.upper()}: {reason(api, str(item['id']))}",
            hint=_NO_BACKEND,
        )
    if state == "in-use" and status == "available" and volume.guest in servers:
        # Reserved since nova took the request; available again once it gave up.
        raise HostFailed(
            f"nova did not attach volume {volume.role} of type '{volume.disk.type}':"
            f" {_action(api, servers[volume.guest])}",
            hint="can that instance's host reach the backend? the log of nova-compute there says more",
        )


def reason(api: Api, id_: str) -> str:
    """The reason that Cinder gives users for a volume that failed: its messages."""
    try:
        path = f"/messages?resource_uuid={id_}"
        messages = api.request("GET", "block-storage", path, version=_MESSAGES_VERSION).json()["messages"]
    except RequestFailed:
        messages = []
    texts = [str(message["user_message"]) for message in messages if message.get("user_message")]
    return texts[0][:300] if texts else "Cinder does not say why"


def _action(api: Api, server: str) -> str:
    """The reason that nova gives users for the last attachment of a server."""
    path = f"/servers/{server}/os-instance-actions"
    try:
        actions = api.request("GET", "compute", path, version=_DETAILS_VERSION).json()["instanceActions"]
        last = next(action for action in actions if action["action"] == "attach_volume")
        answer = api.request(
            "GET", "compute", f"{path}/{last['request_id']}", version=_DETAILS_VERSION
        ).json()
    except (RequestFailed, StopIteration, KeyError):
        return "it does not say why"
    events = answer["instanceAction"].get("events") or ()
    details = [str(event.get("details") or "") for event in events]
    return next((text for text in details if text), str(last.get("message") or "it does not say why"))[:300]
