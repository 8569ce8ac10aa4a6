"""Runs of any study, kept: what they say, and the whole analysis. What their intervals are worth is theirs to say.

    python bench/kept_run.py rpc-envelope -- rpc-envelope --budget 8m
    python bench/kept_run.py local-storms -- SCENARIO … -- SCENARIO …

The name is that of a recipe in bench/results/recipes.yaml, whose page shows the report as the terminal does.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.files import RESULTS, save
from results.recipes import recipes
from results.record import recording

CONTEND = Path(sys.prefix) / "bin/contend"
KEPT = (
    "answer",
    "findings",
    "controls",
    "cells",
    "comparisons",
    "overhead",
    "placement",
    "sensitivity",
    "sweep",
)


def main() -> int:
    """The exit code of the last run; what it measured is kept where that is 0, or 3 (fewer blocks than wanted)."""
    own, *asked = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="of the recipe")
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="DIR")
    given = parser.parse_args(own)
    if given.name not in recipes():
        parser.error(f"no recipe '{given.name}'; there are {', '.join(recipes())}")
    if not asked:
        parser.error("say what to run, after --")
    with recording("; ".join(shlex.join(["contend", "run", *words]) for words in asked)):
        found = [kept(words) for words in asked]
        code = max(one["exit"] for one in found)
        if all("shown" in one for one in found):
            several = {key: [one[key] for one in found] for key in ("shown", "analysis")} | {"exit": code}
            save(given.name, found[0] if len(found) == 1 else several, place=given.to)
    return int(code)


def kept(words: list[str]) -> dict[str, Any]:
    """One run: its exit code, and where it has an answer its report and analysis."""
    with tempfile.TemporaryDirectory(prefix="contend-kept-") as place:
        said = subprocess.run(
            [CONTEND, "run", *words, "--runs", place, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if said.returncode not in (0, 3):
            return {"exit": said.returncode}
        analysis: dict[str, Any] = json.loads(said.stdout)["data"]
        (run,) = (directory for directory in Path(place).iterdir() if directory.is_dir())
        shown = subprocess.run(
            [CONTEND, "report", run, "--verbose"],
            env=os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}, capture_output=True, text=True, check=True,
        ).stdout.replace(place, "…").replace(f"{sys.prefix}/bin/", "")  # fmt: skip
    print(shown)
    text = "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())
    return {
        "exit": said.returncode,
        "shown": text,
        "analysis": {key: analysis[key] for key in KEPT if key in analysis},
    }


def _split(words: list[str]) -> list[list[str]]:
    """At each `--`.

    >>> _split(["a", "--", "b", "c", "--", "d"])
    [['a'], ['b', 'c'], ['d']]
    """
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


if __name__ == "__main__":
    sys.exit(main())
