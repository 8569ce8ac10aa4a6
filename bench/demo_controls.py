"""How often do the controls of the demo's cells alarm on a quiet host, and what drives it?

    python bench/demo_controls.py -o DIR [--count 100] [--seed 1] [--write docs/results/demo-controls [--resume]]

Each run is the demo's scenario in eight blocks, with its victims alone, again as their own control, and beside the first of
its neighbours. Trials are kept: they say whether the first block, or the time since the start, is behind an alarm.

A run's rows are kept when it is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.campaign import gathering, parser

CONTEND = (sys.executable, "-m", "contend")
BLOCKS = 8

Row = dict[str, Any]


def main() -> int:
    """1 where a run failed."""
    given = parser(__doc__, count=100).parse_args()
    with gathering(given) as campaign:
        rows = campaign.rows(lambda number: one(campaign.output, given.seed + number), shown)
        campaign.write({"blocks": BLOCKS, "rows": list(map(published, rows))})
    return 1 if any("failed" in row for row in rows) else 0


def shown(row: Row) -> object:
    return row.get("failed") or [[c["victim"], c["metric"], c["alarm"]] for c in row["controls"]]


def published(row: Row) -> Row:
    """Without figures that are no headline: of all the trials these are too many to publish. To six digits."""
    if "failed" in row:
        return row
    headline = {control["victim"]: control["metric"] for control in row["controls"] if control["primary"]}
    trials = []
    for trial in row["trials"]:
        metric = headline[trial["cell"].partition("|")[0]]
        values = {metric: float(f"{trial['values'][metric]:.6g}")} if metric in trial["values"] else {}
        trials.append(trial | {"values": values})
    return row | {"trials": trials}


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
