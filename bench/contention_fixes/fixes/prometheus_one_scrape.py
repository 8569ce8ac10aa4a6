"""prometheus_client: the exporter served one scrape after the other."""

from __future__ import annotations

import http.client
import socketserver
import time

import prometheus_client
from loopback import free_port, wait_for
from prometheus_client.core import REGISTRY, GaugeMetricFamily
from storm_of_jobs import in_threads

FIX = {
    "project": "prometheus_client",
    "before": ["prometheus_client==0.0.19"],
    "after": ["prometheus_client==0.0.20"],
    "link": "https://github.com/prometheus/client_python/pull/139",
    "did": "start_http_server serves each request in a thread of its own",
    "edit": [],
    "fits": "none fits: the server has no pool, and its queue is the kernel's",
}
JOBS = 20
QUERY_S = 0.015


class Slow:
    """A collector that asks a device, as exporters do."""

    def collect(self):
        time.sleep(QUERY_S)
        yield GaugeMetricFamily("device", "asked", value=1)


def main() -> None:
    REGISTRY.register(Slow())
    # Of more than its five that come at once the kernel would let some try again after 1 s.
    socketserver.TCPServer.request_queue_size = 64
    port = free_port()
    prometheus_client.start_http_server(port, "127.0.0.1")
    wait_for(port)

    def job(number: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", port)
        peer.request("GET", "/metrics")
        assert b"device 1.0" in peer.getresponse().read()
        peer.close()

    in_threads(job, JOBS)


main()
