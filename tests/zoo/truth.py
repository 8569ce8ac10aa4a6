"""The truth of an edit: the edited program beside the unedited one, in randomised turns and without the tracer."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from contend.stats.quantiles import t_quantile
from contend.stats.rank_sum import estimate

HALF_WIDTH = 0.033
"""How far the 95 % interval may reach from the ratio, as a part of it: a third of the error that a prediction may have."""
LEVEL = 0.95
DRIFT = 0.05
"""How much longer or shorter the unedited program may take than when it was traced: else the host is another one since."""
_SURE = 0.99
_PAIRS_A_PROCESS = 4
_LEAST, _MOST = 8, 48
_MOST_S = 150.0
_TRIM = 0.2
_TIMEOUT_S = 120.0


class ProgramFailed(Exception):
    """The program did not do a storm as it should."""


@dataclass(frozen=True, slots=True)
class Storm:
    """One storm as the program told it. Times in ns."""

    edit: str
    jobs: tuple[int, ...]
    makespan: int
    lost: Mapping[str, int]

    @property
    def median(self) -> float:
        """Median of the jobs' times."""
        return statistics.median(self.jobs)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Edited over unedited, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """True if the interval is as narrow as a truth must be."""
        return self.high / self.value - 1 <= HALF_WIDTH and 1 - self.low / self.value <= HALF_WIDTH


@dataclass(frozen=True, slots=True)
class Truth:
    """The measured effect of one edit. decided: both intervals are narrow enough. drift: as the function says."""

    median: Ratio
    makespan: Ratio
    pairs: int
    decided: bool
    drift: float = 0.0

    @property
    def has_moved(self) -> bool:
        """True if the host is another one since the program was traced: what was predicted is not what was measured."""
        return abs(self.drift) > DRIFT


@dataclass(frozen=True, slots=True)
class Plain:
    """Storms without an edit, in ns: medians over the storms. lost: share of the jobs' time, by what is planted."""

    median: float
    makespan: float
    lost: Mapping[str, float]


def storms(program: Path, turns: Sequence[str]) -> list[Storm]:
    """Run the program once, a storm a turn. Raises ProgramFailed."""
    command = [sys.executable, str(program), "--turns", ",".join(turns)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=program.parent
        )
    except subprocess.TimeoutExpired as late:
        raise ProgramFailed(f"{program}: not done in {_TIMEOUT_S:.0f} s with {turns}") from late
    seen = read(ended.stdout)
    if ended.returncode or [storm.edit for storm in seen] != list(turns):
        raise ProgramFailed(
            f"{program}: exit code {ended.returncode}: {ended.stderr[-600:] or '(no output)'}"
        )
    return seen


def read(output: str) -> list[Storm]:
    """The storms in what a program printed."""
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [Storm(row["edit"], tuple(row["jobs_ns"]), row["makespan_ns"], row["lost_ns"]) for row in rows]


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Edited over unedited from pairs of both: mean of their logarithms without the outer fifths, with Yuen's interval.

    Trimmed, since a storm that the host disturbed says nothing of the edit. Yuen 1974: the variance is that of the values
    with the outer ones moved in, over the number that is left.

    >>> round(ratio([(50.0, 100.0)] * 8).value, 3)
    0.5
    """
    logs = sorted(math.log(edited / unedited) for edited, unedited in pairs)
    cut = int(_TRIM * len(logs))
    kept = logs[cut : len(logs) - cut]
    moved = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = statistics.fmean(kept)
    spread = math.sqrt(statistics.variance(moved) * (len(logs) - 1) / (len(kept) * (len(kept) - 1)))
    reach = t_quantile(0.5 + LEVEL / 2, len(kept) - 1) * spread
    return Ratio(math.exp(centre), math.exp(centre - reach), math.exp(centre + reach))


def drift(before: Sequence[Storm], beside: Sequence[Storm]) -> float:
    """How much longer unedited storms took beside edited ones than before them, as a part of it: of the median and the
    makespan what differs more; 0 where it may be chance, or none were done before.

    >>> quick, slow = (Storm("plain", (ms, ms), ms, {}) for ms in (100, 120))
    >>> round(drift([quick] * 6, [slow] * 8), 2), drift([quick] * 6, [quick] * 8), drift([], [slow] * 8)
    (0.2, 0.0, 0.0)
    """
    shifts = [0.0]
    for key in ("median", "makespan"):
        was, now = (np.log([float(getattr(storm, key)) for storm in of]) for of in (before, beside))
        if not len(was):
            continue
        shift, low, high = estimate(was, now, _SURE)
        if low > 0 or high < 0:
            shifts.append(math.expm1(shift))
    return max(shifts, key=abs)


def measure(
    program: Path,
    switch: str,
    rng: Random,
    run: Callable[[Path, Sequence[str]], Sequence[Storm]] = storms,
    most: int = _MOST,
    now: Callable[[], float] = time.monotonic,
    before: Sequence[Storm] = (),
) -> Truth:
    """Measure an edit until both ratios are known well enough, or so many pairs were made, or it has taken too long.

    `before`: storms without the edit from when the program was traced. Raises ProgramFailed.

    Each process does one plain storm that does not count, then pairs of a plain and an edited one in random order.
    """
    median: list[tuple[float, float]] = []
    makespan: list[tuple[float, float]] = []
    beside: list[Storm] = []
    begin = now()
    while True:
        order = [rng.sample(["plain", switch], 2) for _ in range(_PAIRS_A_PROCESS)]
        seen = run(program, ["plain", *(turn for pair in order for turn in pair)])[1:]
        for first, second in zip(seen[::2], seen[1::2], strict=True):
            edited, unedited = (second, first) if first.edit == "plain" else (first, second)
            median.append((edited.median, unedited.median))
            makespan.append((edited.makespan, unedited.makespan))
            beside.append(unedited)
        if len(median) < _LEAST:
            continue
        jobs, whole = ratio(median), ratio(makespan)
        decided = jobs.decided and whole.decided
        if decided or len(median) >= most or now() - begin > _MOST_S:
            return Truth(jobs, whole, len(median), decided, drift(before, beside))


def plain(of: Sequence[Storm]) -> Plain:
    """Sum up storms without an edit."""
    whole = sum(sum(storm.jobs) for storm in of)
    names = sorted({name for storm in of for name in storm.lost})
    lost = {name: round(sum(storm.lost.get(name, 0) for storm in of) / whole, 4) for name in names}
    middle = statistics.median(storm.median for storm in of)
    return Plain(middle, statistics.median(storm.makespan for storm in of), lost)
