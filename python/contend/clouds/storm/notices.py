"""nova's notifications of a storm's servers: stamps finer than the whole seconds that its API tells.

A queue of our own is bound to the exchange that nova publishes to: it gets copies, and goes with its connection. Both of
nova's formats are read. A notification's stamp is of the sender's clock, and lies before its arrival here.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote

from contend.clouds.secrets import NOTIFICATIONS, find_url, login_of
from contend.clouds.storm.stamps import NS
from contend.errors import BadInput, CannotHonour, HostFailed

_KEYS = ("versioned_notifications.*", "notifications.*")
_TIMEOUT_S = 10.0


class Notice(NamedTuple):
    """`what` is start, end, or active (an update that says so). Wall clock of the sender, and ours, CLOCK_MONOTONIC; ns."""

    server: str
    what: str
    stamp_ns: int
    received_ns: int


@dataclass
class Notices:
    """Notices that have come so far, once `listen` has been called."""

    heard: list[Notice]
    _stop: threading.Event
    _thread: threading.Thread
    _failure: list[str]

    def of(self, server: str) -> dict[str, Notice]:
        """The first notice of each kind about that server, by kind."""
        by_kind: dict[str, Notice] = {}
        for notice in self.heard:
            if notice.server == server:
                by_kind.setdefault(notice.what, notice)
        return by_kind

    def wait_for_ends(self, servers: list[str], seconds: float) -> None:
        """Wait until each server has a notice of its end, or for that long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._thread.is_alive():
            if set(servers) <= {notice.server for notice in self.heard if notice.what == "end"}:
                return
            time.sleep(0.02)

    @property
    def failure(self) -> str:
        """The reason why nothing is heard any more; "" while notices come."""
        return self._failure[0] if self._failure else ""

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._stop.set()
        self._thread.join()


def where(given: str, environ: Mapping[str, str] = os.environ) -> SplitResult | None:
    """URL of the message bus, from the option or CONTEND_NOTIFICATIONS_URL; see `find_url`. Raises BadInput."""
    url = find_url(given, NOTIFICATIONS, environ)
    if url is not None and url.scheme not in ("rabbit", "amqp", "amqps"):
        raise BadInput(
            f"notifications over {url.scheme} are not read",
            hint="RabbitMQ: amqp://USER:PASSWORD@HOST:5672/VHOST",
        )
    return url


def listen(url: SplitResult) -> Notices:
    """Listen from now on, in a thread. `?exchange=NAME`: what nova publishes to, `nova` as it comes.

    Raises HostFailed where the bus does not let us in or has no such exchange, CannotHonour without py-amqp.
    """
    try:
        import amqp
    except ImportError as error:
        raise CannotHonour(
            "reading notifications needs py-amqp, which is not installed",
            hint="pip install 'contend[openstack]'",
        ) from error
    exchange = parse_qs(url.query).get("exchange", ["nova"])[0]
    user, password = login_of(url)
    port = url.port or (5671 if url.scheme == "amqps" else 5672)
    connection = amqp.Connection(
        f"{url.hostname or 'localhost'}:{port}",
        userid=user or "guest",
        password=password or "guest",
        virtual_host=unquote(url.path.removeprefix("/")) or "/",
        ssl=url.scheme == "amqps",
        connect_timeout=_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
    )
    heard: list[Notice] = []

    def take(message: Any) -> None:
        notice = parse(message.body, time.monotonic_ns())
        if notice is not None:
            heard.append(notice)

    try:
        connection.connect()
        channel = connection.channel()
        channel.exchange_declare(exchange, "topic", passive=True)
        queue = channel.queue_declare(exclusive=True, auto_delete=True).queue
        for key in _KEYS:
            channel.queue_bind(queue, exchange, key)
        channel.basic_consume(queue, no_ack=True, callback=take)
    except (amqp.AMQPError, OSError) as error:
        connection.collect()
        raise HostFailed(
            f"the message bus does not let us hear nova's notifications: {error}",
            hint=f"is what {NOTIFICATIONS} says right, and does nova publish to the exchange '{exchange}'?",
        ) from error
    stop, failure = threading.Event(), []

    def run() -> None:
        try:
            while not stop.is_set():
                try:
                    connection.drain_events(timeout=0.1)
                except TimeoutError:
                    continue
        except (amqp.AMQPError, OSError) as error:
            failure.append(str(error))
        finally:
            try:
                connection.close()
            except (amqp.AMQPError, OSError):
                connection.collect()

    thread = threading.Thread(target=run, name="notifications", daemon=True)
    thread.start()
    return Notices(heard, stop, thread, failure)


def parse(body: str | bytes, received_ns: int) -> Notice | None:
    """Parse a notice, in oslo.messaging's envelope or not; None if it is of no server's creation, or cannot be read.

    >>> parse('{"event_type": "compute.instance.create.end", "timestamp": "1970-01-01 00:00:01.5",'
    ...       ' "payload": {"instance_id": "7"}}', 9)
    Notice(server='7', what='end', stamp_ns=1500000000, received_ns=9)
    """
    try:
        message = json.loads(body)
        if "oslo.message" in message:
            message = json.loads(message["oslo.message"])
        kind, payload = str(message["event_type"]), message["payload"]
        data = payload.get("nova_object.data", payload)
        server = str(data.get("uuid") or data["instance_id"])
        what = _what(kind, data)
        return Notice(server, what, _ns(str(message["timestamp"])), received_ns) if what else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _what(kind: str, data: Mapping[str, Any]) -> str:
    kind = kind.removeprefix("compute.")
    if kind in ("instance.create.start", "instance.create.end"):
        return kind.rpartition(".")[2]
    if kind != "instance.update":
        return ""
    update = (data.get("state_update") or {}).get("nova_object.data") or data
    before, now = update.get("old_state"), update.get("state")
    return "active" if now == "active" and before not in (None, "active") else ""


def _ns(stamp: str) -> int:
    moment = datetime.datetime.fromisoformat(stamp)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    # Floats of seconds would be 0.2 µs off.
    return (since.days * 86400 + since.seconds) * NS + since.microseconds * 1000
