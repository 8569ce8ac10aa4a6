"""The real cloud that a test uses, and what of contend's is on it."""

from __future__ import annotations

import os
from typing import Any

from contend.clouds.access import find, login
from contend.clouds.http import Api
from contend.clouds.openstack import KINDS, PAGE, Cloud
from contend.errors import ContendError
from support.prerequisites import need


def need_cloud() -> str:
    """The name of the cloud that OS_CLOUD (and OS_CLIENT_CONFIG_FILE) or clouds.yaml give; see testbed/openstack."""
    try:
        name = str(find("").region.name)
    except ContendError as error:
        need(False, f"a cloud to test on: {error.message}")
        raise
    return name


class Looking:
    """What is on the cloud, whoever made it, with a login of its own."""

    def __init__(self, name: str) -> None:
        self.api = Api(login(name), lambda: login(name))

    def names(self, prefix: str) -> list[str]:
        """Of servers, networks and ports that begin so."""
        cloud = Cloud(self.api, "")
        found: list[str] = []
        for kind in (KINDS["server"], KINDS["network"], KINDS["port"]):
            found += [str(item["name"]) for item in cloud.list(kind, prefix)]
        return sorted(found)

    def server(self, name: str, metadata: dict[str, str]) -> str:
        """One that some stranger made, in the place of a test that cares for it. Its id."""
        from contend.workloads.generators.boot import server_of

        wanted = {**server_of(self.api, "", "", "none"), "name": name, "metadata": metadata}
        made: dict[str, Any] = self.api.request(
            "POST", "compute", "/servers", body={"server": wanted}, version="2.37"
        ).json()
        return str(made["server"]["id"])

    def delete(self, id_: str) -> None:
        self.api.request("DELETE", "compute", f"/servers/{id_}", absent=True)

    def actions(self, run: str) -> int:
        """How many servers of a run there have been, the deleted ones too (an administrator sees those)."""
        path = f"/servers?name=contend-{run}-&deleted=true&all_tenants=true&limit={PAGE}"
        return len(self.api.request("GET", "compute", path).json()["servers"])


def variables() -> dict[str, str | None]:
    """What a command needs to find the cloud."""
    return {name: os.environ.get(name) for name in ("OS_CLOUD", "OS_CLIENT_CONFIG_FILE")}
