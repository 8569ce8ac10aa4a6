"""A RabbitMQ of one test's own: the laboratory's, in the test's directory; nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contend.testbed.storm_bed import broker as lab

# What tests/support/prerequisites.py asks for.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@contextmanager
def broker(place: Path) -> Iterator[str]:
    """Its URL for oslo.messaging, while it runs with its files in that directory. Raises HostFailed."""
    try:
        yield lab.start(place)
    finally:
        lab.stop(place)
