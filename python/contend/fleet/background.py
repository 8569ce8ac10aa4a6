"""Processes of a fleet that go on by themselves: started in sessions of their own, waited for until they are ready."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from contend.errors import HostFailed


def start(module: str, folder: Path, ready: str, within_s: float, what: str, hint: str) -> None:
    """Start `python -m MODULE FOLDER`, and return when it has made the file `ready` there. What it says goes to a log beside
    that, of the same name.

    what: it did not do, for a message, like "the worker did not start". Raises HostFailed, with nothing left of it.
    """
    log = (folder / ready).with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + within_s
    while not (folder / ready).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise HostFailed(f"{what}: {lines[-1] if lines else 'it said nothing'}", hint=hint)
        time.sleep(0.05)
