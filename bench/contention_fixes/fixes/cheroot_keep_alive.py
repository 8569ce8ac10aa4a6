"""cheroot: a connection that was kept alive kept its worker thread while it sent nothing."""

from __future__ import annotations

import http.client
import threading
import time

from cheroot import wsgi
from storm_of_jobs import in_threads

FIX = {
    "project": "cheroot",
    "before": ["cheroot==8.0.0"],
    "after": ["cheroot==8.1.0"],
    "also": ["setuptools<69"],
    "link": "https://github.com/cherrypy/cheroot/pull/199",
    "did": "workers take requests, and an idle connection waits in the server's selector",
    "edit": ["--workers", "*=24"],
    "fits": "nearest: a worker is no longer held by an idle connection; there are no more of them",
}
JOBS = 24
THREADS = 4
QUERY_S = 0.01
THINK_S = 0.08


def application(environ, start_response):
    time.sleep(QUERY_S)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


def main() -> None:
    server = wsgi.Server(
        ("127.0.0.1", 0), application, numthreads=THREADS, request_queue_size=64, shutdown_timeout=0.1
    )
    server.keep_alive_conn_limit = 2 * JOBS  # of 8.1, which closes those beyond 10
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()

    def job(number: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", server.bind_addr[1])
        for turn in range(2):
            if turn:
                time.sleep(THINK_S)
            peer.request("GET", f"/{number}")
            assert peer.getresponse().read() == b"ok"
        peer.close()

    in_threads(job, JOBS)
    server.stop()


main()
