"""Tornado: a WSGI application ran on the event loop, which stood still meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from storm_of_jobs import in_threads
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.wsgi import WSGIContainer

FIX = {
    "project": "tornado",
    "before": ["tornado==6.2"],
    "after": ["tornado==6.3.3"],
    "link": "https://www.tornadoweb.org/en/stable/releases/v6.3.0.html",
    "did": "WSGIContainer takes an executor, on whose threads the application runs",
    "edit": [],
    "fits": "none fits: the application had no pool, and requests wait in the kernel",
}
JOBS = 24
THREADS = 16
QUERY_S = 0.015


def application(environ, start_response):
    time.sleep(QUERY_S)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


def main() -> None:
    (listener,) = bind_sockets(0, "127.0.0.1")
    port = listener.getsockname()[1]
    takes = inspect.signature(WSGIContainer).parameters
    container = WSGIContainer(
        application, **({"executor": ThreadPoolExecutor(THREADS)} if "executor" in takes else {})
    )

    async def serve() -> None:
        HTTPServer(container).add_socket(listener)
        await asyncio.Event().wait()

    threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()

    def job(number: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", port)
        peer.request("GET", f"/{number}")
        assert peer.getresponse().read() == b"ok"
        peer.close()

    in_threads(job, JOBS)


main()
