"""A server that serves one request at a time: what its clients wait for is its worker, not its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from contend.contention.events import read
from support.answers import data_in

SERVER = """
import json, sys, time
from wsgiref.simple_server import make_server, WSGIRequestHandler

began = {}
def application(environ, start_response):
    began[environ["QUERY_STRING"]] = time.monotonic_ns()
    if environ["PATH_INFO"] != "/ready": time.sleep(0.03)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

class Quiet(WSGIRequestHandler):
    def log_message(self, *args): pass

server = make_server("127.0.0.1", 0, application, handler_class=Quiet)
server.socket.listen(64)
print(server.server_port, flush=True)
for _ in range(int(sys.argv[1])): server.handle_request()
print(json.dumps(began))
"""

CLIENT = """
import json, subprocess, sys, threading, time, urllib.request
from contend import trace
CLIENTS, EACH = 4, 3
server = subprocess.Popen([sys.executable, "server.py", str(CLIENTS * EACH)], stdout=subprocess.PIPE, text=True)
port, asked = int(server.stdout.readline()), {}
def client(number):
    with trace.job("order", number=number):
        for part in range(EACH):
            query = f"{number}-{part}"
            asked[query] = time.monotonic_ns()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/part?{query}").read()
threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
for thread in threads: thread.start()
for thread in threads: thread.join()
began = json.loads(server.communicate()[0])
json.dump(sum(began[query] - asked[query] for query in asked), open("truth.json", "w"))
"""


def test_clients_of_a_server_with_one_worker_wait_for_the_worker(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    contend = [sys.executable, "-m", "contend"]
    subprocess.run(
        [*contend, "trace", "-o", "out", "--", sys.executable, "client.py"], cwd=tmp_path, check=True
    )
    truth = json.loads((tmp_path / "truth.json").read_text())

    found = read([tmp_path / "out"])
    (pool,) = [pool for pool in found.pools.to_pylist() if pool["name"].startswith("http ")]
    assert (pool["workers"], pool["items"], pool["queues"], pool["policy"]) == (1, 12, 0, "shared")
    parts = found.parts.to_pylist()
    waited = sum(part["ns"] for part in parts if (part["kind"], part["resource"]) == ("pool", pool["name"]))
    assert 0.6 * truth < waited <= truth, "stamps of the client lie around the wait"
    for job in found.jobs.to_pylist():
        of = sum(part["ns"] for part in parts if part["job"] == job["job"])
        assert of == job["end_ns"] - job["begin_ns"]

    hunted = subprocess.run(
        [*contend, "hunt", "out", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    first = data_in(hunted.stdout)["findings"][0]
    assert (first["kind"], first["resource"]) == ("pool-small", pool["name"])
    assert "all of its workers were busy then" in first["sentence"]
    assert "edit" not in first, "a replay knows pools by their queues only"
