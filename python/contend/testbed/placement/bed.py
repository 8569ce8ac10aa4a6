"""Makes and removes the namespaces of a layout. Each is in the run's ledger before it is made, and carries its name.

Removing a namespace ends what runs in it and takes its links along, so nothing else has to be remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from contend.platforms import network
from contend.testbed.placement import ovs
from contend.testbed.placement.layout import (
    ENCAPSULATIONS,
    PORT,
    ROUTER,
    ROUTER_PORTS,
    Instance,
    Layout,
    hosts_commands,
    instance_commands,
)

# The router answers for an address on that address's own port alone: both its ports are on one bridge, and packets that
# came in by the other would not be routed from one port to the other.
ROUTES = {
    "/proc/sys/net/ipv4/ip_forward": "1",
    "/proc/sys/net/ipv4/conf/all/arp_ignore": "1",
    "/proc/sys/net/ipv4/conf/all/arp_announce": "2",
    "/proc/sys/net/ipv4/conf/all/rp_filter": "0",
}
KIND = "netns"


class Record(Protocol):
    """The ledger in which things are announced: `contend.clouds.local.removal.Record`."""

    def intend(self, kind: str, wanted: Iterable[str]) -> None: ...
    def removed(self, kind: str, gone: Iterable[str]) -> None: ...


class Bed:
    """The namespaces of a layout. `directory`: holds, between the commands of a run, which of them are ready."""

    def __init__(self, layout: Layout, directory: Path, record: Record) -> None:
        self.layout, self._record = layout, record
        self._directory = directory
        self._ready_file = directory / f"{layout.encapsulation}.json"

    def up(self, instances: Sequence[Instance]) -> None:
        """Make what is not ready yet: hosts and router first. Raises CannotHonour, HostFailed."""
        network.check_rights()
        self._directory.mkdir(parents=True, exist_ok=True)
        ready = self._ready()
        frame = self.layout.frame()
        if not ready.issuperset(frame):
            self._make(frame, self._hosts)
            ready |= set(frame)
            self._write(ready)
        wanted = [each for each in instances if each.namespace not in ready]
        if wanted:
            self._make([each.namespace for each in wanted], lambda: self._instances(wanted))
            self._write(ready | {each.namespace for each in wanted})

    def _make(self, names: Sequence[str], wire: Callable[[], None]) -> None:
        self._record.intend(KIND, names)
        for name in names:
            network.add_namespace(name)
        wire()

    def _hosts(self) -> None:
        for namespace, commands in hosts_commands(self.layout):
            network.configure(namespace, commands)
        with network.inside(self.layout.name(ROUTER)):
            for path, value in ROUTES.items():
                Path(path).write_text(value, encoding="ascii")
        if self.layout.encapsulation == "ovs":
            ovs.up(self.layout, self._directory)
            for port in ROUTER_PORTS:
                ovs.whole_checksums(self.layout.name(ROUTER), port)

    def _instances(self, wanted: Sequence[Instance]) -> None:
        for instance in wanted:
            for namespace, commands in instance_commands(self.layout, instance):
                network.configure(namespace, commands)
            if self.layout.encapsulation == "ovs":
                ovs.add_port(self.layout, self._directory, instance.host, instance.port)
                ovs.whole_checksums(instance.namespace, PORT)

    def down(self) -> None:
        """Remove all namespaces, instances first. Idempotent."""
        frame = self.layout.frame()
        there = {name for name in network.namespaces(self.layout.run) if self.layout.owns(name)}
        gone = [*sorted(there - set(frame)), *(name for name in reversed(frame) if name in there)]
        for name in gone:
            network.remove_namespace(name)
        if gone:
            self._record.removed(KIND, gone)
        self._ready_file.unlink(missing_ok=True)

    def _ready(self) -> set[str]:
        if not self._ready_file.exists():
            return set()
        return set(json.loads(self._ready_file.read_text(encoding="utf-8")))

    def _write(self, ready: set[str]) -> None:
        self._ready_file.write_text(json.dumps(sorted(ready)) + "\n", encoding="utf-8")


def beds(run: str, directory: Path, record: Record) -> Iterator[Bed]:
    """The beds that a run can have, one for each encapsulation."""
    for encapsulation in ENCAPSULATIONS:
        yield Bed(Layout(run, encapsulation), directory, record)
