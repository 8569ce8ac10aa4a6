"""oslo.messaging as services use it: servers that end on SIGTERM, clients of one server.

It is imported by what runs a storm only: it takes 0.3 s, and brings eventlet in.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

TIMEOUT_S = 60
# Boots wait in the compute's own pool, updates in the conductor's: nothing is to wait for a thread here.
THREADS = 1000
# At a time one connection sends one message; more of them take longer to make than they save.
CONNECTIONS = 8


def connect(url: str, exchange: str) -> Any:
    """Make this process's transport. Queues are removed with their last listener."""
    import oslo_messaging
    from oslo_config import cfg

    # Its warnings are of many calls at a time, and of a connection that is closed while it is read.
    logging.basicConfig(level=logging.ERROR)
    conf = cfg.CONF
    conf([])
    oslo_messaging.set_transport_defaults(exchange)
    transport = oslo_messaging.get_rpc_transport(conf, url=url)
    conf.set_override("rpc_conn_pool_size", CONNECTIONS, "oslo_messaging_rabbit")
    conf.set_override("amqp_auto_delete", True, "oslo_messaging_rabbit")
    conf.set_override("rabbit_transient_queues_ttl", 60, "oslo_messaging_rabbit")
    return transport


def target(exchange: str, topic: str, host: str) -> Any:
    import oslo_messaging

    # RabbitMQ's queues are named by topic and server alone: the exchange's name keeps two storms on one broker apart.
    return oslo_messaging.Target(topic=topic, exchange=exchange, server=f"{host}.{exchange}")


def client(transport: Any, where: Any) -> Any:
    import oslo_messaging

    return oslo_messaging.get_rpc_client(transport, where, timeout=TIMEOUT_S)


def wait_for_peers() -> None:
    """Wait for a line of the parent that says that the called services are up; exit if the parent has gone."""
    if not sys.stdin.readline():
        raise SystemExit("nobody is there to say that the others are up")


def warm(clients: list[Any]) -> None:
    """Make the connections that a burst of calls will use."""
    threads = [
        threading.Thread(target=each.call, args=({}, "ping")) for each in clients for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve(transport: Any, where: Any, endpoint: object) -> int:
    """Serve until SIGTERM."""
    import oslo_messaging

    ended, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server = oslo_messaging.get_rpc_server(transport, where, [endpoint], executor="threading")
    server.start(override_pool_size=THREADS)
    print("serving", flush=True)
    while not ended.wait(0.5):
        pass  # a signal that another thread takes does not wake this one, whose turn it is to run the handler
    if os.getppid() != parent:
        os._exit(1)  # nobody is there for whom to finish what is being served
    server.stop()
    server.wait()
    transport.cleanup()
    return 0
