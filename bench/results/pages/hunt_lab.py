"""Whether the first finding of a hunt is the planted culprit."""

from __future__ import annotations

from collections import Counter

from results.files import Data
from results.words import bounds, pct, table

CULPRITS = {
    "tracker": "the resource tracker's lock, held across calls",
    "hypervisor": "one lock for many short calls to the hypervisor",
    "hashed": "updates hashed to one worker of several",
    "builders": "too few builders",
    "chatty": "updates that change nothing",
}


def body(d: Data) -> str:
    """By culprit."""
    counted = [told for told in d["rows"] if told["confirmed"]]
    each = Counter(told["culprit"] for told in counted)
    found = Counter(told["culprit"] for told in counted if told["right"])
    busy = max(told["host_cpu_share"] for told in d["rows"])
    rows = [[CULPRITS[name], count, found[name]] for name, count in sorted(each.items())]
    return f"""\
{d["draws"]} boot storms of the [laboratory](../guides/storm-lab.md), sizes and culprit drawn at random, each recorded once by
`contend trace` and read by `contend hunt`. The culprit is known by construction, and confirmed by measurement without the
tracer: of all fixes that change anything, its own shortens the storm most, in {len(counted)} of them; the others do not count.
The host's CPUs were busy for {pct(busy)} of a storm at most.

**{d["right"]} of {len(counted)}** first findings name the culprit (95 % bounds for the share, Clopper–Pearson:
{bounds(*d["bounds_95"])}).

{table(["culprit", "storms", "first finding"], rows, "lrr")}"""
