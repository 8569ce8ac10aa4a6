"""Cache lines that a recording fetches from beyond the L2, a request of a WSGI service: counted, function by function.

    python bench/trace_lines.py [--python PATH …] [--requests 40] [--threads 4]        (3 minutes each; needs valgrind)

The service of bench/trace_wsgi.py, called by waitress's task without its sockets, in one process under callgrind, which
simulates caches (32 KiB of instructions and of data, 8 ways; an L2 of 512 KiB, 16 ways) and a predictor of branches. The
process serves requests with nothing on record and with all that `contend trace` records, in turn, twice: what is told is
the difference. Such counts do not depend on what else the machine does. They are of one thread at a time, and of a
simple cache: what they tell apart is two versions of the code, not two machines.

Two things run at their own pace and not at callgrind's, which is fifty times slower: the writer's thread, which would
write once a request and not once in hundreds, is kept waiting for its file; and threads take turns only where they block.
`--threads` has the requests handled by a pool of so many, as gunicorn's threads do: such counts vary a little more.
`--python` names directories with other versions of contend, as in bench/trace_instructions.py.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from results.files import save_at
from results.record import recording
from trace_instructions import DUMP, START, STOP, ZERO, asking_callgrind, environment
from trace_wsgi import APPLICATION

MODES = ("off", "on", "off", "on")
SIMULATED = ("--cache-sim=yes", "--branch-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,16,64")
WHAT = {
    "instructions": ("Ir",),
    "lines of instructions": ("ILmr",),
    "lines of data": ("DLmr", "DLmw"),
    "mispredictions": ("Bcm", "Bim"),
}
WARM = 10
"""Batches in each mode before any is counted."""
Cost = list[float]
Key = tuple[str, str]
"""Object and function."""


@contextlib.contextmanager
def without_writer(path: Path) -> Iterator[None]:
    """The writer finds another file at its number, a pipe that nobody reads in its own file's place, and waits."""
    (number,) = (int(held.name) for held in Path("/proc/self/fd").iterdir() if held.resolve() == path)
    path.unlink()
    os.mkfifo(path)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
    try:
        yield
    finally:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # the recording fails now, and says so
        from contend import trace

        trace.stop()
        os.close(reader)


def served() -> None:
    """In the process that is counted."""
    count, threads = int(os.environ["REQUESTS"]), int(os.environ["THREADS"])
    sys.path.insert(0, str(Path.cwd()))
    import concurrent.futures
    import gc

    import service  # type: ignore[import-not-found]
    from waitress.adjustments import Adjustments
    from waitress.task import WSGITask

    from contend import trace

    known = Adjustments(listen="127.0.0.1:8080")
    server = SimpleNamespace(application=service.app, effective_port=80, server_name="localhost", adj=known)
    channel = SimpleNamespace(
        server=server, addr=("127.0.0.1", 4711), creation_time=0, write_soon=len, adj=known,
        check_client_disconnected=None,
    )  # fmt: skip
    requests = [
        SimpleNamespace(
            command="GET", path=f"/servers/{number}", request_uri=f"/servers/{number}", query="", fragment="",
            headers={"HOST": "localhost"}, version="1.1", url_scheme="http", proxy_scheme="", error=None,
            get_body_stream=io.BytesIO, connection_close=False,
        )
        for number in range(1, count + 1)
    ]  # fmt: skip

    def handle(request: object) -> None:
        WSGITask(channel, request).execute()

    def batch() -> None:
        if threads == 0:
            for request in requests:
                handle(request)
        else:
            for future in [pool.submit(handle, request) for request in requests]:
                future.result()

    def start() -> Path:
        where = tempfile.mkdtemp(dir=".")
        path = trace.start(where, gil=True, gc=True, io=True, blocked_after_ms=10)
        return Path(path).resolve()

    ask = asking_callgrind()
    pool = concurrent.futures.ThreadPoolExecutor(threads or 1)
    gc.disable()
    # CPython makes its byte code special for what comes again and again: in both modes.
    for _ in range(WARM):
        batch()
    trace.stop()
    for _ in range(WARM):
        batch()
    start()
    batch()
    print(trace.stop().events / count)
    gc.collect()
    sys.setswitchinterval(10)
    ask(START)
    for mode in MODES:
        with contextlib.nullcontext() if mode == "off" else without_writer(start()):
            batch()
            ask(ZERO)
            batch()
            ask(DUMP)
    ask(STOP)


def costs(out: Path) -> dict[Key, Cost]:
    """Of `WHAT`, by function, as callgrind's file has them (https://valgrind.org/docs/manual/cl-format.html)."""
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}}
    now = {"ob": "", "fn": ""}
    events: list[str] = []
    found: dict[Key, Cost] = defaultdict(lambda: [0.0] * len(WHAT))
    of_call = False
    for line in out.read_text().splitlines():
        if line.startswith("events: "):
            events = line.split()[1:]
        elif told := re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line):
            called, kind, number, name = told.groups()
            if name:
                names[kind][number] = name
            if not called:
                now[kind] = names[kind][number]
        elif line.startswith("calls="):
            of_call = True
        elif re.match(r"[+*\d-]", line):
            if not of_call:
                numbers = dict(zip(events, map(int, line.split()[1:]), strict=False))
                cost = found[Path(now["ob"]).name, now["fn"].partition("'")[0]]
                for at, keys in enumerate(WHAT.values()):
                    cost[at] += sum(numbers.get(key, 0) for key in keys)
            of_call = False
    return found


def measured(
    python: Path, count: int, threads: int, keep: Path | None
) -> tuple[list[dict[Key, Cost]], float]:
    """By mode, of all requests; how many events a request makes."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "service.py").write_text(APPLICATION)
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", *SIMULATED]
        command += [f"--callgrind-out-file={place / 'out'}", os.path.realpath(sys.executable), __file__]
        environ = {**environment(name, python), "REQUESTS": str(count), "THREADS": str(threads)}
        done = subprocess.run(command, check=False, env=environ, cwd=name, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"error: {done.stderr}")
        if keep is not None:
            shutil.copytree(place, keep, ignore=shutil.ignore_patterns("*.ctrace", "*.db"))
        parts = [costs(place / f"out.{part}") for part in range(1, len(MODES) + 1)]
        return parts, float(done.stdout.split()[-1])


def component(key: Key) -> str:
    for part, name in (("_native.", "contend's module"), ("libpython", "libpython"), ("libc.", "libc")):
        if key[0].startswith(part):
            return name
    return "all else"


def table(parts: list[dict[Key, Cost]], count: int, functions: int) -> Iterator[str]:
    """Of a request: with nothing on record, and how much more with all."""

    def mean(mode: str, key: Key, at: int) -> float:
        held = [
            part.get(key, [0.0] * len(WHAT))[at] for part, of in zip(parts, MODES, strict=True) if of == mode
        ]
        return sum(held) / len(held) / count

    keys = {key for part in parts for key in part}
    rows: dict[str, list[Cost]] = defaultdict(lambda: [[0.0, 0.0] for _ in WHAT])
    more: dict[Key, Cost] = {}
    for key in keys:
        added = [mean("on", key, at) - mean("off", key, at) for at in range(len(WHAT))]
        more[key] = added
        for name in ("all", component(key)):
            for at in range(len(WHAT)):
                rows[name][at][0] += mean("off", key, at)
                rows[name][at][1] += added[at]
    yield "| a request | " + " | ".join(f"{what}, and more when on" for what in WHAT) + " |"
    yield "|---|" + "---:|" * len(WHAT)
    for name in ("all", "contend's module", "libpython", "libc", "all else"):
        yield f"| {name} | " + " | ".join(f"{off:,.0f} {on:+,.0f}" for off, on in rows[name]) + " |"
    yield ""
    yield "| more when on | " + " | ".join(WHAT) + " |"
    yield "|---|" + "---:|" * len(WHAT)
    for key in sorted(keys, key=lambda key: -more[key][1] - more[key][2])[:functions]:
        yield f"| `{key[1][-60:]}` ({key[0]}) | " + " | ".join(f"{each:+,.1f}" for each in more[key]) + " |"


def document(parts: list[dict[Key, Cost]], given: argparse.Namespace, events: float) -> dict[str, Any]:
    """Counts a request of each part of the run, by component: each mode is there twice."""
    told = []
    for mode, part in zip(MODES, parts, strict=True):
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(WHAT))
        for key, cost in part.items():
            for name in ("all", component(key)):
                sums[name] = [a + b / given.requests for a, b in zip(sums[name], cost, strict=True)]
        told.append(
            {
                "mode": mode,
                "a_request": {name: dict(zip(WHAT, row, strict=True)) for name, row in sums.items()},
            }
        )
    return {
        "requests": given.requests,
        "threads": given.threads,
        "events_a_request": events,
        "parts": told,
    }


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = Path(__file__).resolve().parent.parent / "python"
    parser.add_argument("--python", type=Path, nargs="*", default=[own])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--threads", type=int, default=0, help="of a pool; 0: none")
    parser.add_argument("--functions", type=int, default=40, help="that differ most")
    parser.add_argument("--keep", type=Path, help="a new directory for callgrind's files, out.1 to out.4")
    parser.add_argument(
        "--write", type=Path, help="write the counts of the last --python: PATH.json and PATH.md"
    )
    given = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("error: valgrind is not installed\n  hint: apt-get install valgrind")
    for python in given.python:
        parts, events = measured(python.resolve(), given.requests, given.threads, given.keep)
        print(f"## {python}, {events:,.1f} events a request\n")
        print(*table(parts, given.requests, given.functions), sep="\n", flush=True)
        if given.write:
            save_at(given.write, document(parts, given, events))


if __name__ == "__main__":
    if "REQUESTS" in os.environ:
        served()
    else:
        main()
