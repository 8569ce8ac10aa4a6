"""A process that runs already, followed."""

from __future__ import annotations

import subprocess
import sys

from contend.probes.observed import Observed
from contend.workloads.generators.follow import follow


def test_what_the_hypervisor_took_is_bounded_for_it_alone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        seen = {name: value for name, (value, _) in follow((process.pid,), 0.2).items()}
    finally:
        process.kill()
        process.wait()
    assert seen[Observed.CPU] > 0
    assert 0 <= seen[Observed.STOLEN_LEAST] <= seen[Observed.STOLEN_MOST] <= seen[Observed.STEAL]
