"""A service that runs already is the victim: it is asked, and neither started nor ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Home
from support.prerequisites import need
from support.turns import alone

SERVER = """\
import http.server, socketserver, sys
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        end = sum(n * n for n in range(20000))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
server = Server(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


def test_a_live_service_is_asked_and_left_alone(
    tmp_path: Path, server: subprocess.Popen[str], pytestconfig: pytest.Config
) -> None:
    import shutil

    need(shutil.which("stress-ng"), "stress-ng")
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
    home = Home(tmp_path)
    words = [
        "--set",
        "neighbours=[{stress-cpu: {workers: 4}}]",
        "--set",
        "guard={run_delay: null, ramp: [0.5], step: 1s}",
    ]
    words += ["--set", "measure={blocks: 6, target: null, pilot: 0, trial: 1s}"]
    with alone(pytestconfig):
        home("run", "noisy-neighbour", "--url", url, "--rate", "80", *words, timeout=180).fine()
    assert server.poll() is None, "it runs on"
    os.kill(server.pid, 0)
    analysis = json.loads((home.the_run() / "findings.json").read_text())
    cells = {cell["metric"]["name"]: cell for cell in analysis["cells"]}
    assert cells["latency_p99"]["metric"]["primary"] and cells["latency_p99"]["metric"]["loop"] == "open"
    # A service that mostly sleeps is let in by the scheduler at once: how much it suffers is the host's to say.
    assert cells["latency_p99"]["estimate"]["verdict"] in ("higher", "lower", "unaffected", "undecided")
    assert cells["latency_p50"]["baseline"]["value"] > 0
    assert cells["answered"]["baseline"]["value"] > 0.99
    home.nothing_left()


def test_a_rate_without_a_service_is_an_error(tmp_path: Path) -> None:
    answer = Home(tmp_path)("run", "noisy-neighbour", "--rate", "5")
    assert answer.code == 2 and "--rate 5 goes with --url" in answer.err
