"""requests-futures: a session had two threads for its requests unless told otherwise."""

from __future__ import annotations

from loopback import serve_http
from requests_futures.sessions import FuturesSession
from storm_of_jobs import in_threads

FIX = {
    "project": "requests-futures",
    "before": ["requests-futures==0.9.7"],
    "after": ["requests-futures==0.9.9"],
    "also": ["requests==2.32.3"],
    "link": "https://github.com/ross/requests-futures/commit/3d29a50",
    "did": "a session has eight threads by default",
    "edit": ["--workers", "*executor*=8"],
    "fits": "exact",
}
JOBS = 24
ANSWER_S = 0.025


def main() -> None:
    port = serve_http(lambda _: ANSWER_S, lambda _: b"ok")
    session = FuturesSession()

    def job(number: int) -> None:
        assert session.get(f"http://127.0.0.1:{port}/{number}").result().content == b"ok"

    in_threads(job, JOBS, spacing_s=0.002)


main()
