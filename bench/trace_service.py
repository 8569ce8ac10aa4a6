"""What recording costs a service of OpenStack's: requests a second of keystone, with and without, in one process.

    pip install -e '.[openstack]'; testbed/openstack/openstack up --without volume --without orchestration
    python bench/trace_service.py [--bed DIR] [--starts 8] [--rounds 8] [--write docs/results/trace-service]
                                                                             (about 8 minutes on a quiet machine)

Where bench/trace_wsgi.py has a small service with many events, this one is real: keystone under gunicorn, as the test bed
starts it, with one worker, under `contend trace`. wrk asks it with four connections, by an administrator's token, for the
users (`GET /v3/users`): the token is checked, the policy too, MariaDB asked. A thread of its own switches the recording on
and off, in random order, for three seconds each. Requests a second, and CPU time of the process a request; ratios are of
pairs, with 95 % intervals. How many events a request makes is told. As in bench/trace_within.py what is not seen is what the
patches cost while nothing is recorded.
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
from contend.clouds.access import find
from contend.testbed.openstack import daemons, shape
from contend.testbed.openstack.__main__ import default_root
from contend.testbed.openstack.bed import Bed
from results.files import save_at
from results.pages import trace_service
from results.record import recording
from trace_wsgi import free_port

PATH = "/v3/users"
CONNECTIONS = 4
LENGTH_S = 3.0
# gunicorn's settings: the bed's, and a worker that counts what it serves and switches the recording.
HOOK = """
exec(open({settings!r}).read())
begin = post_worker_init

def post_worker_init(worker):
    begin(worker)
    import json, os, random, tempfile, threading, time
    from contend import trace
    served, serve = [0], worker.wsgi

    def counting(environ, start_response):
        served[0] += 1
        return serve(environ, start_response)

    def look():
        return served[0], time.process_time(), time.monotonic()

    def switch():
        while served[0] < 20:
            time.sleep(0.1)
        found = []
        for _ in range({rounds}):
            row = {{}}
            for on in random.sample([False, True], 2):
                if on and not trace.status().recording:
                    trace.start(tempfile.mkdtemp(dir={place!r}), gil=True, gc=True, io=True, blocked_after_ms=10)
                elif not on:
                    trace.stop()
                time.sleep(0.2)
                before = look()
                time.sleep({length_s})
                row["on" if on else "off"] = [after - at for at, after in zip(before, look())]
            found.append(row)
        trace.stop()
        with open({place!r} + "/found.part", "w") as file:
            json.dump(found, file)
        os.rename({place!r} + "/found.part", {place!r} + "/found.json")

    worker.wsgi = counting
    threading.Thread(target=switch, daemon=True).start()
"""
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
    told = {"settings": settings, "rounds": rounds, "length_s": LENGTH_S, "place": str(place)}
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
    deadline = time.monotonic() + 60
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
    longest = int(rounds * 2 * (LENGTH_S + 1)) + 60
    with running(bed, port, place, rounds) as process:
        wait_until_it_answers(port, process, headers)
        load = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{longest}s", "--timeout=9s", "-s", str(script)]
        wrk = subprocess.Popen([*load, f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL)
        try:
            while not (place / "found.json").exists():
                if wrk.poll() is not None:
                    sys.exit("error: the load ended before the measurement did")
                time.sleep(0.2)
        finally:
            wrk.kill()
            wrk.wait()
    rows: list[Row] = json.loads((place / "found.json").read_text())
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
    rows: list[Row] = []
    events: list[float] = []
    for _ in range(given.starts):
        with tempfile.TemporaryDirectory() as name:
            found, each = measure(bed, given.rounds, Path(name))
        rows += found
        events.append(each)
    told = {"starts": given.starts, "rounds": given.rounds, "events": events, "rows": rows}
    print(trace_service.body(told))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
