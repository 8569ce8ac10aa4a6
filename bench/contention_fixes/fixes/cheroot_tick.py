"""cheroot: a connection that was ready for its next request waited for the server's next look at all of them."""

from __future__ import annotations

import http.client
import threading
import time

from cheroot import wsgi
from storm_of_jobs import in_threads

FIX = {
    "project": "cheroot",
    "before": ["cheroot==8.4.1"],
    "after": ["cheroot==8.4.2"],
    "also": ["setuptools<69"],
    "link": "https://github.com/cherrypy/cheroot/pull/308",
    "did": "the connection manager looks at connections as they become ready, and not at each tick",
    "edit": [],
    "fits": "none fits: a poll was replaced by an event",
}
JOBS = 24
THREADS = 8
QUERY_S = 0.01
TURNS = 4


def application(environ, start_response):
    time.sleep(QUERY_S)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


def main() -> None:
    server = wsgi.Server(
        ("127.0.0.1", 0), application, numthreads=THREADS, request_queue_size=64, shutdown_timeout=0.1
    )
    server.keep_alive_conn_limit = 2 * JOBS
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()

    def job(number: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", server.bind_addr[1])
        for _ in range(TURNS):
            peer.request("GET", f"/{number}")
            assert peer.getresponse().read() == b"ok"
        peer.close()

    in_threads(job, JOBS)
    server.stop()


main()
