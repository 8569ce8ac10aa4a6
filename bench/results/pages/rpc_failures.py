"""What failures cost calls, by either driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from results.files import Data
from results.words import bounds, clopper_pearson, table

NAMES = {"oslo": "oslo.messaging", "native": "native"}
COUNTS = ("sent", "answered", "late", "lost", "failed", "duplicated", "done_unheard")


def body(d: Data) -> str:
    """A row for each trial, and what was lost in all trials of a kind."""
    limit_s = d["timeout_s"]
    only = "\n".join(f"- When the only broker node died, {NAMES[of]} lost {lost(d, of)}." for of in NAMES)
    head = ["library", "fault", "nodes", "calls", "answered", "late", "lost", "failed", "done twice"]
    head += ["done, unheard", "answers flow again after, s"]
    rows = [
        [NAMES[t["library"]], t["fault"], t["nodes"], *(t[name] for name in COUNTS), again(t["recovery_s"])]
        for t in d["trials"]
    ]
    kinds = [
        [NAMES[library], fault, nodes, len(of), sum(t["lost"] > 0 for t in of), f"{count} of {sent}",
         bounds(*clopper_pearson(count, sent), 2)]
        for (fault, nodes, library), of in by_kind(d).items()
        for count, sent in [(sum(t["lost"] for t in of), sum(t["sent"] for t in of))]
    ]  # fmt: skip
    of_kinds = [
        "library",
        "fault",
        "nodes",
        "trials",
        "of these with a loss",
        "lost of all calls",
        "95 % bounds",
    ]
    return f"""\
{only}

A call is lost if nobody answers it within {limit_s:.0f} s after the broker confirmed it, or at all before the trial ends,
{limit_s + 5:.0f} s after its load. Both libraries count so.

Calls come evenly, {d["rate"]:.0f} a second. A fault lasts 5 s, and then as long as undoing it takes: a killed node has to come up,
and a busy host lets rabbitmqctl wait (`fault_s` in the data). Late: answered after more than {d["in_time_s"]:.0f} s. Each row is one
trial.

{table(head, rows, "ll" + "r" * 9)}

Lost calls of all trials of a kind. Calls are lost together, so the bounds, Clopper–Pearson's for independent calls, are too
narrow: count trials.

{table(of_kinds, kinds, "ll" + "r" * 5)}

oslo.messaging loses calls in two ways. Its calls are not mandatory: one that its driver publishes before the service listens
again is confirmed by the broker, and dropped; how many depends on which end connects first. And the longer the outage, the
later it tries again to listen for replies: calls time out that were done (unheard). The native driver's calls come back and
are published again, and it tries every 0.1 s ([what else differs](../guides/rpc.md#rpc-failures))."""


def by_kind(d: Data) -> dict[tuple[str, int, str], list[Mapping[str, Any]]]:
    """The trials of each fault, number of nodes and library."""
    found: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for trial in d["trials"]:
        found.setdefault((trial["fault"], trial["nodes"], trial["library"]), []).append(trial)
    return found


def lost(d: Data, library: str) -> str:
    """Where the only node was killed."""
    of = by_kind(d).get(("kill", 1, library), [])
    return (
        f"{sum(t['lost'] for t in of)} of {sum(t['sent'] for t in of)} calls, in"
        f" {sum(t['lost'] > 0 for t in of)} of {len(of)} trials"
    )


def again(recovery: Mapping[str, Any]) -> str:
    """When answers flowed again."""
    low, high = recovery["low"], recovery["high"]
    return f"{low:.2f} to {high:.2f}" if recovery["recovered"] else f"never; more than {low:.2f}"
