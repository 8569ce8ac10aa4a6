"""The resident set that BPF reads from the kernel's per-CPU counters, against the kernel's own sum of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from contend.probes.client import ProbeProcess


def test_the_resident_set_of_a_sleeper_is_that_of_proc() -> None:
    code = "import sys, time\nheld = bytearray(9 << 20)\nprint('held', flush=True)\ntime.sleep(60)"
    sleeper = subprocess.Popen((sys.executable, "-S", "-c", code), stdout=subprocess.PIPE)
    try:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"held\n"
        time.sleep(0.1)
        probe = ProbeProcess({"interval_ms": 50, "processes": True, "source": "bpf"})
        table = probe.stop().tables["process_use"]
        pages = int(Path(f"/proc/{sleeper.pid}/statm").read_text().split()[1])
        smaps = Path(f"/proc/{sleeper.pid}/smaps_rollup").read_text().splitlines()
    finally:
        sleeper.kill()
        sleeper.wait()
        assert sleeper.stdout is not None
        sleeper.stdout.close()
    told = int(table["rss_bytes"][table["pid"] == sleeper.pid][-1])
    resident = next(int(line.split()[1]) * 1024 for line in smaps if line.startswith("Rss:"))
    assert told == resident
    assert told >= pages * os.sysconf("SC_PAGESIZE") - (1 << 20)  # inexact itself before 6.16
