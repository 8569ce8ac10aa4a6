"""Brings CPUs back at once when the run that took them offline has died: `python -m contend.platforms.hotplug_guard RUN`.

It waits for the end of its standard input, which the run holds open and the kernel closes whatever the run dies of. Then it
does what `contend destroy` would do about CPUs, by the ledger in the directory RUN, and ends. A run that has brought its
CPUs back by itself has nothing of the kind in its ledger.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from contend.ledger import leftovers
from contend.platforms import hotplug


def start(directory: Path) -> subprocess.Popen[bytes]:
    """The process, in a session of its own, so that no signal to the run's meets it. Closing its stdin ends it."""
    return subprocess.Popen(
        (sys.executable, "-P", "-m", __name__, str(directory)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def main(directory: Path) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for row in leftovers(directory / "ledger.ndjson"):
        if row["kind"] == hotplug.KIND:
            hotplug.remove(str(row["name"]), row, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
