"""What was counted of a target, with the reasons why faults survive: docs/results/mutants-TARGET.json."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contend.stats.quantiles import clopper_pearson
from results import files

REASONS = Path(__file__).with_name("reasons.toml")
LEVEL = 0.95
TOLD_BY = ("file", "function", "was", "now")


def save(name: str, result: Mapping[str, Any]) -> None:
    """Write a target's result, and the page of all targets. Within results.record.recording()."""
    told = {key: value for key, value in result.items() if key not in ("seed", "command")}
    files.save(f"mutants-{name}", explained(told), seed=result["seed"])


def explain(name: str) -> None:
    """Put the reasons of today beside what was counted before."""
    document = files.load(f"mutants-{name}")
    files.store(f"mutants-{name}", explained(document))


def explained(result: Mapping[str, Any]) -> dict[str, Any]:
    """With reasons and bounds."""
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8")).get("survivor", [])
    survivors = []
    for survivor in result["survivors"]:
        one = {key: value for key, value in survivor.items() if key not in ("reason", "equivalent")}
        given = next((r for r in reasons if all(r[k] == one[k] for k in TOLD_BY)), None)
        if given:
            one |= {"reason": given["reason"], "equivalent": given.get("equivalent", False)}
        survivors.append(one)
    made = {**result, "survivors": survivors}
    return made | {"scores": _scores(made)}


def _scores(target: Mapping[str, Any]) -> dict[str, Any]:
    """Of all that were tried, and of those that change what the code does."""
    tried = sum(target["outcomes"].values())
    noticed = tried - target["outcomes"].get("survived", 0)
    equivalent = sum(1 for survivor in target["survivors"] if survivor.get("equivalent"))
    return {
        "noticed": noticed,
        "of_all": {
            "tried": tried,
            "share": noticed / tried,
            "bounds": clopper_pearson(noticed, tried, LEVEL),
        },
        "without_equivalent": {
            "tried": tried - equivalent,
            "share": noticed / (tried - equivalent),
            "bounds": clopper_pearson(noticed, tried - equivalent, LEVEL),
        },
    }
