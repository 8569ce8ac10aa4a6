"""Is a service that runs already a victim like any other, and does it go on as it was?

    python bench/own_services.py [--budget 10m] [--write docs/results/own-services]        (as root; twice the budget)

nginx with a file of 4 KB, and PostgreSQL with pgbench's clients at a steady rate, are started as their users would. Then
`contend run noisy-neighbour` asks the one (`--url`) and follows the other (`--pid`), as it is, beside its own neighbours.
Afterwards the services have to be the same processes, with nothing in their logs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from postgres import client, made
from results.files import save_at
from results.record import recording

CONTEND = (sys.executable, "-m", "contend")
RATE = 200
"""Requests of nginx, and transactions of PostgreSQL, a second."""
BLOCKS = 40
ALLOWED = "90%"
"""Of the CPU time that the services and their clients want, that they may wait. The guard counts them among others, and on
two CPUs a single neighbour makes them wait for more than the fifth that it allows by default.
"""
NGINX = """\
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    server {{ listen 127.0.0.1:{port}; location / {{ root {folder}/www; }} }}
}}
"""
ROUTINE = " LOG: "
"""PostgreSQL's word for what is no warning."""

Row = dict[str, Any]


def main() -> int:
    """1 where a service was not left as it was."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    with recording(), tempfile.TemporaryDirectory(prefix="contend-own-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx' workers and PostgreSQL have users of their own
        rows = []
        for title, service, option in (("nginx", nginx, "--url"), ("PostgreSQL", postgres, "--pid")):
            with service(folder) as (pid, target, log):
                rows.append(measured(title, option, target, pid, log, given.budget, folder))
            print(title, json.dumps(rows[-1], indent=1), flush=True)
        if given.write:
            save_at(given.write, {"rate": RATE, "budget": given.budget, "rows": rows})
    return 0 if all(row["same"] and not row["logged"] for row in rows) else 1


def measured(title: str, option: str, target: str, pid: int, log: Path, budget: str, folder: Path) -> Row:
    """Run contend on a service."""
    before = family(pid)
    logged = len(log.read_text().splitlines())
    rate = ["--rate", str(RATE)] if option == "--url" else []
    settings = {"guard.run_delay": ALLOWED, "measure.blocks": BLOCKS, "measure.most": BLOCKS}
    command = [*CONTEND, "run", "noisy-neighbour", option, target, *rate]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command += ["--budget", budget, "--json"]
    begun = time.monotonic()
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    if not run.stdout:
        raise SystemExit(run.stderr)
    analysis = json.loads(run.stdout)["data"]
    return {
        "service": title,
        "command": " ".join(["contend", *command[len(CONTEND) :]]).replace(str(folder), "…"),
        "code": run.returncode,
        "complained": run.stderr.strip()[-300:],
        "took_s": round(took, 1),
        "same": family(pid)[:1] == before[:1] and set(before) <= set(family(pid)),
        "logged": "".join(
            line for line in log.read_text().splitlines(keepends=True)[logged:] if ROUTINE not in line
        )[-300:],
        "answer": analysis["answer"],
        "blocks": analysis["design"]["blocks"],
        "alarms": sum(control["alarm"] for control in analysis["controls"]),
        "controls": len(analysis["controls"]),
        "failed": len(analysis["failed"]),
        "cells": [
            [
                c["factors"]["neighbour"],
                c["metric"]["name"],
                *bounds_of(c["estimate"]),
                c["estimate"]["verdict"],
            ]
            for c in analysis["cells"]
        ],
        "findings": [finding["sentence"] for finding in analysis["findings"]],
    }


def bounds_of(estimate: Row) -> list[float | None]:
    return [None if estimate[k] is None else round(estimate[k], 4) for k in ("value", "low", "high")]


def family(pid: int) -> list[tuple[int, int]]:
    """(pid, start) of a process, then of its children that serve for as long as it does."""
    members = []
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    for one in [pid, *map(int, children)]:
        with contextlib.suppress(FileNotFoundError):
            fields = Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            members.append((one, int(fields[19])))
    return members


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield nginx' process, its URL and its log."""
    port = free_port()
    (folder / "www").mkdir()
    (folder / "www/index.html").write_text("x" * 4096, encoding="ascii")
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port), encoding="ascii")
    with running(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], "QUIT") as process:
        answers("127.0.0.1", port)
        yield process.pid, f"http://127.0.0.1:{port}/", folder / "error.log"


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield PostgreSQL's first process, its number, and its log, with clients that ask at a steady rate."""
    log, port = folder / "postgres.log", free_port()
    server = made(folder, port)
    with running(server, "INT", log) as process:
        answers("127.0.0.1", port)
        time.sleep(1.0)
        pgbench = client("pgbench", port)
        subprocess.run(
            [*pgbench, "-i", "-q", "-s", "10", "postgres"],
            cwd="/", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        clients = [*pgbench, "-c", "4", "-R", str(RATE), "-T", "86400", "postgres"]
        with running(clients, "TERM", folder / "clients.log"):
            time.sleep(5.0)
            yield process.pid, str(process.pid), log


@contextlib.contextmanager
def running(command: Sequence[str], end: str, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program for as long as the block does; it has to be there at its end."""
    with contextlib.ExitStack() as files:
        output: Any = subprocess.DEVNULL if log is None else files.enter_context(log.open("wb"))
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "HOME": "/"})
        try:
            yield process
        finally:
            ended = process.poll()
            subprocess.run(["kill", f"-{end}", str(process.pid)], check=False)
            process.wait(30)
        if ended is not None:
            raise SystemExit(f"{command[0]} ended with {ended}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(host: str, port: int) -> None:
    """Wait until somebody listens there."""
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, port), 1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    sys.exit(main())
