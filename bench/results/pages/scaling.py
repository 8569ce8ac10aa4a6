"""How storms of real threads grow, and what the laws said of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from results.files import Data
from results.words import table

WHAT = ("median", "p90", "makespan")


def body(d: Data) -> str:
    """The batch law, replay and blame, against what was measured."""
    every = [r for row in d["rows"] for r in row["law"]]
    blame = [r for row in d["rows"] for r in row["blame"]]
    sizes = [int(n) for n in d["large"]]

    def worst(jobs: int, what: str) -> str:
        errors = [100 * r["error"] for r in every if r["jobs"] == jobs and r["what"] == what]
        return f"{statistics.median(errors):+.1f} % ({min(errors):+.1f} to {max(errors):+.1f})"

    def summed(key: str, of: Iterable[Data] = blame) -> float:
        return sum(float(r[key]) for r in of)

    small, large = ", ".join(map(str, d["small"])), ", ".join(f"{k} of {n}" for n, k in d["large"].items())
    law = table(
        ["", *(f"N = {n}" for n in sizes)], [[what, *(worst(n, what) for n in sizes)] for what in WHAT]
    )
    storms = table(
        [
            "storm", f"demand of {', '.join(d['rows'][0]['demand_ms'])}, ms", *(f"{what} at {n}" for what in ("median", "makespan")
            for n in sizes), f"USL, makespan at {sizes[-1]}", "closed network",
        ],
        [_row(row, sizes) for row in d["rows"]], "llrrrrrr",
    )  # fmt: skip
    replays = table(
        ["storm", "gate", f"median at {sizes[0]}", f"makespan at {sizes[0]}", "call, ms (measured)", "item, ms (measured)"],
        [_replayed(row) for row in d["rows"]], "llrrrr",
    )  # fmt: skip
    return f"""\
Storms of `tests/support/toy_storm.py`: N Python threads that begin together, two locks (one held across calls), a pool of
workers, everything a sleep drawn by a seed; timed by their own clocks. For each of the kinds below {d["each"]} storms each of
N = {small} ({d["traces"]} of 16) are what the laws are fitted to; {large} are what they are compared with.

## The batch law, fitted to N ≤ {d["small"][-1]}: error over all kinds, median (least to most)

{law}

Inside the 95 % prediction interval of one storm: {sum(r["inside"] for r in every)} of {sum(r["storms"] for r in every)} values.

{storms}

The last two are what laws of sustained concurrency would say, fitted to N ≤ {d["small"][-1]}; contend refuses them for storms.

## Replay, and the cost of a call

`contend whatif --jobs {sizes[0]}` of {d["traces"]} traces of N = 16, against the mean of the storms of {sizes[0]}; and the cost of a
call and of each item in it, as the replay learns it from a trace of N = 32, against the workers' own clocks.

{replays}

## Blame

In {len(blame)} times a lock in a trace of 16, 32 or 128 jobs, {summed("waits"):,.0f} waits: the rows of blame are at most
{100 * max(abs(r["recorded"]) for r in blame):.4f} % from the waits on record; {100 * summed("handed_over_ns") / summed("blamed_ns"):.2f} %
of the time passed while a lock was on its way to the next. By the threads' own clocks a wait ends when the holder before lets
go at the earliest, and at the latest when the thread has the interpreter's lock too and goes on: the sum of all rows is
{100 * (summed("blamed_ns") / summed("least_ns") - 1):+.2f} % from the one and
{100 * (summed("blamed_ns") / summed("measured_ns") - 1):+.2f} % from the other."""


def _row(row: Data, sizes: list[int]) -> list[object]:
    asked = ", ".join(f"{ms:.1f}" for ms in row["demand_ms"].values())
    by_key = {(r["what"], r["jobs"]): r["error"] for r in row["law"]}
    errors = [by_key[what, n] for what in ("median", "makespan") for n in sizes]
    errors += [row["closed_systems"][name] for name in ("usl", "closed")]
    return [row["storm"], asked, *("refused" if e is None else f"{100 * e:+.1f} %" for e in errors)]


def _replayed(row: Data) -> list[object]:
    replay, calls = row["replay"], row["calls"]
    return [
        row["storm"],
        "passed" if replay["passed"] else f"refused: {replay['reason']}",
        *(f"{100 * replay['errors'][what]:+.1f} %" for what in ("median", "makespan")),
        *(f"{calls[w] / 1e6:.3f} ({calls[f'measured_{w}'] / 1e6:.3f})" for w in ("fixed_ns", "item_ns")),
    ]
