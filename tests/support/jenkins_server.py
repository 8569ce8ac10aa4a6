"""A stand-in for a Jenkins: what of its remote API python-jenkins uses, by its documentation, with builds that are real.

No Jenkins can be had where these tests run: its war, org.jenkins-ci.main:jenkins-war (2.479.1 was tried), is not on Maven
Central, so nothing here is held to a recording of the real one. Jobs are shell commands; there is one executor, as a new
Jenkins has two.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

USER, TOKEN, CRUMB = "me", "s3cret", "c0ffee"


@dataclass
class Job:
    """command: run by sh with the build's parameters in its environment."""

    command: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    buildable: bool = True


@dataclass
class Item:
    id: int
    job: str
    values: dict[str, str]
    since_ms: int
    cancelled: bool = False
    number: int = 0


@dataclass
class Build:
    number: int
    queued: int
    began_ms: int
    process: subprocess.Popen[bytes]
    result: str | None = None
    duration_ms: int = 0
    stopped: bool = False


class Jenkins:
    """hold: while it is set nothing in the queue begins. forgotten: what has left the queue, as after some minutes."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self.jobs, self.url = jobs, ""
        self.items: list[Item] = []
        self.builds: dict[tuple[str, int], Build] = {}
        self.hold = threading.Event()
        self.forgotten = False
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.executor = threading.Thread(target=self._execute, daemon=True)

    def _execute(self) -> None:
        while not self.ended.is_set():
            with self.lock:
                waiting = [item for item in self.items if not item.number and not item.cancelled]
                item = waiting[0] if waiting and not self.hold.is_set() else None
                if item is not None:
                    job = self.jobs[item.job]
                    number = 1 + sum(name == item.job for name, _ in self.builds)
                    values = {**job.parameters, **item.values}
                    began_ms = _now_ms()  # before it can have begun
                    process = subprocess.Popen(
                        ["sh", "-c", job.command], env={"PATH": "/usr/bin:/bin", **values}
                    )
                    build = Build(number, item.id, began_ms, process)
                    self.builds[item.job, number] = build
                    item.number = number  # last: then there is such a build
            if item is None:
                time.sleep(0.01)
                continue
            code = build.process.wait()
            with self.lock:
                build.duration_ms = _now_ms() - build.began_ms
                build.result = "ABORTED" if build.stopped else "SUCCESS" if code == 0 else "FAILURE"

    def going_on(self) -> int:
        """Builds, and what waits to be built."""
        with self.lock:
            waiting = sum(not item.number and not item.cancelled for item in self.items)
            return waiting + sum(build.result is None for build in self.builds.values())

    def get(self, path: str) -> Any:
        if path == "/api/json":
            return {"jobs": [{"name": name} for name in self.jobs]}
        if path == "/crumbIssuer/api/json":
            return {"crumbRequestField": "Jenkins-Crumb", "crumb": CRUMB}
        if found := re.fullmatch(r"/queue/item/(\d+)/api/json", path):
            return self._item(int(found[1]))
        if found := re.fullmatch(r"((?:/job/[^/]+)+)/(\d+)/api/json", path):
            return self._build(_name(found[1]), int(found[2]))
        if found := re.fullmatch(r"((?:/job/[^/]+)+)/api/json", path):
            job = self.jobs.get(_name(found[1]))
            definitions = [{"name": name} for name in job.parameters] if job else []
            told = [{"parameterDefinitions": definitions}] if definitions else []
            if job is None:
                return None
            with self.lock:
                built = sorted(
                    (number for name, number in self.builds if name == _name(found[1])), reverse=True
                )
            return {
                "name": _name(found[1]), "buildable": job.buildable, "property": [{}, *told],
                "builds": [{"number": number} for number in built],
            }  # fmt: skip
        return None

    def _item(self, number: int) -> Any:
        found = next((item for item in self.items if item.id == number and not self.forgotten), None)
        if found is None:
            return None
        told: dict[str, Any] = {"id": found.id, "inQueueSince": found.since_ms, "cancelled": found.cancelled}
        if found.number:
            return {**told, "why": None, "executable": {"number": found.number}}
        return {**told, "why": "Waiting for next available executor"}

    def _build(self, job: str, number: int) -> Any:
        build = self.builds.get((job, number))
        if build is None:
            return None
        return {
            "number": number, "building": build.result is None, "result": build.result,
            "duration": build.duration_ms, "timestamp": build.began_ms, "builtOn": "", "queueId": build.queued,
        }  # fmt: skip

    def post(self, path: str, query: dict[str, str]) -> tuple[int, str]:
        """Status and Location."""
        if found := re.fullmatch(r"((?:/job/[^/]+)+)/(build|buildWithParameters)", path):
            job = self.jobs[_name(found[1])]
            if bool(job.parameters) != (found[2] == "buildWithParameters"):
                return 400, ""
            values = {name: value for name, value in query.items() if name in job.parameters}
            with self.lock:
                item = Item(len(self.items) + 1, _name(found[1]), values, _now_ms())
                self.items.append(item)
            return 201, f"{self.url}/queue/item/{item.id}/"
        if path == "/queue/cancelItem":
            with self.lock:
                for item in self.items:
                    item.cancelled |= item.id == int(query["id"]) and not item.number
            return 404, ""  # as Jenkins has it: JENKINS-21311
        if found := re.fullmatch(r"((?:/job/[^/]+)+)/(\d+)/stop", path):
            build = self.builds[_name(found[1]), int(found[2])]
            build.stopped = True
            build.process.terminate()
            return 200, ""
        return 404, ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _name(path: str) -> str:
    return "/".join(re.findall(r"/job/([^/]+)", path))


@contextmanager
def serving(jobs: Mapping[str, Job]) -> Iterator[Jenkins]:
    made = Jenkins(jobs)
    basic = "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: Any = None, location: str = "") -> None:
            data = json.dumps(body).encode() if body is not None else b""
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _refused(self) -> bool:
            if self.headers.get("Authorization") != basic:
                self._answer(401, {"why": "Invalid password/token for user"})
                return True
            return False

        def do_GET(self) -> None:
            if not self._refused():
                told = made.get(urlsplit(self.path).path)
                self._answer(404 if told is None else 200, told)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self._refused():
                return
            if self.headers.get("Jenkins-Crumb") != CRUMB:
                self._answer(403, {"why": "No valid crumb was included in the request"})
                return
            asked = urlsplit(self.path)
            status, location = made.post(asked.path, dict(parse_qsl(asked.query)))
            self._answer(status, location=location)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.executor.start()
    try:
        yield made
    finally:
        made.ended.set()
        for build in made.builds.values():
            if build.process.poll() is None:
                build.process.kill()
        made.executor.join(10)
        server.shutdown()
        server.server_close()
