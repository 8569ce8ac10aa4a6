"""CPU time that `contend trace` adds to a request, inside one process: for machines on which others are busy too.

    python bench/trace_request.py [--python PATH …] [--starts 6] [--batches 20]      (about 2 minutes)

The application of bench/trace_wsgi.py, called by waitress's task without its sockets and with one thread besides: what
is not seen are waits for the GIL among many threads and the kernel's sockets. Of each process the fastest of its batches
counts, plain and traced in turn, so that most of what others do to caches falls out; each start has another layout of
memory, and so another ratio: starts differ by 5 % and more. `--python` as in bench/trace_instructions.py.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

REQUESTS = 100


def served() -> None:
    """In the process that is measured: for each line that comes, µs of CPU a request."""
    sys.path.insert(0, str(Path.cwd()))
    import gc

    import service  # type: ignore[import-not-found]
    from waitress.adjustments import Adjustments
    from waitress.task import WSGITask

    adjustments: Any = Adjustments(listen="127.0.0.1:8080")
    server = SimpleNamespace(
        application=service.app, effective_port=80, server_name="localhost", adj=adjustments
    )
    channel = SimpleNamespace(
        server=server, addr=("127.0.0.1", 4711), creation_time=0, write_soon=len, adj=adjustments,
        check_client_disconnected=None,
    )  # fmt: skip
    requests = [
        SimpleNamespace(
            command="GET", path=f"/servers/{number}", request_uri=f"/servers/{number}", query="", fragment="",
            headers={"HOST": "localhost"}, version="1.1", url_scheme="http", proxy_scheme="", error=None,
            get_body_stream=io.BytesIO, connection_close=False,
        )
        for number in range(1, REQUESTS + 1)
    ]  # fmt: skip

    def batch() -> None:
        for request in requests:
            WSGITask(channel, request).execute()

    for _ in range(5):
        batch()
    gc.collect()
    gc.disable()
    for _line in sys.stdin:
        began = time.process_time()
        batch()
        print((time.process_time() - began) * 1e6 / REQUESTS, flush=True)


def start(place: Path, python: Path | None) -> subprocess.Popen[str]:
    """Traced by that contend, or plain."""
    environ = {**os.environ, "SERVED": "1"}
    own = str(Path(__file__).resolve().parent)
    environ["PYTHONPATH"] = os.pathsep.join([own, *(p for p in sys.path if p.endswith("site-packages"))])
    if python is not None:
        told = {
            "directory": str(place), "include": [], "exclude": [], "buffer_bytes": 32 << 20, "overflow": "drop",
            "cpu_times": False, "run_delay": False, "gil": True, "gc": True, "io": True, "blocked_after_ms": 10,
            "digests": True, "key": "00" * 16,
        }  # fmt: skip
        environ["PYTHONPATH"] = f"{python}/contend/trace/inject:{python}:{environ['PYTHONPATH']}"
        environ |= {"CONTEND_TRACE_PACKAGE": str(python), "CONTEND_TRACE": json.dumps(told)}
    command = [os.path.realpath(sys.executable), __file__]
    return subprocess.Popen(
        command, env=environ, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(process: subprocess.Popen[str]) -> float:
    assert process.stdin and process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = Path(__file__).resolve().parent.parent / "python"
    parser.add_argument("--python", type=Path, nargs="*", default=[own])
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--batches", type=int, default=20)
    given = parser.parse_args()
    from trace_wsgi import APPLICATION  # needs contend, which the measured processes may not have

    arms: dict[str, Path | None] = {"plain": None, **{str(path): path.resolve() for path in given.python}}
    least: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(given.starts):
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "service.py").write_text(APPLICATION)
            running = {arm: start(place, python) for arm, python in arms.items()}
            told: dict[str, list[float]] = {arm: [] for arm in arms}
            for _batch in range(given.batches):
                for arm in random.sample(list(arms), len(arms)):
                    told[arm].append(ask(running[arm]))
            for arm, process in running.items():
                process.communicate()
                least[arm].append(min(told[arm]))
    print("| | µs of CPU a request | ratio, each start |\n|---|---:|---|")
    for arm, each in least.items():
        ratios = [one / plain for one, plain in zip(each, least["plain"], strict=True)]
        spread = f"{statistics.fmean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"| {arm} | {statistics.fmean(each):,.0f} | {spread} |")


if __name__ == "__main__":
    if "SERVED" in os.environ:
        served()
    else:
        main()
