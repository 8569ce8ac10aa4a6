"""Django: under ASGI all synchronous views ran one after the other, in the process's one thread for them."""

from __future__ import annotations

import asyncio
import time

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path
from storm_of_jobs import as_tasks

FIX = {
    "project": "Django",
    "before": ["django==3.2.25"],
    "after": ["django==4.0.10"],
    "link": "https://code.djangoproject.com/ticket/32889",
    "did": "each request under ASGI has a thread of its own for what is synchronous",
    "edit": ["--workers", "*=24"],
    "fits": "exact",
}
JOBS = 24
QUERY_S = 0.015


def view(_: object) -> HttpResponse:
    time.sleep(QUERY_S)
    return HttpResponse("ok")


def main() -> None:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="of a test",
        ROOT_URLCONF=(path("", view),),
        MIDDLEWARE=[],
        USE_TZ=True,
    )
    django.setup()
    application = get_asgi_application()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/",
        "raw_path": b"/", "query_string": b"", "headers": [(b"host", b"localhost")], "server": ("localhost", 80),
    }  # fmt: skip

    async def job(_: int) -> None:
        asked = False
        for_ever = asyncio.Event()
        sent = []

        async def receive() -> dict[str, object]:
            nonlocal asked
            if asked:
                await for_ever.wait()
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        await application(dict(scope), receive, send)
        assert sent[0]["status"] == 200, sent

    asyncio.run(as_tasks(job, JOBS))


main()
