"""docs/results/mutants.json, the data of all targets, and docs/results/mutants.md, which is rendered from nothing else."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contend.stats.quantiles import clopper_pearson
from mutation.targets import ROOT

DATA = ROOT / "docs" / "results" / "mutants.json"
PAGE = DATA.with_suffix(".md")
REASONS = Path(__file__).with_name("reasons.toml")
LEVEL = 0.95
TOLD_BY = ("file", "function", "was", "now")


def add(name: str, result: Mapping[str, Any]) -> None:
    """Put a target's result in the place of its former one, with where and when it was made."""
    data = _read()
    data["targets"][name] = {**_circumstances(), **result}
    _write(data)


def write() -> None:
    """Put the reasons and bounds beside what was counted, and render the page."""
    data = _read()
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8")).get("survivor", [])
    for target in data["targets"].values():
        for survivor in target["survivors"]:
            given = next((r for r in reasons if all(r[k] == survivor[k] for k in TOLD_BY)), None)
            survivor.pop("reason", None)
            survivor.pop("equivalent", None)
            if given:
                survivor["reason"] = given["reason"]
                survivor["equivalent"] = given.get("equivalent", False)
        target["scores"] = _scores(target)
    _write(data)
    PAGE.write_text(rendered(data), encoding="utf-8")


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


def rendered(data: Mapping[str, Any]) -> str:
    """The page, of the data alone."""
    targets = data["targets"]
    lines = [
        "# Do the tests notice a fault?",
        "",
        "Small faults are put into the code one at a time (a comparison turned, a number one higher, an argument left out,",
        "a result that is None) and the tests that run the changed line are run. A fault is *noticed* when one fails or",
        "does not end. Faults are drawn at random of all that the tool can make; letters of messages are not among them.",
        "*Equivalent* is a fault that changes nothing anybody could see, with its reason below; both shares are given.",
        "",
        "| code | drawn of | noticed | by time-out | survived | equivalent | share (95 % bounds) | without equivalent |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *(_row(name, target) for name, target in targets.items()),
        "",
        "Bounds are Clopper–Pearson's.",
    ]
    for name, target in targets.items():
        lines += ["", f"## {name}", "", f"{target['what']}.", ""]
        lines += [
            f"- {key}: {value}"
            for key, value in (
                ("command", f"`{target['command']}`"),
                ("tool", target["tool"]),
                ("date", target["date"]),
                ("commit", target["commit"]),
                ("machine", target["machine"]),
                ("load when it ended", target["load_after"]),
                ("seed", target["seed"]),
            )
        ]
        if target["sampled"] < target["wanted"]:
            lines.append(
                f"- stopped: {target['wanted']} were drawn, and the first {target['sampled']} of them tried"
            )
        for left_out in target.get("tests_left_out", []):
            lines.append(f"- not used, for it failed with nothing mutated: {left_out}")
        lines += ["", *_survivors(target["survivors"])]
    return "\n".join(lines) + "\n"


def _row(name: str, target: Mapping[str, Any]) -> str:
    counts, scores = target["outcomes"], target["scores"]
    alike = scores["of_all"]["tried"] - scores["without_equivalent"]["tried"]
    return (
        f"| {name} | {target['sampled']} of {target['mutants']} | {scores['noticed']} | {counts.get('timed out', 0)} "
        f"| {counts.get('survived', 0)} | {alike} | {_share(scores['of_all'])} | {_share(scores['without_equivalent'])} |"
    )


def _share(score: Mapping[str, Any]) -> str:
    low, high = score["bounds"]
    return f"{100 * score['share']:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def _survivors(survivors: Sequence[Mapping[str, Any]]) -> list[str]:
    if not survivors:
        return ["No fault survived."]
    lines = ["| survived at | was | became | why |", "|---|---|---|---|"]
    for one in survivors:
        why = one.get("reason", "")
        if one.get("equivalent"):
            why = f"equivalent: {why}"
        where = f"{one['file'].removeprefix('python/contend/')}:{one['line']} {one['function']}"
        lines.append(f"| {where} | {_code(one['was'])} | {_code(one['now'])} | {why} |")
    return lines


def _code(text: str) -> str:
    short = text if len(text) <= 80 else text[:79] + "…"
    return f"`` {short.replace('|', chr(92) + '|')} ``" if short else "(nothing)"


def _circumstances() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next(
        (line.split(": ", 1)[1] for line in cpuinfo.splitlines() if line.startswith("model name")), ""
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} CPUs {model or platform.machine()}, Linux {platform.release()}, "
        f"Python {platform.python_version()}",
        "load_after": round(os.getloadavg()[0], 1),
    }


def _read() -> dict[str, Any]:
    if not DATA.exists():
        return {"schema_version": 1, "level": LEVEL, "targets": {}}
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data


def _write(data: Mapping[str, Any]) -> None:
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
