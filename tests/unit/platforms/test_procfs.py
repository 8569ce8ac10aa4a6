"""Processes as /proc shows them: names that are no text, and processes that this user may not see."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.prerequisites import need

NOBODY = 65534
OF_ANOTHER = f"""
import os, subprocess, time
from contend.errors import BadInput
from contend.platforms import procfs
from contend.workloads.generators.follow import follow

os.setgroups([])
os.setresgid(*[{NOBODY}] * 3)
os.setresuid(*[{NOBODY}] * 3)

other = os.getppid()
assert other in procfs.all_pids() and procfs.stat(other) is None, "it is hidden, not gone"
assert procfs.cpu_times_ns(other) == (0, 0) and not procfs.wants_cpu(other) and procfs.effective_user(other) is None
assert procfs.name(other) == "" and procfs.executable(other) is None and procfs.environment(other) == []
child = subprocess.Popen(["sleep", "9"])
try:
    # It is hidden from its own user, too, until the kernel has made a program of it.
    until = time.monotonic() + 10
    while procfs.stat(child.pid) is None and time.monotonic() < until: time.sleep(0.01)
    seen = set(one.pid for one in procfs.processes())
    assert seen >= set([os.getpid(), child.pid]) and other not in seen, seen
    assert procfs.descendants(os.getpid()) == set([child.pid])
    assert procfs.ancestors(child.pid) >= set([child.pid, os.getpid()])
finally:
    child.kill()
    child.wait()
try:
    follow((other,), 0.1)
except BadInput as refused:
    print(refused.message)
"""


def test_processes_of_other_users_may_be_hidden() -> None:
    need(os.geteuid() == 0, "root, to mount /proc with hidepid and to be somebody else")
    need(shutil.which("unshare"), "unshare (util-linux)")
    # The mount is in a namespace that ends with the shell.
    line = 'mount -t proc -o hidepid=1 proc /proc && { "$@"; }'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", line, "sh", sys.executable, "-c", OF_ANOTHER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "is another user's, and hidden from this one" in done.stdout
    assert "hidepid=1" not in Path("/proc/mounts").read_text()
