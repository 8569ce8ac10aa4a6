"""Both ends by oslo.messaging, as services use it. Imported by their own processes only: it takes a third of a second."""

from __future__ import annotations

import importlib
import json
import logging
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contend.workloads.drivers.rpc import loop, payloads
from contend.workloads.drivers.rpc.options import End, Phase

# Queues for replies that a killed driver has left go by themselves after this.
_REPLY_TTL_S = 60


class _Ends:
    def __init__(self, end: End, url: str) -> None:
        import oslo_messaging
        from oslo_config import cfg

        # Its warnings are of many calls at a time, and of a connection that is closed while it is read.
        # Where a broker fails on purpose it says so for every call.
        logging.basicConfig(level=logging.CRITICAL if end.reconnect else logging.ERROR)
        self.queues = _watch_queues()
        _choose(end)
        conf = cfg.CONF
        conf([])
        oslo_messaging.set_transport_defaults(end.exchange)
        self.transport = oslo_messaging.get_rpc_transport(conf, url=url)
        settings = {
            "rpc_conn_pool_size": max(end.callers, 30),
            # Queues go with whoever listens to them. Replicated ones cannot: they are removed at the end.
            "amqp_auto_delete": not end.quorum,
            "rabbit_quorum_queue": end.quorum,
            "rabbit_transient_quorum_queue": end.quorum,
            "rabbit_transient_queues_ttl": _REPLY_TTL_S,
        }
        for name, value in settings.items():
            conf.set_override(name, value, "oslo_messaging_rabbit")

    def names(self) -> list[str]:
        """Every queue that was declared here."""
        return sorted(set(self.queues))


class Driver(_Ends):
    """The end that calls."""

    def __init__(self, end: End, url: str) -> None:
        super().__init__(end, url)
        import oslo_messaging

        self._end, self._timeout = end, oslo_messaging.MessagingTimeout
        target = oslo_messaging.Target(topic=end.topic, exchange=end.exchange, version="1.0")
        # retry: how often what could not be published is tried again; None, as services have it: until it can.
        retry = None if end.reconnect else 0
        self._client = oslo_messaging.get_rpc_client(
            self.transport, target, timeout=end.timeout_s, retry=retry
        )
        self._payloads = json.loads(Path(end.payloads).read_text(encoding="utf-8"))
        self._send = self._client.cast if end.cast else self._client.call

    def run(self, phase: Phase) -> dict[str, Any]:
        return loop.run(self._call, self._end.callers, phase)

    def _call(self, number: int) -> str:
        try:
            self._send(
                {"call": number} if self._end.keep_calls else {},
                "work",
                **self._payloads[number % len(self._payloads)],
            )
        except self._timeout as error:
            return f"timed out: {error}"
        except Exception as error:  # noqa: BLE001 - whatever the service or the broker did is this call's result
            return f"{type(error).__name__}: {error}"
        return ""

    def close(self) -> None:
        self.transport.cleanup()


class Service(_Ends):
    """The end that serves: it gives every call the same answer."""

    def __init__(self, end: End, url: str) -> None:
        super().__init__(end, url)
        import oslo_messaging

        self._handled, self._counting = 0, threading.Lock()
        self._calls: list[int] = []
        self._work_s, self._working = 0.0, threading.Lock()
        self._answer = payloads.document(end.answer_bytes, random.Random(0))
        self._last_ns = 0
        target = oslo_messaging.Target(
            topic=end.topic, exchange=end.exchange, server=end.server, version="1.0"
        )
        executor = {"threads": "threading", "greenlets": "eventlet"}[end.executor]
        self._server = oslo_messaging.get_rpc_server(self.transport, target, [self], executor=executor)
        self._server.start()

    def work(self, ctxt: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Handle a call."""
        if self._work_s:
            with self._working:  # one after the other
                time.sleep(self._work_s)
        with self._counting:
            self._handled += 1
            if "call" in ctxt:
                self._calls.append(ctxt["call"])
        self._last_ns = time.monotonic_ns()
        return self._answer

    def counts(self) -> dict[str, int]:
        return {"handled": self._handled, "last_ns": self._last_ns}

    def calls(self) -> list[int]:
        with self._counting:
            return list(self._calls)

    def take_time(self, seconds: float) -> None:
        self._work_s = seconds

    def close(self) -> None:
        self._server.stop()
        self._server.wait()
        self.transport.cleanup()


def _watch_queues() -> list[str]:
    """The names of all queues that oslo.messaging will declare: it tells nobody those of replies."""
    from oslo_messaging._drivers import impl_rabbit

    names: list[str] = []
    init = impl_rabbit.Consumer.__init__

    def watched(self: Any, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        names.append(self.queue_name)

    impl_rabbit.Consumer.__init__ = watched
    return names


def _choose(end: End) -> None:
    """Envelope and serialiser. Neither is an option of oslo.messaging: without the envelope a message is what it was
    before version 2.0 of the format, which every version reads; kombu writes with its default serialiser."""
    if not end.envelope:
        from oslo_messaging._drivers import common

        common.serialize_msg = lambda message: message
    if end.serialiser != "json":
        registry = importlib.import_module("kombu.serialization").registry
        registry.register(f"contend-{end.serialiser}", *_codec(end.serialiser))
        registry._set_default_serializer(f"contend-{end.serialiser}")


Codec = tuple[Callable[[Any], bytes], Callable[[Any], Any], str, str]


def _codec(name: str) -> Codec:
    if name == "msgpack":
        packer = importlib.import_module("msgpack")
        return packer.packb, packer.unpackb, "application/x-contend-msgpack", "binary"
    if name == "orjson":
        fast = importlib.import_module("orjson")
        return fast.dumps, fast.loads, "application/json", "utf-8"
    spec = importlib.import_module("msgspec.json")
    return spec.encode, spec.decode, "application/json", "utf-8"
