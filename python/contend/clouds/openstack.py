"""Resources of contend on an OpenStack cloud: each announced in the run's ledger before its request leaves.

A thing is ours if it has a name from the ledger and carries the run's mark: metadata of a server or volume, a property
of an image, the comment of a public key, a tag of a stack (whose description is not listed), the description of what
networks are made of, of a user, a group or a project. Both are looked at before anything is deleted, so a stranger that
took the name is left alone. A server group has nothing but its name, which holds the run's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlsplit

from contend import names
from contend.clouds.http import Api, RequestFailed
from contend.errors import HostFailed
from contend.store import ledger

LEDGER_PREFIX = "openstack-"
MARK = "contend_run"
HINTS = "os:scheduler_hints"  # of a server: beside it in the body
SERVERS_VERSION = "2.37"  # the first in which a server can be made without a network
PAGE = 1000  # what APIs give at once at most, unless they are told otherwise: then they give less, and a link
Mark = Literal["metadata", "description", "property", "comment", "tag", "name"]


class Kind(NamedTuple):
    """A kind of resource: the path for requests, and where its mark is. `wrapped`: its body has the key `one` around
    it."""

    name: str
    service: str
    path: str
    one: str
    many: str
    mark: Mark
    version: str = ""
    list_path: str = ""  # where `path` does not list the mark
    wrapped: bool = True

    @property
    def ledger(self) -> str:
        """The kind's name in the ledger."""
        return LEDGER_PREFIX + self.name


# In the order in which they are removed: a stack holds what it made, a server its ports and volumes, a router and a port
# their subnets, a project all of it.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("stack", "orchestration", "/stacks", "stack", "stacks", "tag"),
        Kind(
            "server", "compute", "/servers", "server", "servers", "metadata", SERVERS_VERSION, "/servers/detail"
        ),
        Kind("floating-ip", "network", "/floatingips", "floatingip", "floatingips", "description"),
        Kind("port", "network", "/ports", "port", "ports", "description"),
        Kind("router", "network", "/routers", "router", "routers", "description"),
        Kind("subnet", "network", "/subnets", "subnet", "subnets", "description"),
        Kind("network", "network", "/networks", "network", "networks", "description"),
        Kind(
            "security-group", "network", "/security-groups", "security_group", "security_groups", "description"
        ),
        Kind(
            "volume", "block-storage", "/volumes", "volume", "volumes", "metadata", "3.0", "/volumes/detail"
        ),
        Kind("image", "image", "/images", "image", "images", "property", wrapped=False),
        Kind("server-group", "compute", "/os-server-groups", "server_group", "server_groups", "name"),
        Kind("keypair", "compute", "/os-keypairs", "keypair", "keypairs", "comment"),
        Kind("user", "identity", "/users", "user", "users", "description"),
        Kind("group", "identity", "/groups", "group", "groups", "description"),
        Kind("project", "identity", "/projects", "project", "projects", "description"),
    )
}  # fmt: skip


def unique_name(run: str, part: str) -> str:
    """Make the name `contend-RUN-PART`, which no other run's resource has.

    >>> unique_name("boot-storm-20260102-101500-7f3a", "12-3")
    'contend-boot-storm-20260102-101500-7f3a-12-3'
    """
    return f"{names.PREFIX}-{names.check_name('run id', run)}-{part}"


def has_mark(kind: Kind, item: Mapping[str, Any], name: str, run: str) -> bool:
    """True if what a listing showed has exactly that name, contend's prefix, and the run's mark."""
    if item.get("name") != name or not name.startswith(f"{names.PREFIX}-{run}-"):
        return False
    if kind.mark == "metadata":
        return (item.get("metadata") or {}).get(MARK) == run
    if kind.mark == "property":
        return item.get(MARK) == run
    if kind.mark == "comment":
        return str(item.get("public_key")).rpartition(" ")[2] == f"{MARK}={run}"
    if kind.mark == "tag":
        return mark_of(kind, name, run) in (item.get("tags") or ())
    return kind.mark == "name" or item.get("description") == mark_of(kind, name, run)


def mark_of(kind: Kind, name: str, run: str) -> str:
    """The mark of a run's resource. A floating address has no name but that; a tag has 80 characters at most.

    >>> mark_of(KINDS["network"], "contend-r-1", "r"), mark_of(KINDS["floating-ip"], "contend-r-1", "r")
    ('contend_run=r', 'contend_run=r contend-r-1')
    """
    if kind.mark == "tag":
        return f"{MARK}={run}"[:80]
    return f"{MARK}={run}" + (f" {name}" if kind.name == "floating-ip" else "")


def shown(kind: Kind, item: Mapping[str, Any]) -> dict[str, Any]:
    """A listing's entry with a `name`, and the `id` that its path ends with, whatever its service calls them.

    >>> shown(KINDS["keypair"], {"keypair": {"name": "k", "public_key": "p"}})["id"]
    'k'
    >>> shown(KINDS["stack"], {"stack_name": "s", "id": "7"})["id"]
    's/7'
    >>> shown(KINDS["floating-ip"], {"id": "7", "description": "contend_run=r contend-r-1"})["name"]
    'contend-r-1'
    """
    if kind.name == "keypair":
        pair = item.get("keypair", item)
        return {**pair, "id": pair["name"]}
    if kind.name == "stack":
        return {**item, "name": item["stack_name"], "id": f"{item['stack_name']}/{item['id']}"}
    if kind.name == "floating-ip":
        return {**item, "name": str(item.get("description") or "").rpartition(" ")[2]}
    return dict(item)


def body_of(kind: Kind, name: str, run: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Make a request's body: what is wanted, with the name and the mark."""
    if kind.name == "stack":
        return {**wanted, "stack_name": name, "tags": mark_of(kind, name, run)}
    inner = {**wanted, "name": name} if kind.name != "floating-ip" else dict(wanted)
    hints = {HINTS: inner.pop(HINTS)} if HINTS in inner else {}
    if kind.mark == "metadata":
        inner["metadata"] = {**wanted.get("metadata", {}), MARK: run}
    elif kind.mark == "property":
        inner[MARK] = run
    elif kind.mark == "comment":
        inner["public_key"] = f"{wanted['public_key']} {MARK}={run}"
    elif kind.mark == "description":
        inner["description"] = mark_of(kind, name, run)
    return {kind.one: inner, **hints} if kind.wrapped else inner


class Record:
    """Ledger rows about cloud resources, written by the process that makes them while the run holds the lock."""

    def __init__(self, path: Path, *, run: str, cloud: str, config: str, everywhere: bool = False) -> None:
        """everywhere: they are another project's, made and seen by an administrator's rights."""
        self.path, self.run = path, run
        self._about = {"cloud": cloud, "config": config} | ({"everywhere": "yes"} if everywhere else {})
        self._rows = ledger.Record(path, run)
        self.close = self._rows.close

    def intend(self, kind: Kind, wanted: Iterable[str]) -> None:
        """Write names of resources to be made; on the disk when this returns: only then may the requests leave."""
        self._rows.write("intend", kind.ledger, ({"name": name} for name in wanted), self._about)

    def created(self, kind: Kind, ids: Mapping[str, str]) -> None:
        """Write that resources were made. ids: by name."""
        rows = ({"name": name, "id": id_} for name, id_ in ids.items())
        self._rows.write("created", kind.ledger, rows, self._about)

    def removed(self, kind: Kind, gone: Iterable[str]) -> None:
        self._rows.write("removed", kind.ledger, ({"name": name} for name in gone), self._about)

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class Cloud:
    """Resources of one run on one cloud. everywhere: in all of its projects, which takes an administrator."""

    def __init__(
        self, api: Api, run: str, *, everywhere: bool = False, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.api, self.run, self._sleep = api, run, sleep
        self._everywhere = everywhere

    def create(self, record: Record, kind: Kind, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Announce and make one resource. Raises RequestFailed; a refusal leaves nothing in the ledger."""
        record.intend(kind, (name,))
        try:
            made = self.post(kind, name, wanted)
        except RequestFailed as error:
            if not error.unknown:
                record.removed(kind, (name,))
            raise
        record.created(kind, {name: str(made["id"])})
        return made

    def post(self, kind: Kind, name: str, wanted: Mapping[str, Any], *, retries: int = 2) -> dict[str, Any]:
        """Request a resource that was announced. The request is repeated only where no resource of that name exists.

        Should the lost request still be worked on, there are two of that name: removal takes every one.
        """
        return self.ask(kind, name, wanted, retries=retries)[0]

    def ask(
        self, kind: Kind, name: str, wanted: Mapping[str, Any], *, retries: int = 2
    ) -> tuple[dict[str, Any], str]:
        """As `post`; also returns the service's own id of the request, "" where no answer was seen."""
        body = body_of(kind, name, self.run, wanted)
        while True:
            try:
                answer = self.api.request("POST", kind.service, kind.path, body=body, version=kind.version)
            except RequestFailed as error:
                if not error.unknown:
                    raise
                self._sleep(1.0)
                if existing := self.find(kind, (name,)):
                    return existing[0], ""
                if retries <= 0:
                    raise
                retries -= 1
                continue
            data = answer.json()
            made = data[kind.one] if kind.wrapped else data
            # heat answers with the id alone.
            return shown(
                kind, {"stack_name": name, **made} if kind.name == "stack" else made
            ), answer.headers.get("X-OpenStack-Request-Id", "").partition(",")[0]

    def find(self, kind: Kind, wanted: Iterable[str]) -> list[dict[str, Any]]:
        """Find resources of the run by the names in `wanted` and its mark; several of one name are all listed."""
        wanted_names = set(wanted)
        return [
            item
            for item in self.list(kind, _common(wanted_names))
            if item.get("name") in wanted_names and has_mark(kind, item, str(item["name"]), self.run)
        ]

    def list(self, kind: Kind, prefix: str) -> list[dict[str, Any]]:
        """All whose name begins with `prefix`, page by page. Once each: nova shows a server that it has just scheduled on
        two pages, first as a request to build and then as an instance."""
        path = kind.list_path or kind.path
        query = f"limit={PAGE}"
        if kind.name == "server":  # a pattern to nova, anywhere in the name; others know only whole names
            query += f"&name={quote(prefix)}"
        if self._everywhere and kind.name in (
            "server",
            "volume",
        ):  # the others show an administrator all, or none
            query += "&all_tenants=1"
        by_id: dict[str, dict[str, Any]] = {}
        following = f"{path}?{query}"
        while following:
            page = self.api.request("GET", kind.service, following, version=kind.version).json()
            items = (shown(kind, item) for item in page[kind.many])
            by_id |= {i["id"]: i for i in items if str(i.get("name") or "").startswith(prefix)}
            following = next_page(page, kind, path)
        return list(by_id.values())

    def delete(self, kind: Kind, id_: str) -> None:
        """Request a removal; a resource that has gone already is fine. Raises RequestFailed."""
        if kind.name == "project" and "network" in self.api.access.endpoints:
            self._without_its_own(id_)
        if kind.name == "router":
            self._without_interfaces(id_)
        self.api.request("DELETE", kind.service, f"{kind.path}/{id_}", version=kind.version, absent=True)

    def _without_its_own(self, project: str) -> None:
        """neutron gives each project a security group `default` once it has anything, and keeps it when that has gone."""
        groups = KINDS["security-group"]
        path = f"{groups.path}?name=default&project_id={quote(project)}"
        for group in self.api.request("GET", groups.service, path).json()[groups.many]:
            self.api.request("DELETE", groups.service, f"{groups.path}/{group['id']}", absent=True)

    def _without_interfaces(self, router: str) -> None:
        """A router that is in a subnet is in use."""
        path = f"/ports?device_id={quote(router)}&fields=fixed_ips&fields=device_owner"
        for port in self.api.request("GET", "network", path).json()["ports"]:
            if str(port["device_owner"]).startswith("network:router_interface"):
                for address in port["fixed_ips"]:
                    self.api.request(
                        "PUT",
                        "network",
                        f"/routers/{router}/remove_router_interface",
                        body={"subnet_id": address["subnet_id"]},
                        absent=True,
                    )

    def remove(
        self, kind: Kind, wanted: Sequence[str], *, within_s: float = 180.0
    ) -> tuple[set[str], dict[str, str]]:
        """Delete those of `wanted` that are there, and wait until they are gone: `within_s` from when the last one went.

        Gives the names that were there, and those that could not be removed with the reason.
        """
        there: set[str] = set()
        why: dict[str, str] = {}
        deleted_at: dict[str, float] = {}  # by id, when its deletion was last asked for
        fewest, deadline = math.inf, 0.0
        while True:
            left = self.find(kind, wanted)
            there |= {str(item["name"]) for item in left}
            if not left:
                return there, {}
            now = time.monotonic()
            if len(left) < fewest:
                fewest, deadline = len(left), now + within_s
            if now > deadline:
                late = {
                    str(i["name"]): why.get(i["id"], f"still there {within_s:.0f} s after its deletion")
                    for i in left
                }
                return there, late
            for item in left:
                now = time.monotonic()  # many take their time, and so does each
                if now - deleted_at.get(item["id"], -1e9) < 30.0:
                    continue
                deleted_at[item["id"]] = now
                try:
                    self.delete(kind, str(item["id"]))
                    why.pop(item["id"], None)
                except RequestFailed as error:  # in use (409) until something else has gone
                    why[item["id"]] = error.message
                    deleted_at[item["id"]] = now - 25.0
                    if error.status in (401, 403):
                        return there, {str(i["name"]): error.message for i in left}
            self._sleep(0.5)

    def clear(self, record: Record, kind: Kind, wanted: Sequence[str]) -> dict[str, str]:
        """As `remove`, and the ledger is told; what could not be removed, and why."""
        if not wanted:
            return {}
        _, late = self.remove(kind, wanted)
        record.removed(kind, [name for name in wanted if name not in late])
        return late


def _common(wanted: set[str]) -> str:
    """The longest beginning that all names share.

    >>> _common({"contend-r-1-aa-0", "contend-r-1-aa-1"}), _common({"contend-r-1", "other"})
    ('contend-r-1-aa-', '')
    """
    first, last = min(wanted, default=""), max(wanted, default="")
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    return first[:same]


def next_page(page: Mapping[str, Any], kind: Kind, path: str) -> str:
    """Path and query of the following page, "" after the last. glance and keystone name it by `next`, others by links."""
    if kind.name == "image":
        following = str(page.get("next") or "")
        return kind.path + "?" + urlsplit(following).query if following else ""
    if kind.service == "identity":
        following = str((page.get("links") or {}).get("next") or "")
        return f"{path}?{urlsplit(following).query}" if following else ""
    links = page.get(f"{kind.many}_links") or ()
    href = next((str(link["href"]) for link in links if link.get("rel") == "next"), "")
    return f"{path}?{urlsplit(href).query}" if href else ""


def need_id(matches: Sequence[Mapping[str, Any]], what: str, name: str, hint: str) -> str:
    """The id of the only match. Raises HostFailed where there is none, or several."""
    if len(matches) != 1:
        problem = "there are several" if matches else "there is no"
        raise HostFailed(f"{problem} {what} called '{name}' on the cloud", hint=hint)
    return str(matches[0]["id"])
