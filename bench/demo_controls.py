"""How often do the controls of the demo's cells alarm on a quiet host, and what drives it?

    python bench/demo_controls.py -o DIR [--count 100] [--seed 1] [--write docs/results/demo-controls]

Each run is the demo's scenario in eight blocks, with its victims alone, again as their own control, and beside the first of
its neighbours. Trials are kept: they say whether the first block, or the time since the start, is behind an alarm.

A run's rows are kept when it is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.files import save_at
from results.record import recording

CONTEND = (sys.executable, "-m", "contend")
BLOCKS = 8

Row = dict[str, Any]


def main() -> int:
    """1 where a run failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    kept = given.output / "rows.ndjson"
    with recording():
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        while len(rows) < given.count:
            rows.append(one(given.output, given.seed + len(rows)))
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(
                len(rows),
                [[c["victim"], c["metric"], c["alarm"]] for c in rows[-1].get("controls", ())],
                flush=True,
            )
        if given.write:
            save_at(given.write, {"blocks": BLOCKS, "rows": rows}, seed=given.seed)
    return 1 if any("failed" in row for row in rows) else 0


def one(output: Path, seed: int) -> Row:
    """Run the demo's cells once."""
    with tempfile.TemporaryDirectory(prefix="contend-demo-", dir=output) as name:
        run = subprocess.run(
            [*CONTEND, "run", "noisy-neighbour", "--json", "--seed", str(seed), "--set", "neighbours=stress-cpu",
             "--set", "measure.target=null", "--set", f"measure.blocks={BLOCKS}", "--set", "measure.budget=null"],
            cwd=name, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            return {"failed": run.stderr.strip()[-300:]}
        analysis = json.loads(run.stdout)["data"]
        (made,) = (Path(name) / "runs").iterdir()
        trials = [json.loads(line) for line in (made / "trials.ndjson").read_text().splitlines()]
        shutil.rmtree(made)
    began = min(trial["started_ns"] for trial in trials)
    return {
        "controls": [
            {
                "victim": control["factors"]["victim"],
                "metric": control["metric"]["name"],
                "primary": control["metric"]["primary"],
                "alarm": control["alarm"],
                "ratio": [round(control["estimate"][bound], 5) for bound in ("value", "low", "high")],
            }
            for control in analysis["controls"]
            if control["estimate"]["value"] is not None
        ],
        "trials": [
            {
                "cell": trial["cell"],
                "block": trial["block"],
                "at_s": round((trial["started_ns"] - began) / 1e9, 2),
                "flags": trial.get("flags", []),
                "values": {m["name"]: m["value"] for m in trial["metrics"]},
            }
            for trial in trials
            if "stress-cpu" not in trial["cell"].partition("|")[2]
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
