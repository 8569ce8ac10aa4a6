"""google-auth: while a token was stale, each request fetched a new one first."""

from __future__ import annotations

import datetime
import http.client
import time

from google.auth import credentials
from loopback import serve_http
from storm_of_jobs import in_threads

FIX = {
    "project": "google-auth",
    "before": ["google-auth==2.25.2"],
    "after": ["google-auth==2.26.1"],
    "link": "https://github.com/googleapis/google-auth-library-python/pull/1368",
    "did": "with_non_blocking_refresh: a stale token is used on, and a thread fetches the next one",
    "edit": ["--remove", "HTTP GET *token"],
    "fits": "exact: what the thread does is no job's",
}
JOBS = 24
FETCH_S = 0.012
WORK_S = 0.05


class Credentials(credentials.Credentials):
    """Whose token is fetched from the loopback server."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def refresh(self, _: object) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", self.port)
        peer.request("GET", "/token")
        self.token = peer.getresponse().read().decode()
        peer.close()
        self.expiry = datetime.datetime.utcnow() + datetime.timedelta(hours=1)


def main() -> None:
    """The service that has the tokens answers one request at a time."""
    held = Credentials(serve_http(lambda _: FETCH_S, lambda _: b"token", at_once=False))
    held.token = "stale"
    held.expiry = datetime.datetime.utcnow() + datetime.timedelta(minutes=2)
    if hasattr(held, "with_non_blocking_refresh"):
        held.with_non_blocking_refresh()
    request = object()  # what would send it: refresh() above does without

    def job(_: int) -> None:
        headers: dict[str, str] = {}
        held.before_request(request, "GET", "http://127.0.0.1/", headers)
        assert headers
        time.sleep(WORK_S)

    in_threads(job, JOBS)


main()
