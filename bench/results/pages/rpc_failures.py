"""What failures cost calls, by either driver."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """A row for each trial, and in how many calls came late or were lost."""
    trials = d["trials"]
    harmed = [t for t in trials if t["fault"] != "none"]
    lost = [t for t in trials if t["lost"]]
    cluster = [t for t in harmed if t["nodes"] > 1]
    rows = [
        [
            *(t[key] for key in ("library", "fault", "nodes", "answered", "late", "lost", "failed", "twice")),
            f"{t['again_s'][0]:.2f} to {t['again_s'][1]:.2f}",
        ]
        for t in trials
    ]
    head = [
        "library", "fault", "nodes", "answered", "late", "lost", "failed", "done twice", "answers flow again after, s",
    ]  # fmt: skip
    late = "; ".join(
        f"{name}'s came late in {sum(t['late'] > 0 for t in of)} of {len(of)} trials,"
        f" {max((t['late'] for t in of), default=0)} at most"
        for name in dict.fromkeys(t["library"] for t in trials)
        if (of := [t for t in cluster if t["library"] == name])
    )
    of_lost = ", ".join(
        f"{t['lost']} of {d['calls']} by {t['library']} ({t['fault']}, nodes: {t['nodes']})" for t in lost
    )
    return f"""\
Each row is one trial of {d["calls"]} calls that came evenly, {d["rate"]} a second; the fault lasted {d["fault_s"]} s (a killed node is
started again then, and takes its time to come up). Late: answered after more than {d["late_s"]} s; lost: not within {d["timeout_s"]} s, by
which oslo.messaging counts from when a message was out, the native driver from when the call was due ([what else
differs](../guides/rpc.md#rpc-failures)).

{table(head, rows, "ll" + "r" * 7)}

Calls were lost in {len(lost)} of {len(harmed)} trials with a fault{": " + of_lost if lost else ""}. Over more than one node, with quorum
queues: {late}. Which node was killed or cut off is drawn, and may be one that neither end was connected to."""
