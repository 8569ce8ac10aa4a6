"""What the campaign of faults writes into docs/results: each trial as it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contend.workloads.generators.failing_broker import faults
from results import files, record

NAME = "rpc-failures"
COUNTS = ("answered", "late", "lost", "failed", "duplicated", "done_unheard")


def keep(told: Mapping[str, Any], nodes: int, seed: int, place: Path = files.RESULTS) -> dict[str, Any]:
    """Add a trial to the data and make the page anew. Trials of another commit go; the same one is replaced.

    told: the trial's document.
    """
    row = {
        "library": told["library"],
        "fault": told["fault"]["kind"],
        "nodes": nodes,
        "seed": seed,
        "sent": told["sent"],
        **{name: told[name]["count"] for name in COUNTS},
        **{name: told[name] for name in ("recovery_s", "fault_s", "reconnects", "last_error")},
    }
    place.mkdir(parents=True, exist_ok=True)
    with (place / f".{NAME}.lock").open("w") as turn:  # two halves of the campaign may run beside each other
        fcntl.flock(turn, fcntl.LOCK_EX)
        kept = files.load(NAME, place) if files.path_of(NAME, place).exists() else {}
        same = kept and kept["made"].get("commit") == record.current().commit
        trials = [one for one in (kept["trials"] if same else []) if _which(one) != _which(row)]
        document = {
            "broker": told["broker"] or None,
            "rate": told["rate"],
            "timeout_s": told["timeout_s"],
            "in_time_s": told["in_time_s"],
            "trials": sorted([*trials, row], key=_which),
        }
        try:
            return files.save(NAME, document, place=place)
        finally:
            Path(turn.name).unlink()


def _which(trial: Mapping[str, Any]) -> tuple[int, int, str, int]:
    return faults.NAMES.index(trial["fault"]), trial["nodes"], trial["library"], trial["seed"]
