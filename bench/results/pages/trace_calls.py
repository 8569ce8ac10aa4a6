"""What the tracer adds to a call, a lock and a switch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from contend.stats.signed_rank import estimate
from results.files import Data
from results.words import table

# ns on CPython 3.11, and on newer ones.
TARGETS: dict[str, tuple[float, float]] = {
    "function, off": (15, 20),
    "function, on": (30, 30),
    "method, off": (15, 20),
    "method, on": (40, 40),
    "Lock, with, on": (0, 0),
    "Lock, contended, on": (1000, 1000),
    "Lock, contended on one CPU, on": (1000, 1000),
    "greenlet switch, on": (100, 100),
}
HEAD = ["CPython", "case", "plain ns", "traced ns", "added ns [95 %]", "target", "besides (ns)"]
_BESIDE = ("ns", "plain_ns", "added_ns")
_ABOUT = """\
CPU time of the thread that works; *with writer* also that of the thread that writes, to the last byte; *hand over* is wall time
from a release to the next holder's first step, each of the two on a CPU of its own if not said otherwise; *empty callback* is
what greenlet adds for any callback in C: the least that a switch would cost by `greenlet.settrace`."""


def body(d: Data) -> str:
    """The whole table."""
    peers = "; ".join(
        f"{version}: {', '.join(f'{name} {at}' for name, at in sorted(of.items()))}"
        for version, of in d["peers"].items()
    )
    return f"""\
{_ABOUT}

{d["rounds"]} rounds; peers: {peers}. Rows whose interval is wider than what it is about tell nothing: other programs ran beside
them.

{table(HEAD, rows(d), "llrrrll")}"""


def rows(d: Data) -> Iterator[list[object]]:
    """One for each interpreter and case."""
    for version, cases in d["results"].items():
        for case, rounds in cases.items():
            if not rounds:
                continue
            middle = {key: statistics.median(told[key] for told in rounds) for key in rounds[0]}
            more = ", ".join(
                f"{key.removesuffix('_ns').replace('_', ' ')} {value:.1f}{_longer(rounds, key)}"
                for key, value in middle.items()
                if key not in _BESIDE
            )
            value, low, high = added(rounds)
            yield [
                version, case, f"{middle['plain_ns']:.1f}", f"{middle['ns']:.1f}", f"{value:.1f} [{low:.1f}, {high:.1f}]",
                target(case, version), more,
            ]  # fmt: skip


def target(case: str, version: str) -> str:
    """What it is to cost at most."""
    newer = tuple(map(int, version.split(".")[:2])) > (3, 11)
    return f"≤ {TARGETS[case][newer]:g}" if case in TARGETS else ""


def added(rounds: Sequence[Mapping[str, float]], key: str = "added_ns") -> tuple[float, float, float]:
    """Estimate and interval; of few rounds their lowest and highest."""
    values = [told[key] for told in rounds]
    centre, low, high = estimate(np.array(values), 0.95)
    if not np.isfinite([low, high]).all():
        return statistics.median(values), min(values), max(values)
    return centre, low, high


def spread(d: Data, version: str, *cases: str, per: float = 1, digits: int = 0) -> str:
    """From the least that is added to the most, of some cases on one interpreter. per: ns a unit."""
    of = sorted(added(d["results"][version][case])[0] / per for case in cases)
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (of[0], of[-1])))


def besides(d: Data, version: str, case: str, key: str) -> str:
    """Median, ns, as the table has it."""
    return f"{statistics.median(told[key] for told in d['results'][version][case]):.0f}"


def _longer(rounds: Sequence[Mapping[str, float]], key: str) -> str:
    if not key.endswith("_longer_by_ns"):
        return ""
    _, low, high = added(rounds, key)
    return f" [{low:.1f}, {high:.1f}]"
