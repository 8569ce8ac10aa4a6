"""Estimators on experiments whose true answer is known."""

from __future__ import annotations

from itertools import groupby

from results.files import Data
from results.words import bounds, pct, table

HEAD = ["noise", "n", "held", "share", "95 % bounds", "mean width", ""]


def body(d: Data) -> str:
    """A table for each kind of experiment."""
    parts = [
        """\
Experiments whose true answer is known, made up by the five noise generators of `bench/known/noise.py`, and how often the
intervals of `contend.stats` held it. *Held* counts experiments whose 95 % interval held the truth (alarms: that claimed a
difference that is not there; power: that found the injected 5 %); the bounds are Clopper–Pearson's. Widths are of the interval
on the log scale. What it means: [method](../concepts/method.md), and for PTO, PSO, effects and curves [platform
size](../concepts/platform-size.md): a host of 16 CPUs with five sizes, PTO 1.10, PSO 1.82 at one CPU unless a curve says
otherwise; the curve's interval is asked for 3 CPUs, which were not measured. Cost × share: a cost that becomes 5 % dearer by
blocks of one run, and 5 % of a whole by storms of another, which differ by 5 %."""
    ]
    for name, rows in groupby(d["results"], key=lambda r: str(r["table"])):
        parts += [f"## {name[0].upper()}{name[1:]}", table(HEAD, map(_row, rows), "lrrrrrl")]
    return "\n\n".join(parts)


def block_order(d: Data, n: int) -> str:
    """How often block order held the truth with so many runs an arm, by the noise that harms it least and most."""
    of = [
        r["share"]
        for r in d["results"]
        if r["table"] == "Welch on block order" and r["n"] == n and r["noise"] != "iid"
    ]
    return f"{100 * min(of):.0f}–{100 * max(of):.0f} %"


def _row(r: Data) -> list[object]:
    width = "" if r["width"] is None else pct(r["width"], 1)
    held = f"{r['count']} / {r['experiments']}"
    return [r["noise"], r["n"], held, pct(r["share"], 1), bounds(r["low"], r["high"]), width, r["extra"]]
