"""The cloud's database and broker as a meter of single calls."""

from __future__ import annotations

from collections.abc import Mapping

from contend.clouds.counters import OF, Counters

SQL, MESSAGES = "SQL", "messages"
# How the database users and schemas of a service are called, where statements are told apart by them.
_OWN: Mapping[str, tuple[str, ...]] = {
    "compute": ("nova", "placement"),
    "network": ("neutron",),
    "image": ("glance",),
    "block-storage": ("cinder",),
    "identity": ("keystone",),
}


class CloudMeter:
    """SQL statements and messages so far; statements of the service's own users or schemas, where those are told apart:
    then what other services do meanwhile does not count."""

    def __init__(self, counters: Counters, service: str) -> None:
        self._counters, self._service = counters, service

    def read(self) -> Mapping[str, int]:
        """Raises HostFailed."""
        return of_service(self._counters.read().counts, self._service)


def of_service(counts: Mapping[str, int], service: str) -> dict[str, int]:
    """
    >>> of_service({"statements": 9, "statements of nova_api": 5, "statements of neutron": 3, "messages": 2}, "network")
    {'SQL': 3, 'messages': 2}
    >>> of_service({"statements": 9}, "network")
    {'SQL': 9}
    """
    found = {}
    if "statements" in counts:
        start = tuple(f"statements{OF}{name}" for name in _OWN[service])
        own = [count for name, count in counts.items() if name.startswith(start)]
        found[SQL] = sum(own) if own else counts["statements"]
    return found | ({MESSAGES: counts["messages"]} if "messages" in counts else {})
