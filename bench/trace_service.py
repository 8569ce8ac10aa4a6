"""What `contend trace` costs a service of OpenStack's: requests a second of keystone, plain and traced, in turn.

    pip install -e '.[openstack]'; testbed/openstack/openstack up --without volume --without orchestration
    python bench/trace_service.py [--bed DIR] [--blocks 14] [--pairs 1] [--write docs/results/trace-service]
                                                                             (about 10 minutes on a quiet machine)

Where bench/trace_wsgi.py has a small service with many events, this one is real: keystone under gunicorn, as the test bed
starts it, with one worker. wrk asks it with eight connections, by an administrator's token, for the users
(`GET /v3/users`): the token is checked, the policy too, MariaDB asked. Each block starts it twice on ports of their own,
beside the bed's, plain and under `contend trace`, and loads one and the other for five seconds each, in random order, as
bench/trace_wsgi.py does, whose figures these are: of the server's own processes, by block, with 95 % intervals. How many
events a request makes is told.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import trace_wsgi
from trace_wsgi import Pair, block, free_port, is_quiet, lines

from contend._native import ctrace_summary
from contend.clouds.access import find
from contend.environment import fingerprint
from contend.testbed.openstack import daemons, shape
from contend.testbed.openstack.__main__ import default_root
from contend.testbed.openstack.bed import Bed

PATH = "/v3/users"
SECONDS = 5


def token(bed: Bed) -> str:
    os.environ["OS_CLIENT_CONFIG_FILE"], os.environ["OS_CLOUD"] = str(bed.clouds_yaml), "contend-testbed"
    return str(find("").region.get_session().get_token())


@contextmanager
def running(bed: Bed, port: int, trace: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """Keystone as the bed has it, but for its port; ended by its own signal."""
    service = shape._api(bed, "keystone")
    command = [*service.command, "-b", f"127.0.0.1:{port}", "-w", "1"]
    environ = {**daemons.base_environment(bed), **service.environment}
    if trace is not None:
        own = [sys.executable, "-P", "-m", "contend"]
        command = [*own, "trace", "-o", str(trace), "--", *command]
        environ["PYTHONPATH"] = ""
    process = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
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


def measure(bed: Bed, blocks: int, pairs: int, place: Path) -> tuple[list[list[Pair]], float]:
    """By block, and events a request."""
    headers = {"X-Auth-Token": token(bed)}
    script = place / "ask.lua"
    told = json.dumps(headers["X-Auth-Token"])
    script.write_text(
        f'wrk.headers["X-Auth-Token"] = {told}\nrequest = function() return wrk.format("GET", "{PATH}") end\n'
    )
    found, events = [], []
    for number in range(blocks):
        trace = place / f"trace-{number}"
        ports = free_port(), free_port()
        with running(bed, ports[0], None) as plain, running(bed, ports[1], trace) as traced:
            arms = {"plain": (ports[0], plain), "traced": (ports[1], traced)}
            for port, process in arms.values():
                wait_until_it_answers(port, process, headers)
            found.append(block(arms, pairs, script, SECONDS, bed.processes()))
        summary = ctrace_summary([str(file) for file in trace.iterdir()])
        counts = dict(
            zip(summary["spans"]["name"], np.frombuffer(summary["spans"]["count"], "<u8"), strict=True)
        )
        events.append(float(np.frombuffer(summary["files"]["events"], "<u8").sum() / counts[f"GET {PATH}"]))
        shutil.rmtree(trace)
    return found, statistics.median(events)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bed", type=Path, default=default_root(), help="the test bed's --root")
    parser.add_argument("--blocks", type=int, default=14)
    parser.add_argument("--pairs", type=int, default=1, help="of a block; odd")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("error: wrk is not installed\n  hint: scripts/packages.sh bench")
    bed = Bed.load(given.bed)
    if bed is None:
        sys.exit(f"error: there is no test bed in {given.bed}\n  hint: testbed/openstack/openstack up")
    with tempfile.TemporaryDirectory() as name:
        found, events = measure(bed, given.blocks, given.pairs, Path(name))
    disturbed = sum(not is_quiet(pair) for each in found for pair in each)
    machine = {k: v for k, v in fingerprint([]).items() if k in ("cpu", "cpus", "kernel", "os", "contend")}
    text = [
        "# What `contend trace` costs keystone",
        "",
        f"{machine['cpus']} CPUs {machine['cpu']}, kernel {machine['kernel']}; `GET {PATH}` by wrk with"
        f" {trace_wsgi.CONNECTIONS} connections, gunicorn with one worker; {given.blocks} blocks of {given.pairs} pairs"
        f" of {SECONDS} s; by `bench/trace_service.py`. A request makes {events:.0f} events.",
        "",
        "| | plain | traced | ratio, 95 % interval |",
        "|---|---:|---:|---:|",
        *lines(found),
        "",
        f"{disturbed} of {len(found) * given.pairs} pairs were disturbed by other programs.",
        "",
    ]
    print(*text, sep="\n")
    if given.write:
        told = [[{arm: asdict(burst) for arm, burst in pair.items()} for pair in each] for each in found]
        document = {
            "machine": machine,
            "blocks": given.blocks,
            "pairs": given.pairs,
            "events": events,
            "results": told,
        }
        given.write.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        given.write.with_suffix(".md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
