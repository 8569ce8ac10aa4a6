"""Culprits planted among many cgroups."""

from __future__ import annotations

from results.files import Data
from results.words import bounds, pct, table


def body(d: Data) -> str:
    """What was right, and each that was not."""
    wrong = [each for each in d["each"] if not each["right"]]
    text = f"""\
Twenty cgroups, one worker each. In every draw two of them, chosen at random, share a CPU, also chosen: a victim that wants
10–90 % of it and a culprit that wants 30–100 %. Two others burn 80–100 % of another CPU, more than the culprit; the other 16 are
idle or want 0.2–2 % of any. `contend watch` looks for 1.6 s and ranks whom the victim waited for. It is right when the culprit
comes first of the twenty.

**{d["right"]} of {d["draws"]}** right (95 % bounds, Clopper–Pearson: {bounds(*d["bounds_95"])}).

Other programs on the host, in no such group, ran as well: of the victims' waits for neighbours they had
{pct(d["strangers_median"])} in the median draw. They are not among the twenty and were not ranked."""
    if wrong:
        rows = [
            [pct(w["victim_duty"]), pct(w["culprit_duty"]), w["named"], pct(w["share"]), pct(w["strangers"])]
            for w in wrong
        ]
        text += "\n\n" + table(
            ["victim wants", "culprit wants", "named", "its part", "strangers' part"], rows, "rrlrr"
        )
    return text
