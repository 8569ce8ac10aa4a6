"""What `contend trace` costs a service: requests a second of a WSGI application, plain and traced, in turn.

    python bench/trace_wsgi.py [--blocks 20] [--pairs 3] [--server waitress gunicorn] [--write docs/results/trace-wsgi]
                              (about 12 minutes on a quiet machine, 18 at most; less of the blocks for a first look)

The application (Flask) does what services do for a request: it takes a lock, hands a task to a worker by a queue,
asks SQLite by SQLAlchemy's ORM for a row and those that belong to it, and answers in JSON. wrk asks it over the loopback
device. Each block starts the server twice, plain and as a user would trace it, and loads one and the other for a second
each, in random order; ratios are within blocks, with 95 % intervals.

Beside the throughput: the CPU time of the server's processes a request, by the scheduler's own account (ns), and how
often its threads were switched, which depends least on what else runs. CPython remembers attributes of types in a table
by their address, so that two processes of the same code differ by some percent: many short blocks say more than few long
ones, and both servers of a block have the same seed for hashes, another one in each block. Where other programs used more
than 2 % of the CPUs meanwhile, a pair is measured again, up to so many times as there are pairs; those that stay
disturbed count, and are told. `--options=--no-gil` and the like go to `contend trace`; bench/trace_within.py says more
about which part costs what.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from results.files import save_at
from results.pages import trace_wsgi
from results.record import recording

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
    # What gunicorn does where nobody says otherwise: a request at a time.
    "gunicorn-sync": ["-m", "gunicorn", "--log-level=warning", "--bind=127.0.0.1:{port}", "service:app"],
}
DISTURBED = 0.02
"""More than this share of all CPUs used by others: measured again."""
PATHS = "request = function() return wrk.format('GET', '/servers/' .. math.random(1, 100)) end\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def begun(
    server: str, place: Path, trace: Path | None, options: Sequence[str] = (), seed: int | None = None
) -> tuple[int, subprocess.Popen[bytes]]:
    """A port and the process of the server, which may not answer yet."""
    port = free_port()
    command = [sys.executable, *(word.format(port=port) for word in SERVERS[server])]
    if trace is not None:
        contend = [sys.executable, "-c", "from contend.cli import main; main()"]
        command = [*contend, "trace", "-o", str(trace), *options, "--", *command]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(place), *sys.path]))}
    if seed is not None:
        environ["PYTHONHASHSEED"] = str(seed)
    return port, subprocess.Popen(command, cwd=place, env=environ, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running(
    server: str,
    place: Path,
    trace: Path | None,
    options: Sequence[str] = (),
    seed: int | None = None,
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The server's port and process, while it runs; ended by its own signal, killed if that does not do."""
    port, process = begun(server, place, trace, options, seed)
    try:
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120  # on a busy host a start takes its time
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/servers/1", timeout=5).read()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: the server did not come up (exit code {process.poll()})")
            time.sleep(0.1)


def tree(process: subprocess.Popen[bytes]) -> set[int]:
    """The server and all that it started."""
    own = psutil.Process(process.pid)
    return {each.pid for each in (own, *own.children(recursive=True))}


def used(pids: Iterable[int]) -> tuple[float, float]:
    """µs of CPU and switches of all their threads so far. Threads that end take theirs along: here none do."""
    cpu, switches = 0.0, 0
    for task in (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()):
        cpu += int((task / "schedstat").read_text().split()[0]) / 1000  # proc-schedstat: ns on a CPU
        told = (task / "status").read_text()
        switches += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", told)))
    return cpu, switches


def ticks() -> dict[int, int]:
    """CPU time of every process, in clock ticks (proc_pid_stat(5), fields 14 and 15)."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            found[int(stat.parent.name)] = int(fields[11]) + int(fields[12])
    return found


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


@dataclass(frozen=True)
class Burst:
    """Of one arm."""

    rate: float
    cpu_us: float
    switches: float
    others: float
    """Share of all CPUs that other programs used."""


Pair = dict[str, Burst]


def burst(port: int, pids: set[int], ours: set[int], script: Path) -> Burst:
    cpus = os.cpu_count() or 1
    (cpu, switches), everybody, began = used(pids), ticks(), time.monotonic()
    rate, count = load(port, 1, script)
    length, (cpu_after, switches_after) = time.monotonic() - began, used(pids)
    more = sum(now - everybody.get(pid, 0) for pid, now in ticks().items() if pid not in ours)
    others = more / os.sysconf("SC_CLK_TCK") / length / cpus
    return Burst(rate, (cpu_after - cpu) / count, (switches_after - switches) / count, others)


def block(arms: dict[str, tuple[int, subprocess.Popen[bytes]]], pairs: int, script: Path) -> list[Pair]:
    """So many pairs, after one that warms."""
    pids = {arm: tree(process) for arm, (_, process) in arms.items()}
    ours = {os.getpid(), *(pid for each in pids.values() for pid in each)}
    found: list[Pair] = []
    for number in range(-1, 2 * pairs):
        pair = {
            arm: burst(arms[arm][0], pids[arm], ours, script) for arm in random.sample(list(arms), len(arms))
        }
        if number >= 0:
            found.append(pair)
        if sum(map(is_quiet, found)) == pairs:
            break
    return sorted(found, key=is_quiet, reverse=True)[:pairs]


def is_quiet(pair: Pair) -> bool:
    return all(burst.others <= DISTURBED for burst in pair.values())


def measure(server: str, blocks: int, pairs: int, options: Sequence[str]) -> list[list[Pair]]:
    """By block; the first one, which makes the database and the byte code, is left out."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "service.py").write_text(APPLICATION)
        script = place / "paths.lua"
        script.write_text(PATHS)
        with running(server, place, None) as (port, process):
            wait_until_it_answers(port, process)
        for number in range(blocks):
            trace, seed = place / f"trace-{number}", random.randrange(1 << 32)
            with (
                running(server, place, None, seed=seed) as plain,
                running(server, place, trace, options, seed) as traced,
            ):
                for port, process in (plain, traced):
                    wait_until_it_answers(port, process)
                found.append(block({"plain": plain, "traced": traced}, pairs, script))
            shutil.rmtree(trace)
    return found


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=3, help="of a block; odd")
    parser.add_argument("--server", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--options", nargs="*", default=[], help="of contend trace")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("error: wrk is not installed\n  hint: scripts/packages.sh bench")
    how = {name: getattr(given, name) for name in ("blocks", "pairs", "options")}
    results: dict[str, list[list[dict[str, Any]]]] = {}
    for server in given.server:
        found = measure(server, **how)
        results[server] = [[{arm: asdict(b) for arm, b in pair.items()} for pair in each] for each in found]
        disturbed = sum(not is_quiet(pair) for each in found for pair in each)
        print(server, trace_wsgi.of_server(results[server]), sep="\n")
        print(
            f"{disturbed} of {len(found) * given.pairs} pairs were disturbed by other programs.", flush=True
        )
    if given.write:
        save_at(given.write, {**how, "results": results})


if __name__ == "__main__":
    main()
