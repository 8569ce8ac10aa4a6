"""A platform that costs about 8 %, by a quota of so much less than a CPU: found, and put down to throttling.

The truth is what the burner's own clock says of the same turns. What a quota implies is none: a burner that begins anywhere
in a period escapes up to one throttling, and the kernel gives out a quota in slices.

Needs root, runc, and a quiet machine: where others use the CPU the burner never reaches its quota, and nothing is planted.
About two minutes. Writes docs/results/planted-overhead.json.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from results.files import save
from support.command_line import Home
from support.planted_quota import ITS_OWN_CLOCK, TICK_S, burner, middle, planted, ratios, slowed, told

pytestmark = pytest.mark.accept

SLOWER = 1.08
BLOCKS = 40


def test_eight_percent_is_found_and_put_down_to_throttling(tmp_path: Path) -> None:
    contend = Home(tmp_path)
    contend.workload("itself-timed", ITS_OWN_CLOCK)

    def prefer() -> None:
        # Beside other work the burner has less than its quota, which then holds nobody back.
        os.nice(-15)

    with slowed(contend, SLOWER) as seen:
        contend(*burner(BLOCKS, app="apps=itself-timed"), timeout=600, preexec_fn=prefer).fine()
    assert seen
    trials = told(contend.the_run())
    assert len(trials) == 2 * BLOCKS
    truth = middle(ratios(trials))
    estimate, findings = planted(contend)
    save(
        "planted-overhead",
        {
            "quota_cpus": 1 / SLOWER,
            "planted": truth,
            "tick_s": TICK_S,
            "least_s": min(one.took_s for one in trials),
            "estimate": estimate,
            "findings": findings,
        },
    )
    print(f"\n{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]; planted {truth:.3f}")
    assert 1.05 < truth < 1.12, "about 8 % were planted"
    # Each of its clocks is right to a tick; the median of forty pairs is right to much less.
    clocks = 2 * TICK_S / min(one.took_s for one in trials) / math.sqrt(BLOCKS)
    assert estimate["verdict"] == "higher"
    assert estimate["low"] * math.exp(-clocks) < truth < estimate["high"] * math.exp(clocks)
    (finding,) = findings
    assert (finding["kind"], finding["resource"]) == ("platform-cost", "throttling")
    contend.nothing_left()
