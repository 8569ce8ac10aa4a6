"""Flask: the development server served one request after the other unless told otherwise."""

from __future__ import annotations

import http.client
import logging
import threading
import time

import flask
from loopback import free_port, wait_for
from storm_of_jobs import in_threads

FIX = {
    "project": "Flask",
    "before": ["flask==0.12.5"],
    "after": ["flask==1.0.4"],
    "also": ["werkzeug<1", "jinja2<3", "markupsafe<2", "itsdangerous<2", "click<8", "setuptools<58"],
    "link": "https://github.com/pallets/flask/pull/2529",
    "did": "the development server has a thread for each request by default",
    "edit": [],
    "fits": "none fits: the server has no pool, and its queue is the kernel's",
}
JOBS = 20
QUERY_S = 0.015

app = flask.Flask(__name__)


@app.route("/")
def index() -> str:
    time.sleep(QUERY_S)
    return "ok"


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = free_port()
    threading.Thread(target=app.run, kwargs={"port": port}, daemon=True).start()
    wait_for(port)

    def job(_: int) -> None:
        peer = http.client.HTTPConnection("127.0.0.1", port)
        peer.request("GET", "/")
        assert peer.getresponse().read() == b"ok"
        peer.close()

    in_threads(job, JOBS)


main()
