"""Instructions that `contend trace` adds to what services do most: counted, so that a busy machine does not matter.

    python bench/trace_instructions.py [--python PATH …] [--only NAME …]        (about 2 minutes; needs valgrind)

Each case runs plain and traced under callgrind, which counts the instructions of a loop and no more: what is not seen
are caches and the kernel. `--python` names directories with other versions of contend to compare with, such as
`git worktree add /tmp/before COMMIT` and its `python` (with its native module built).

CPython remembers attributes of types in a table by their address, so that counts of the same code differ by
what else is in memory: look at differences beyond a few hundred instructions.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from trace_wsgi import APPLICATION

LOOPS = 400
CASES = {
    "Lock(), taken once": ("import threading", "lock = threading.Lock()\n    with lock: pass"),
    "Lock, taken and released": ("import threading; lock = threading.Lock()", "with lock: pass"),
    "Event()": ("import threading", "done = threading.Event()"),
    "Condition()": ("import threading", "condition = threading.Condition()"),
    "Event set": ("import threading; done = threading.Event()", "done.set()"),
    "Condition wait that times out": (
        "import threading; condition = threading.Condition()",
        "with condition: condition.wait(0)",
    ),
    "Semaphore acquire and release": (
        "import threading; semaphore = threading.Semaphore(2)",
        "semaphore.acquire(); semaphore.release()",
    ),
    "Queue put and get": ("import queue; q = queue.Queue()", "q.put(1); q.get()"),
    "SimpleQueue put and get": ("import queue; q = queue.SimpleQueue()", "q.put(1); q.get()"),
    "ThreadPoolExecutor submit and result": (
        "import concurrent.futures; pool = concurrent.futures.ThreadPoolExecutor(1); pool.submit(int).result()",
        "pool.submit(int).result()",
    ),
    "collection of garbage": ("import gc", "gc.collect(0)"),
    "SQL statement and rollback": (
        "import sqlalchemy; engine = sqlalchemy.create_engine('sqlite://'); dialect = engine.dialect\n"
        "connection = engine.raw_connection().dbapi_connection; cursor = connection.cursor()",
        "dialect.do_execute(cursor, 'SELECT 1', (), None); dialect.do_rollback(connection)",
    ),
    "pooled connection": (
        "import sqlalchemy; engine = sqlalchemy.create_engine('sqlite:///file:x?mode=memory&uri=true')",
        "engine.raw_connection().close()",
    ),
    "WSGI request (waitress)": (
        """
from types import SimpleNamespace
from waitress.task import WSGITask
def app(environ, start_response):
    start_response("200 OK", [])
    return []
adjustments = SimpleNamespace(
    ident="", channel_request_lookahead=0, clear_untrusted_proxy_headers=False, log_socket_errors=False,
    url_prefix="", url_scheme="http", expose_tracebacks=False, map={}, trusted_proxy=None,
)
server = SimpleNamespace(application=app, effective_port=80, server_name="", adj=adjustments)
channel = SimpleNamespace(
    server=server, addr=("127.0.0.1", 4711), creation_time=0, write_soon=len, check_client_disconnected=None, adj=adjustments
)
request = SimpleNamespace(
    command="GET", path="/a", query="", headers={}, version="1.1", url_scheme="http", request_uri="/a",
    get_body_stream=lambda: None, connection_close=False, error=None,
)
""",
        "WSGITask(channel, request).execute()",
    ),
    "request of bench/trace_wsgi.py": (
        APPLICATION
        + """
import io
from types import SimpleNamespace
from waitress.adjustments import Adjustments
from waitress.task import WSGITask
adjustments = Adjustments(listen="127.0.0.1:8080")
server = SimpleNamespace(application=app, effective_port=80, server_name="localhost", adj=adjustments)
channel = SimpleNamespace(
    server=server, addr=("127.0.0.1", 4711), creation_time=0, write_soon=len, check_client_disconnected=None, adj=adjustments
)
request = SimpleNamespace(
    command="GET", path="/servers/1", query="", headers={"HOST": "localhost"}, version="1.1", url_scheme="http",
    request_uri="/servers/1", proxy_scheme="", fragment="", get_body_stream=io.BytesIO, connection_close=False, error=None,
)
""",
        "WSGITask(channel, request).execute()",
    ),
}
# A client request of valgrind's (valgrind.h): rolls that undo each other, and an exchange of a register with itself.
REQUEST = bytes.fromhex("4889f831d248c1c70348c1c70d48c1c73d48c1c7334887db4889d0c3")
DUMP, ZERO, START, STOP = (0x43540000 + number for number in (0, 1, 4, 5))


def asking_callgrind() -> Callable[[int], None]:
    """Of `DUMP`, `ZERO`, `START` and `STOP`."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(REQUEST)
    code = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(
        ctypes.addressof(ctypes.c_char.from_buffer(memory))
    )
    arguments = (ctypes.c_long * 6)()

    def ask(what: int, _held: object = memory) -> None:
        arguments[0] = what
        code(ctypes.addressof(arguments))

    return ask


def counted() -> None:
    """In the process that is counted: the case's loop, between requests to callgrind."""
    setup, body = CASES[os.environ["CASE"]]
    ask = asking_callgrind()
    scope: dict[str, object] = {}
    exec(setup + f"\ndef loop(times):\n  for _ in range(times):\n    {body}\n", scope)
    import gc

    gc.disable()
    sys.setswitchinterval(10)
    loop = scope["loop"]
    loop(100)  # type: ignore[operator]
    ask(START)
    for times in (0, LOOPS):
        ask(ZERO)
        loop(times)  # type: ignore[operator]
        ask(DUMP)
    ask(STOP)


def environment(directory: str, python: Path | None) -> dict[str, str]:
    """Of a process that is traced by that contend, or by none."""
    environ = {**os.environ, "PYTHONHASHSEED": "0"}
    own = str(Path(__file__).resolve().parent.parent / "python")  # what the benches import of contend
    environ["PYTHONPATH"] = os.pathsep.join(
        [*(path for path in sys.path if path.endswith("site-packages")), own]
    )
    if python is not None:
        told = {
            "directory": directory, "include": [], "exclude": [], "buffer_bytes": 32 << 20, "overflow": "drop",
            "cpu_times": False, "run_delay": False, "gil": True, "gc": True, "io": True, "blocked_after_ms": 10,
            "digests": True, "key": "00" * 16,
        }  # fmt: skip
        environ["PYTHONPATH"] = f"{python}/contend/trace/inject:{environ['PYTHONPATH']}"
        environ |= {"CONTEND_TRACE_PACKAGE": str(python), "CONTEND_TRACE": json.dumps(told)}
    return environ


def instructions(case: str, python: Path | None) -> float:
    """Of one pass, traced by that contend, or plain."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        environ = {**environment(name, python), "CASE": case}
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        command += [os.path.realpath(sys.executable), __file__]
        done = subprocess.run(command, check=False, env=environ, cwd=name, capture_output=True, text=True)
        if done.returncode or "contend.trace:" in done.stderr:
            sys.exit(f"error: {case}: {done.stderr}")
        totals = [
            int(re.findall(r"^totals: (\d+)", Path(f"{out}.{part}").read_text(), re.M)[0]) for part in (1, 2)
        ]
        return (totals[1] - totals[0]) / LOOPS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = Path(__file__).resolve().parent.parent / "python"
    parser.add_argument("--python", type=Path, nargs="*", default=[own])
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=CASES, metavar="NAME")
    given = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("error: valgrind is not installed\n  hint: apt-get install valgrind")
    print("| instructions | plain | " + " | ".join(f"added by {path}" for path in given.python) + " |")
    print("|---|---:|" + "---:|" * len(given.python))
    for case in given.only:
        plain = instructions(case, None)
        added = [instructions(case, path.resolve()) - plain for path in given.python]
        print(
            f"| {case} | {plain:,.0f} | " + " | ".join(f"{each:+,.0f}" for each in added) + " |", flush=True
        )


if __name__ == "__main__":
    if "CASE" in os.environ:
        counted()
    else:
        main()
