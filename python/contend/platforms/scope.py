"""A systemd user scope: how an unprivileged user gets a delegated cgroup on most distributions.

systemd-run --scope can only start something new in a scope, and a process may be moved only by someone who
may write to the common ancestor of both groups. So the tool asks its user manager (over D-Bus, as container
runtimes do) to put the tool itself into a delegated scope, and makes its groups below that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from contend import names
from contend.platforms import procfs
from contend.store.ledger import Ledger


def unit(run_id: str) -> str:
    """Name of a run's scope. The pid separates two processes of one run (a resumed one).

    >>> unit("r1").startswith("contend-r1-")
    True
    """
    return f"{names.PREFIX}-{run_id}-{os.getpid()}.scope"


def available() -> bool:
    """True if a systemd user manager answers."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    bus = os.environ.get("DBUS_SESSION_BUS_ADDRESS") or (runtime and (Path(runtime) / "bus").exists())
    return bool(bus) and shutil.which("busctl") is not None and Path("/run/systemd/system").is_dir()


def enter(run_id: str, ledger: Ledger, timeout_s: float = 5.0) -> bool:
    """Move this process into a delegated scope of its own. False where there is no user manager to do it."""
    if not available():
        return False
    name = unit(run_id)
    if name in own_group():
        return True
    ledger.intend("scope", name, run=run_id)
    answer = subprocess.run(
        [
            *("busctl", "--user", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
            *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail"),
            *("2", "PIDs", "au", "1", str(os.getpid()), "Delegate", "b", "true", "0"),
        ],
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    deadline = time.monotonic() + timeout_s
    # The call returns when the job is queued; the move has happened when /proc says so.
    while answer.returncode == 0 and time.monotonic() < deadline:
        if name in own_group():
            ledger.created("scope", name, run=run_id)
            return True
        time.sleep(0.02)
    ledger.removed("scope", name)
    return False


def own_group() -> str:
    return procfs.read_text(Path("/proc/self/cgroup"))


def remove(name: str) -> bool:
    """Stop a scope that a dead tool left. False when it is not there."""
    if not (name.startswith(f"{names.PREFIX}-") and name.endswith(".scope") and available()):
        return False
    if name in own_group():  # this very process lives in it; systemd removes it when it is empty
        return False
    done = subprocess.run(
        ["systemctl", "--user", "stop", name], capture_output=True, timeout=15.0, check=False
    )
    return done.returncode == 0
