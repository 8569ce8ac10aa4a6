"""A run of any study, kept: what it said, of which machine and version, and how busy the host was before and after.

Writes docs/results/NAME.json (the whole analysis) and NAME.md (the report as the terminal shows it). What its intervals
are worth is the run's own to say; the load before it began is there so that a reader can tell a quiet host from another.

    python bench/kept_run.py rpc-envelope "What an envelope costs an RPC" -- rpc-envelope --budget 8m
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contend.environment import fingerprint

ROOT = Path(__file__).parent.parent
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
    """The exit code of the run; what it measured is kept where that is 0, or 3 (fewer blocks than wanted)."""
    words = sys.argv[1:]
    own, asked = (
        (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="of the files")
    parser.add_argument("title")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/results", metavar="DIR")
    given = parser.parse_args(own)
    if not asked:
        parser.error("say what to run, after --")
    with tempfile.TemporaryDirectory(prefix="contend-kept-") as place:
        before = os.getloadavg()[0]
        said = subprocess.run(
            [CONTEND, "run", *asked, "--runs", place, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        after = os.getloadavg()[0]
        if said.returncode not in (0, 3):
            return said.returncode
        analysis: dict[str, Any] = json.loads(said.stdout)
        (run,) = (directory for directory in Path(place).iterdir() if directory.is_dir())
        shown = subprocess.run(
            [CONTEND, "report", run, "--verbose"],
            env=os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}, capture_output=True, text=True, check=True,
        ).stdout.replace(place, "…").replace(f"{sys.prefix}/bin/", "")  # fmt: skip
    about = {
        "schema_version": 1,
        "what": f"contend run {' '.join(asked)}",
        "commit": commit(),
        "environment": fingerprint(),
        "load_before": before,
        "load_after": after,
        "exit": said.returncode,
    }
    kept = {key: analysis[key] for key in KEPT if key in analysis}
    given.to.mkdir(parents=True, exist_ok=True)
    file = given.to / given.name
    file.with_suffix(".json").write_text(
        json.dumps(about | {"analysis": kept}, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    file.with_suffix(".md").write_text(page(given.title, about, shown), encoding="utf-8")
    print(shown)
    return said.returncode


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def page(title: str, about: dict[str, Any], shown: str) -> str:
    """What docs/results shows."""
    host = about["environment"]
    text = "\n".join(line.rstrip() for line in shown.strip().splitlines())
    return (
        f"# {title}\n\n{host['cpus']} CPUs {host['cpu']}, kernel {host['kernel']}; commit {about['commit']}; load"
        f" {about['load_before']:.1f} when it began, {about['load_after']:.1f} when it ended.\n\n`{about['what']}`\n\n"
        f"```\n{text}\n```\n"
    )


if __name__ == "__main__":
    sys.exit(main())
