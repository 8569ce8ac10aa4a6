"""The time left that a fixed plan shows at half-way, against the time it then took."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from support.command_line import Home

BLOCKS = 8
LINE = re.compile(r"block (\d+)\b.*?(?:(\d+) min )?(\d+) s left")


@pytest.mark.accept
def test_at_half_way_the_time_left_is_within_20_percent(contend: Home) -> None:
    arguments = (
        "run",
        "noisy-neighbour",
        "--set",
        f"measure.blocks={BLOCKS}",
        "--set",
        "measure.target=null",
        "--budget",
        "10m",
    )
    with contend.start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: dict[int, tuple[float, float]] = {}
        for line in process.stderr:
            found = LINE.search(line)
            if found:
                left_s = 60 * int(found[2] or 0) + int(found[3])
                said[int(found[1])] = (time.monotonic(), left_s)
        process.wait()
    at, left_s = said[BLOCKS // 2 + 1]  # printed as that block begins: half are done
    took_s = time.monotonic() - at
    print(f"at half-way {left_s:.0f} s were said to be left; it took {took_s:.0f} s")
    assert 0.8 * took_s <= left_s <= 1.2 * took_s
