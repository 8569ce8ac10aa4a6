"""What `contend trace` costs a service: requests a second of a WSGI application, plain and traced, in turn.

    python bench/trace_wsgi.py [--blocks 12] [--bursts 4] [--server waitress gunicorn] [--write docs/results/trace-wsgi]
                                                              (about 6 minutes; less of the blocks for a first look)

The application (Flask) does what services do for a request: it takes a lock, hands a task to a worker by a queue,
asks SQLite by SQLAlchemy's ORM for a row and those that belong to it, and answers in JSON. wrk asks it over the loopback
device. Each block starts the server twice, plain and traced, and loads one and the other in short bursts, in random
order; ratios are within blocks, with 95 % intervals. Beside the throughput is the CPU time of the server's processes a
request, which moves less with what else runs on the machine. CPython remembers attributes of types in a
table by their address, so that two processes of the same code differ by some percent: many blocks say more than long ones.
`--options=--no-gil` and the like go to `contend trace`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from contend.environment import fingerprint
from contend.stats.compare import compare

APPLICATION = """
import queue, threading
import flask, sqlalchemy as sa
from sqlalchemy import orm

class Base(orm.DeclarativeBase): pass

class Server(Base):
    __tablename__ = "servers"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    ports: orm.Mapped[list["Port"]] = orm.relationship()

class Port(Base):
    __tablename__ = "ports"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    server_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("servers.id"))

engine = sa.create_engine("sqlite:///servers.db")
Base.metadata.create_all(engine)
with orm.Session(engine) as session:
    if session.get(Server, 1) is None:
        session.add_all(Server(name=f"server-{n}", ports=[Port(), Port()]) for n in range(100))
        session.commit()
lock = threading.Lock()
tasks = queue.Queue()
counts = {}

def work():
    while True:
        name, done = tasks.get()
        with lock:
            counts[name] = counts.get(name, 0) + 1
        done.set()

threading.Thread(target=work, daemon=True).start()
app = flask.Flask(__name__)

@app.get("/servers/<int:number>")
def show(number):
    with orm.Session(engine) as session:
        server = session.get(Server, number)
        answer = {"name": server.name, "ports": [port.id for port in server.ports]}
    done = threading.Event()
    tasks.put((answer["name"], done))
    done.wait()
    with lock:
        answer["count"] = counts[answer["name"]]
    return flask.jsonify(answer)
"""
SERVERS = {
    "waitress": ["-m", "waitress", "--threads=4", "--listen=127.0.0.1:{port}", "service:app"],
    "gunicorn": [
        "-m",
        "gunicorn",
        "--worker-class=gthread",
        "--threads=4",
        "--log-level=warning",
        "--bind=127.0.0.1:{port}",
        "service:app",
    ],
}
PATHS = "request = function() return wrk.format('GET', '/servers/' .. math.random(1, 100)) end\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    server: str, place: Path, trace: Path | None, options: Sequence[str] = ()
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The server's port and process, while it runs; ended by its own signal, killed if that does not do."""
    port = free_port()
    command = [sys.executable, *(word.format(port=port) for word in SERVERS[server])]
    if trace is not None:
        command = [
            sys.executable,
            "-c",
            "from contend.cli import main; main()",
            "trace",
            "-o",
            str(trace),
            *options,
            "--",
            *command,
        ]
    path = os.pathsep.join(filter(None, [str(place), *sys.path]))
    process = subprocess.Popen(
        command, cwd=place, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_it_answers(port, process)
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/servers/1", timeout=5).read()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: the server did not come up (exit code {process.poll()})")
            time.sleep(0.1)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Of the server and all that it started, so far."""
    own = psutil.Process(process.pid)
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def load(port: int, seconds: float, script: Path) -> tuple[float, float]:
    """Requests a second; how many there were."""
    done = subprocess.run(
        [
            "wrk",
            "-t1",
            "-c8",
            f"-d{seconds}s",
            "--timeout=5s",
            "-s",
            str(script),
            f"http://127.0.0.1:{port}/",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    count = re.search(r"(\d+) requests in", done.stdout)
    if rate is None or count is None or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        sys.exit(f"error: wrk: {done.stdout}")
    return float(rate[1]), float(count[1])


def measure(
    server: str, blocks: int, bursts: int, seconds: int, options: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """By arm: requests a second, and CPU µs of the server a request, a block each."""
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "traced": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "service.py").write_text(APPLICATION)
        script = place / "paths.lua"
        script.write_text(PATHS)
        for block in range(-1, blocks):
            trace = place / f"trace-{block}"
            with running(server, place, None) as plain, running(server, place, trace, options) as traced:
                arms = {"plain": plain, "traced": traced}
                told: dict[str, list[tuple[float, float, float]]] = {"plain": [], "traced": []}
                for burst in range(-1, bursts if block >= 0 else 0):
                    for arm in random.sample(list(arms), 2):
                        port, process = arms[arm]
                        before = cpu_s(process)
                        rate, count = load(port, seconds, script)
                        if burst >= 0:  # the first one warms
                            told[arm].append((rate, cpu_s(process) - before, count))
            if block >= 0:  # the first one makes the database and the byte code
                for arm, each in told.items():
                    rates, cpu, counts = zip(*each, strict=True)
                    found[arm].append((statistics.fmean(rates), 1e6 * sum(cpu) / sum(counts)))
            shutil.rmtree(trace)
    return found


def lines(found: dict[str, list[tuple[float, float]]]) -> Iterator[str]:
    blocks = range(len(found["plain"]))
    for at, what in enumerate(("requests a second", "CPU µs of the server a request")):
        plain, traced = ([one[at] for one in found[arm]] for arm in ("plain", "traced"))
        e = compare(plain, traced, blocks=blocks)
        middle = [sorted(values)[len(values) // 2] for values in (plain, traced)]
        ratio = f"{e.value:.4f} [{e.low:.4f}, {e.high:.4f}]"
        yield f"| {what} | {middle[0]:,.0f} | {middle[1]:,.0f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--bursts", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--server", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--options", nargs="*", default=[], help="of contend trace")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("error: wrk is not installed\n  hint: scripts/packages.sh bench")
    how = {name: getattr(given, name) for name in ("blocks", "bursts", "seconds", "options")}
    tables: list[str] = []
    results = {}
    for server in given.server:
        results[server] = measure(server, **how)
        table = [
            "| | plain | traced | ratio, 95 % interval |",
            "|---|---:|---:|---:|",
            *lines(results[server]),
        ]
        print(server, *table, sep="\n", flush=True)
        tables += ["", f"## {server}", "", *table]
    if given.write:
        machine = {
            k: v for k, v in fingerprint([]).items() if k in ("cpu", "cpus", "kernel", "os", "contend")
        }
        document = {"machine": machine, **how, "results": results}
        given.write.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        where = (
            f"{machine['cpus']} CPUs {machine['cpu']}, kernel {machine['kernel']}; wrk with 8 connections;"
            f" {given.blocks} blocks of {given.bursts} times {given.seconds} s an arm."
        )
        text = ["# What `contend trace` costs a WSGI service", "", where, *tables, ""]
        given.write.with_suffix(".md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
