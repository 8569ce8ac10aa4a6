"""What the campaign of faults writes into docs/results: each trial as it ends, and the page made of them."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.environment import fingerprint
from contend.stats.quantiles import clopper_pearson
from contend.testbed.rpc import faults
from results.files import RESULTS
from results.record import commit

COMMAND = (
    "pytest -m accept --override-ini addopts=--strict-markers tests/accept/test_rpc_failures_campaign.py"
)
COUNTS = ("answered", "late", "lost", "failed", "duplicated", "done_unheard")
NAMES = {"oslo": "oslo.messaging", "native": "native"}


def keep(
    told: Mapping[str, Any], nodes: int, seed: int, load: Sequence[float], results: Path = RESULTS
) -> None:
    """Add a trial to rpc-failures.json, and make its page anew. Trials of another commit go; the same one is replaced.

    told: the trial's document. load: the host's 1-minute load average before it and after.
    """
    with (results / "rpc-failures.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        kept = json.loads(text) if text else {}
        trials = kept["trials"] if kept.get("commit") == commit() else []
        row = {
            "library": told["library"],
            "fault": told["fault"]["kind"],
            "nodes": nodes,
            "seed": seed,
            "sent": told["sent"],
            **{name: told[name]["count"] for name in COUNTS},
            **{name: told[name] for name in ("recovery_s", "fault_s", "reconnects", "last_error")},
            "load": list(load),
        }
        trials = [one for one in trials if _which(one) != _which(row)] + [row]
        document = made(sorted(trials, key=_which), told)
        file.truncate(0)
        file.write(json.dumps(document, indent=1) + "\n")
        file.flush()
        (results / "rpc-failures.md").write_text(page(document), encoding="utf-8")


def _which(trial: Mapping[str, Any]) -> tuple[int, int, str, int]:
    return faults.NAMES.index(trial["fault"]), trial["nodes"], trial["library"], trial["seed"]


def made(trials: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> dict[str, Any]:
    """The document of these trials."""
    loads = [load for trial in trials for load in trial["load"]]
    cpus = len(os.sched_getaffinity(0))
    return {
        "schema_version": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "command": COMMAND,
        "python": sys.version.split()[0],
        "machine": fingerprint(),
        "broker": told["broker"] or None,
        "n": len(trials),
        "load": {"least": min(loads), "most": max(loads)},  # before and after each trial
        "disturbed": max(loads) > cpus,
        "rate": told["rate"],
        "timeout_s": told["timeout_s"],
        "in_time_s": told["in_time_s"],
        "lost": lost(trials),
        "trials": list(trials),
    }


def lost(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per fault, size and library: calls lost in all its trials, with Clopper-Pearson's 95 % bounds of their share."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for trial in trials:
        found.setdefault((trial["fault"], trial["nodes"], trial["library"]), []).append(trial)
    rows = []
    for (fault, nodes, library), own in found.items():
        count, of = sum(one["lost"] for one in own), sum(one["sent"] for one in own)
        low, high = clopper_pearson(count, of, 0.95)
        rows.append(
            {
                "fault": fault,
                "nodes": nodes,
                "library": library,
                "trials": len(own),
                "with_losses": sum(one["lost"] > 0 for one in own),
                "count": count,
                "of": of,
                "low": low,
                "high": high,
            }
        )
    return rows


def page(document: Mapping[str, Any]) -> str:
    """The page of a document."""
    machine, rows = document["machine"], document["lost"]
    one = {row["library"]: row for row in rows if row["fault"] == "kill" and row["nodes"] == 1}
    load, limit_s = document["load"], document["timeout_s"]
    lines = [
        "# What failures cost calls",
        "",
        *(
            f"When the only broker node died, {NAMES[row['library']]} lost {_lost(row)}."
            for row in sorted(one.values(), key=lambda row: row["library"], reverse=True)
        ),
        "",
        f"A call is lost if nobody answers it within {limit_s:.0f} s after the broker confirmed it, or at all before the",
        f"trial ends, {limit_s + 5:.0f} s after its load. Both libraries count so.",
        "",
        f"{document['n']} trials on {document['date']} of commit {document['commit']}: {machine['cpus']} CPUs",
        f"{machine['cpu']}, kernel {machine['kernel']}, load average {load['least']:.1f} to {load['most']:.1f}"
        + (
            ": **disturbed** by other work. Brokers came back\nlate, so times, and how many calls time out, are this host's."
            if document["disturbed"]
            else "."
        ),
        f"Again: `{document['command']}`.",
        "",
        f"Calls come evenly, {document['rate']:.0f} a second. A fault lasts 5 s, and then as long as undoing it takes: a",
        "killed node has to come up, and a busy host lets rabbitmqctl wait (`fault_s` in the data). Late: answered after",
        f"more than {document['in_time_s']:.0f} s. Each row is one trial.",
        "",
        "| library | fault | nodes | calls | answered | late | lost | failed | done twice | done, unheard "
        "| answers flow again after, s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(trial) for trial in document["trials"]),
        "",
        "Lost calls of all trials of a kind. Calls are lost together, so the bounds, Clopper–Pearson's for independent",
        "calls, are too narrow: count trials.",
        "",
        "| library | fault | nodes | trials | of these with a loss | lost of all calls | 95 % bounds |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {NAMES[row['library']]} | {row['fault']} | {row['nodes']} | {row['trials']} | {row['with_losses']} | "
            f"{row['count']} of {row['of']} | {100 * row['low']:.2f} to {100 * row['high']:.2f} % |"
            for row in rows
        ),
        "",
        "oslo.messaging loses calls in two ways. Its calls are not mandatory: one that its driver publishes before the",
        "service listens again is confirmed by the broker, and dropped; how many depends on which end connects first. And",
        "the longer the outage, the later it tries again to listen for replies: calls time out that were done (unheard).",
        "The native driver's calls come back and are published again, and it tries every 0.1 s",
        "([what else differs](../guides/rpc.md#rpc-failures)).",
    ]
    return "\n".join(lines) + "\n"


def _lost(row: Mapping[str, Any]) -> str:
    return f"{row['count']} of {row['of']} calls, in {row['with_losses']} of {row['trials']} trials"


def _row(trial: Mapping[str, Any]) -> str:
    again = trial["recovery_s"]
    when = (
        f"{again['low']:.2f} to {again['high']:.2f}"
        if again["recovered"]
        else f"never; more than {again['low']:.2f}"
    )
    counts = " | ".join(str(trial[name]) for name in COUNTS)
    return f"| {NAMES[trial['library']]} | {trial['fault']} | {trial['nodes']} | {trial['sent']} | {counts} | {when} |"
