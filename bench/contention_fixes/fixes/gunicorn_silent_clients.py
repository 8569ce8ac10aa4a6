"""gunicorn: a connection that had sent nothing yet held a thread of the worker."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from loopback import free_port
from storm_of_jobs import LONGEST_S, in_threads

FIX = {
    "project": "gunicorn",
    "before": ["gunicorn==20.1.0"],
    "after": ["gunicorn==21.2.0"],
    "also": ["setuptools<69"],
    "link": "https://github.com/benoitc/gunicorn/commit/0ebb73aa",
    "did": "the gthread worker hands a connection to a thread when there is something to read",
    "edit": ["--workers", "*=12"],
    "fits": "nearest: a thread is no longer held by a silent connection; there are no more of them",
}
JOBS = 24
THREADS = 4
SILENT = 3
QUERY_S = 0.01


def application(environ, start_response):
    time.sleep(QUERY_S)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


def main() -> None:
    port = free_port()
    here = Path(__file__).resolve()
    server = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-k", "gthread", "--threads", str(THREADS), "-b", f"127.0.0.1:{port}",
         "--chdir", str(here.parent), "--log-level", "error", f"{here.stem}:application"],
    )  # fmt: skip
    try:
        wait_for_a_worker(port)
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(SILENT)]
        time.sleep(0.05)

        def job(number: int) -> None:
            peer = http.client.HTTPConnection("127.0.0.1", port)
            peer.request("GET", f"/{number}")
            assert peer.getresponse().read() == b"ok"
            peer.close()

        in_threads(job, JOBS)
        for peer in silent:
            peer.close()
    finally:
        server.terminate()
        server.wait(20)


def wait_for_a_worker(port: int) -> None:
    """Which is later than that the port is listened to."""
    for _ in range(500):
        try:
            peer = http.client.HTTPConnection("127.0.0.1", port)
            peer.request("GET", "/")
            peer.getresponse().read()
            peer.close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise TimeoutError("gunicorn did not start")


if __name__ == "__main__":
    main()
else:
    # In gunicorn's worker. Its master is ended after the storm; by this where the storm was ended before.
    watch = threading.Timer(2 * LONGEST_S, os.kill, (os.getppid(), signal.SIGTERM))
    watch.daemon = True
    watch.start()
