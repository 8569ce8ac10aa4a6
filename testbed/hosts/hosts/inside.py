"""Runs in a guest when it is up: the steps of a plan, one after the other, each as its user. What came of each goes out by a
virtio-serial port, a JSON object a line, at once: what ends a guest loses no more than the step that did.

The plan is on the second disk. It needs nothing but Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

PLAN = Path("/dev/vdb")
RESULTS = "/dev/virtio-ports/results"
MOST = 20_000  # characters of an output


def main() -> None:
    """Run the plan, then end the guest."""
    plan = json.loads(PLAN.read_bytes().rstrip(b"\0"))
    with open(RESULTS, "w", buffering=1) as out:  # noqa: PTH123  # a port
        print(json.dumps({"up_s": round(time.clock_gettime(time.CLOCK_BOOTTIME), 1)}), file=out)
        for step in plan["steps"]:
            print(json.dumps(run(step)), file=out)
        print(json.dumps({"done": True}), file=out)
    subprocess.run(["systemctl", "poweroff", "--force", "--force"], check=False)


def run(step: dict[str, Any]) -> dict[str, Any]:
    """One step, to its end or that of its time."""
    command = ["sh", "-c", step["run"]]
    if step["user"] != "root":
        # A login: a session of systemd's, with its own cgroup and bus.
        command = ["runuser", "-l", step["user"], "-c", step["run"]]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": "/opt/contend/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"},
    )
    try:
        out, err = process.communicate(timeout=step["within_s"])
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = None
    took_s = round(time.monotonic() - began, 1)
    return {"step": step["name"], "code": code, "took_s": took_s, "out": out[-MOST:], "err": err[-MOST:]}


if __name__ == "__main__":
    main()
