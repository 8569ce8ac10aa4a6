"""Brings CPUs back when the run that took them offline has died: `python -m contend.platforms.hotplug_guard RUN CPUS`.

It waits for the end of its standard input, which the run holds open and the kernel closes whatever the run dies of. Then it
does what `contend destroy` would do about CPUs, by the ledger of the run in the directory RUN, and ends. A run that has
brought its CPUs back by itself has nothing of the kind in its ledger.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from contend.platforms import hotplug, obedience


def start(directory: Path, cpus: Path) -> subprocess.Popen[bytes]:
    """Start the guard, in a session of its own, so that signals to the run do not reach it. Closing its stdin ends it.

    directory: of the run. cpus: where the kernel has its CPUs.
    """
    return subprocess.Popen(
        (sys.executable, "-P", "-m", __name__, str(directory), str(cpus)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def main(directory: Path, cpus: Path) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    standing = obedience.judge(directory)
    if isinstance(standing, obedience.Obeyed):
        for row in standing.left():
            if row.get("kind") == hotplug.KIND:
                hotplug.remove(str(row["name"]), row, standing.ledger.parent, cpus)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
