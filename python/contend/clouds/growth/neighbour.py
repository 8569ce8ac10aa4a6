"""The second tenant, who floods: a project of its own, made by an administrator's rights, or a cloud of clouds.yaml."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contend.clouds.access import Access
from contend.clouds.growth.kinds import Growing, make_base, remove_base, remove_grown
from contend.clouds.growth.made import Tenant
from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import KINDS, Cloud, Record
from contend.clouds.storm.actions import seconds

USER, PROJECT = KINDS["user"], KINDS["project"]
ROLES = ("member", "_member_", "user")
"""What a tenant's role may be called, the usual one first."""


@dataclass
class Neighbour:
    """A second tenant that is logged in. `close` removes what it made, then what it is."""

    cloud: Cloud
    record: Record
    prefix: str
    server: Mapping[str, Any]
    over: Callable[[], dict[str, str]]
    _growing: Growing | None = None
    _left: dict[str, str] = field(default_factory=dict)

    def tenant(self, growing: Growing) -> Tenant:
        """Raises RequestFailed where it may not make what the kind needs."""
        self._growing = growing
        base = make_base(self.cloud, self.record, self.prefix, growing, self.server)
        return Tenant(self.cloud, self.record, self.prefix, growing, base)

    def close(self) -> dict[str, str]:
        """Remove what was made; what could not be removed, and why."""
        if self._growing is not None:
            try:
                self._left |= remove_grown(self.cloud, self.record, self.prefix, self._growing)
                self._left |= remove_base(self.cloud, self.record, self.prefix, self._growing)
            except RequestFailed as error:
                if error.status != 403:  # who may not list them was not let make any
                    self._left[self.prefix] = error.message
        self.cloud.api.close()
        self.record.close()
        return self._left | self.over()


def of_another_cloud(api: Api, ledger: Record, prefix: str, server: Mapping[str, Any]) -> Neighbour:
    """Log a second tenant in: another project of the same cloud, from clouds.yaml."""
    record = Record(ledger.path, run=ledger.run, cloud=api.access.cloud, config=api.access.config)
    return Neighbour(Cloud(api, ledger.run), record, prefix, server, dict)


def of_own_project(
    cloud: Cloud, record: Record, prefix: str, server: Mapping[str, Any], workers: int
) -> Neighbour:
    """Make a project and a user, both in the ledger. Raises RequestFailed where this user may not make them."""
    password = secrets.token_urlsafe(24)
    project = str(cloud.create(record, PROJECT, prefix, {"enabled": True})["id"])

    def undone() -> dict[str, str]:
        return cloud.clear(record, USER, (prefix,)) | cloud.clear(record, PROJECT, (prefix,))

    try:
        user = str(
            cloud.create(
                record, USER, prefix, {"password": password, "default_project_id": project, "enabled": True}
            )["id"]
        )
        role = _role(cloud.api)
        cloud.api.request("PUT", "identity", f"/projects/{project}/users/{user}/roles/{role}")
        access = _login(cloud.api, user, project, password)
    except BaseException:
        undone()
        raise
    api = Api(access, lambda: _login(cloud.api, user, project, password), connections=workers + 1)
    own = Record(
        record.path,
        run=record.run,
        cloud=cloud.api.access.cloud,
        config=cloud.api.access.config,
        everywhere=True,
    )
    return Neighbour(Cloud(api, cloud.run), own, prefix, server, undone)


def _role(api: Api) -> str:
    roles = {
        str(r["name"]).lower(): str(r["id"]) for r in api.request("GET", "identity", "/roles").json()["roles"]
    }
    for name in ROLES:
        if name in roles:
            return roles[name]
    raise RequestFailed(
        "GET /roles: no role for a tenant", status=404, hint=f"known: {', '.join(sorted(roles))}"
    )


def _login(api: Api, user: str, project: str, password: str) -> Access:
    """Log in as another user, to the same endpoints."""
    identity = {"methods": ["password"], "password": {"user": {"id": user, "password": password}}}
    body = {"auth": {"identity": identity, "scope": {"project": {"id": project}}}}
    answer = api.request("POST", "identity", "/auth/tokens", body=body)
    mine = api.access.project
    token = answer.json()["token"]
    expires = token.get("expires_at")
    return api.access._replace(
        token=answer.headers["X-Subject-Token"],
        expires=seconds(str(expires).replace("Z", "+00:00")) if expires else time.time() + 3600,
        project=project,
        endpoints={s: url.replace(mine, project) if mine else url for s, url in api.access.endpoints.items()},
    )
