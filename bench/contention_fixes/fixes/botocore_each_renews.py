"""botocore: each thread that met credentials that were soon to expire renewed them for itself."""

from __future__ import annotations

import datetime
import http.client
import time

import older_python  # noqa: F401 - first
from botocore.credentials import RefreshableCredentials
from dateutil.tz import tzlocal
from loopback import serve_http
from storm_of_jobs import in_threads

FIX = {
    "project": "botocore",
    "before": ["botocore==1.3.26"],
    "after": ["botocore==1.3.27"],
    "link": "https://github.com/boto/botocore/commit/6029fbdd1",
    "did": "one thread renews; who finds it at that uses the credentials that are still valid",
    "edit": ["--remove", "HTTP GET *"],
    "fits": "exact: but for the one job that renews",
}
JOBS = 24
RENEW_S = 0.012
WORK_S = 0.05


def credentials_for(minutes: int) -> dict[str, str]:
    expiry = datetime.datetime.now(tzlocal()) + datetime.timedelta(minutes=minutes)
    return {"access_key": "a", "secret_key": "s", "token": "t", "expiry_time": expiry.isoformat()}


def main() -> None:
    """The service that has the credentials answers one request at a time."""
    port = serve_http(lambda _: RENEW_S, lambda _: b"renewed", at_once=False)

    def renew() -> dict[str, str]:
        peer = http.client.HTTPConnection("127.0.0.1", port)
        peer.request("GET", "/credentials")
        assert peer.getresponse().read() == b"renewed"
        peer.close()
        return credentials_for(60)

    held = RefreshableCredentials.create_from_metadata(credentials_for(12), renew, "of a test")

    def job(_: int) -> None:
        assert held.access_key == "a"
        time.sleep(WORK_S)

    in_threads(job, JOBS)


main()
