"""A RabbitMQ of one test's own, in the test's directory; nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contend.testbed.rabbit import bed

# What tests/support/prerequisites.py asks for.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@contextmanager
def broker(place: Path) -> Iterator[str]:
    """Its URL for oslo.messaging, while it runs with its files in that directory. Raises HostFailed."""
    try:
        yield bed.up(place).url()
    finally:
        bed.down(place)
