"""waitress: one lock of the class kept the requests of all connections from being served beside each other."""

from __future__ import annotations

import http.client
import threading
import time

import older_python  # noqa: F401 - first
from storm_of_jobs import in_threads
from waitress.server import WSGIServer

FIX = {
    "project": "waitress",
    "before": ["waitress==0.8"],
    "after": ["waitress==0.8.1"],
    "also": ["setuptools<58"],
    "link": "https://github.com/Pylons/waitress/commit/7fa8ef4",
    "did": "HTTPChannel.task_lock is a lock of each connection and no longer of the class",
    "edit": ["--unlock", "*task_lock"],
    "fits": "nearest: a channel's own requests still wait for each other",
}
JOBS = 24
THREADS = 8
QUERY_S = 0.015


def application(environ, start_response):
    time.sleep(QUERY_S)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


def main() -> None:
    server = WSGIServer(application, host="127.0.0.1", port=0, threads=THREADS)
    threading.Thread(target=server.run, daemon=True).start()
    port = server.socket.getsockname()[1]

    def job(number: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", port)
        peer.request("GET", f"/{number}")
        assert peer.getresponse().read() == b"ok"
        peer.close()

    in_threads(job, JOBS)


main()
