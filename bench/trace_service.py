"""What recording costs a service of OpenStack's: requests a second of keystone, with and without, in one process.

    pip install -e '.[openstack]'; testbed/openstack/openstack up --without volume --without orchestration
    python bench/trace_service.py [--bed DIR] [--starts 8] [--rounds 8] [--write docs/results/trace-service]
                                                                             (about 11 minutes on a quiet machine)

Where bench/trace_wsgi.py has a small service with many events, this one is real: keystone under gunicorn, as the test bed
starts it, with one worker, under `contend trace`. wrk asks it with four connections, by an administrator's token, for the
users (`GET /v3/users`): the token is checked, the policy too, MariaDB asked. The worker serves one request at a time and
switches the mode between two of them, in random order, for so many requests each: `off`, `control` and `on`. `off` and
`control` are the same, nothing on record: what these two differ by is what the method itself makes up. A window begins and
ends between requests, so that it holds whole ones only.

Requests a second and CPU time of the process a request, which stands a busy host. The unit is the start: a ratio is formed
of the sums of one start, and the 95 % interval is over starts, since the windows of one start share its luck. How many
events a request makes is told. As in bench/trace_within.py what is not seen is what the patches cost while nothing is
recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from contend._native import ctrace_summary
from contend.clouds.login import find
from contend.testbed.openstack import daemons, shape
from contend.testbed.openstack.__main__ import default_root
from contend.testbed.openstack.bed import Bed
from results.files import save_at
from results.pages import trace_service
from results.record import recording
from trace_wsgi import free_port

PATH = "/v3/users"
CONNECTIONS = 4
WARM, LENGTH, SETTLE = 20, 24, 4
"""Requests: before the first window; of a window, with those that settle it, which it leaves out."""
LONGEST_S = 3600
# gunicorn's settings: the bed's, and a worker that counts what it serves and switches the recording.
HOOK = """
exec(open({settings!r}).read())
begin = post_worker_init

def post_worker_init(worker):
    begin(worker)
    import json, os, random, tempfile, threading, time
    from contend import trace
    serve, served, found = worker.wsgi, [0], []
    turns = [mode for _ in range({rounds}) for mode in random.sample({modes!r}, 3)]

    def look():
        return served[0], time.process_time(), time.monotonic()

    def switch():
        # Between two requests: end the window that is open, begin the next.
        now = look()
        if found:
            found[-1]["window"] = [after - at for at, after in zip(found[-1]["window"], now)]
        if len(found) == len(turns):
            trace.stop()
            with open({place!r} + "/found.part", "w") as file:
                json.dump(found, file)
            os.rename({place!r} + "/found.part", {place!r} + "/found.json")
            return
        mode = turns[len(found)]
        # Each mode begins with a stop: none has a recording warmer than the others have.
        trace.stop()
        if mode == "on":
            trace.start(tempfile.mkdtemp(dir={place!r}), gil=True, gc=True, io=True, blocked_after_ms=10)
        found.append({{"mode": mode}})

    def counting(environ, start_response):
        at = served[0] - {warm}
        if 0 <= at <= len(turns) * {length}:
            if at % {length} == 0:
                switch()
            if at % {length} == {settle} and found:
                found[-1]["window"] = look()
        served[0] += 1
        return serve(environ, start_response)

    worker.wsgi = counting
"""
MODES = ("off", "control", "on")
Row = dict[str, list[float]]
"""By mode: requests, s of CPU, s."""


def token(bed: Bed) -> str:
    os.environ["OS_CLIENT_CONFIG_FILE"], os.environ["OS_CLOUD"] = str(bed.clouds_yaml), "contend-testbed"
    return str(find("").region.get_session().get_token())


@contextmanager
def running(bed: Bed, port: int, place: Path, rounds: int) -> Iterator[subprocess.Popen[bytes]]:
    """Keystone as the bed has it, but for its port and the hook; ended by its own signal."""
    service = shape._api(bed, "keystone")
    program, _, settings = service.command[1:]
    told = {"settings": settings, "rounds": rounds, "place": str(place), "modes": MODES}
    told |= {"warm": WARM, "length": LENGTH, "settle": SETTLE}
    (place / "hook.py").write_text(HOOK.format(**told))
    command = [
        service.command[0],
        program,
        "-c",
        str(place / "hook.py"),
        "-b",
        f"127.0.0.1:{port}",
        "-w",
        "1",
    ]
    command = [sys.executable, "-P", "-m", "contend", "trace", "-o", str(place / "begin"), "--", *command]
    environ = {**daemons.base_environment(bed), **service.environment}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environ, **quiet)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes], headers: dict[str, str]) -> None:
    deadline = time.monotonic() + 300  # on a busy host a start takes its time
    while True:
        try:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{PATH}", headers=headers)
            urllib.request.urlopen(asked, timeout=5).read()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: keystone did not come up ({error}; exit code {process.poll()})")
            time.sleep(0.1)


def measure(bed: Bed, rounds: int, place: Path) -> tuple[list[Row], float]:
    """Of one start; and events a request."""
    headers, port = {"X-Auth-Token": token(bed)}, free_port()
    script = place / "ask.lua"
    script.write_text(
        f'wrk.headers["X-Auth-Token"] = {json.dumps(headers["X-Auth-Token"])}\n'
        f'request = function() return wrk.format("GET", "{PATH}") end\n'
    )
    with running(bed, port, place, rounds) as process:
        wait_until_it_answers(port, process, headers)
        load = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LONGEST_S}s", "--timeout=9s", "-s", str(script)]
        wrk = subprocess.Popen([*load, f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL)
        try:
            while not (place / "found.json").exists():
                if wrk.poll() is not None:
                    sys.exit("error: the load ended before the measurement did")
                time.sleep(0.2)
        finally:
            wrk.kill()
            wrk.wait()
    windows = json.loads((place / "found.json").read_text())
    of = len(MODES)
    rows: list[Row] = [
        {one["mode"]: one["window"] for one in windows[at : at + of]} for at in range(0, len(windows), of)
    ]
    traces = [str(file) for file in place.glob("tmp*/*.ctrace")]
    events = served = 0
    for trace in traces:  # a recording is read alone: their processes are one
        summary = ctrace_summary([trace])
        names = summary["spans"]["name"]
        if f"GET {PATH}" in names:
            events += int(np.frombuffer(summary["files"]["events"], "<u8").sum())
            served += int(np.frombuffer(summary["spans"]["count"], "<u8")[names.index(f"GET {PATH}")])
    return rows, events / max(1, served)


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bed", type=Path, default=default_root(), help="the test bed's --root")
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("error: wrk is not installed\n  hint: scripts/packages.sh bench")
    bed = Bed.load(given.bed)
    if bed is None:
        sys.exit(f"error: there is no test bed in {given.bed}\n  hint: testbed/openstack/openstack up")
    starts: list[list[Row]] = []
    events: list[float] = []
    for _ in range(given.starts):
        with tempfile.TemporaryDirectory() as name:
            found, each = measure(bed, given.rounds, Path(name))
        starts.append(found)
        events.append(each)
    told = {"rounds": given.rounds, "events": events, "starts": starts}
    print(trace_service.body(told))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
