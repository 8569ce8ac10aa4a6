"""What a test bed has started is reaped once it has ended, whoever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from contend.platforms import procfs
from contend.testbed import children


def test_the_dead_are_reaped_and_the_living_go_on() -> None:
    dead, living = (children.keep(subprocess.Popen(["sleep", "60"])) for _ in range(2))
    try:
        os.kill(dead.pid, signal.SIGKILL)
        while (found := procfs.stat(dead.pid)) is not None and found.state != "Z":
            time.sleep(0.001)
        children.reap()
        assert procfs.stat(dead.pid) is None
        assert dead.returncode == -signal.SIGKILL
        assert living.returncode is None
        assert procfs.stat(living.pid) is not None
    finally:
        living.kill()
        living.wait()
        children.reap()
