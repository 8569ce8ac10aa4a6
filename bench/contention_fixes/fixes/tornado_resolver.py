"""Tornado: names were looked up on the event loop, which stood still meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time

import older_python  # noqa: F401 - first
from loopback import serve_http
from storm_of_jobs import as_tasks
from tornado.platform.asyncio import AsyncIOMainLoop, to_asyncio_future
from tornado.simple_httpclient import SimpleAsyncHTTPClient

FIX = {
    "project": "tornado",
    "before": ["tornado==4.5.3"],
    "after": ["tornado==5.0.2"],
    "link": "https://www.tornadoweb.org/en/stable/releases/v5.0.0.html",
    "did": "the default resolver looks names up in a pool of threads",
    "edit": ["--remove", "getaddrinfo"],
    "fits": "nearest: names are still looked up, beside the loop",
}
JOBS = 20
LOOKUP_S = 0.015
ANSWER_S = 0.03
lookup = socket.getaddrinfo


def slow_lookup(*words: object, **named: object) -> object:
    """As a name server that is asked over the network."""
    time.sleep(LOOKUP_S)
    return lookup(*words, **named)


def main() -> None:
    port = serve_http(lambda _: ANSWER_S, lambda _: b"ok")
    socket.getaddrinfo = slow_lookup
    AsyncIOMainLoop().install()

    async def storm() -> None:
        client = SimpleAsyncHTTPClient(max_clients=JOBS, force_instance=True)

        async def job(number: int) -> None:
            answer = await to_asyncio_future(client.fetch(f"http://localhost:{port}/{number}"))
            assert answer.body == b"ok"

        await as_tasks(job, JOBS)

    asyncio.get_event_loop().run_until_complete(storm())


main()
