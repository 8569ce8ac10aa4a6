"""Does `contend prove` convict who costs a victim something, by as much as that is, and nobody else?

    python bench/proved_suspects.py -o DIR [--count 200] [--seed 1] [--write docs/results/proved-suspects [--resume]]

Victims (a service that logs, a batch, one that copies memory, nginx, redis, PostgreSQL, a journal that waits for its fsyncs)
and suspects (bench/proving) are planted in pairs that chance draws. Half of the suspects cost nothing that holding them back
would bring.
What that brings is measured before and afterwards, in turns of the bench's own: the truth. Between them `contend watch`
looks on, as everybody would first: whom does it name? And `contend prove` has a minute. Needs root, and a DIR that
PostgreSQL's user may enter.

A row is kept when its draw is complete: a campaign that was stopped goes on where it stood.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contend.stats.quantiles import t_quantile
from contend.store.ledger import read_rows
from proving.planted import Beside, Draw, beside
from results.campaign import gathering, parser

CONTEND = (sys.executable, "-m", "contend")
PACE = (sys.executable, "-m", "contend.workloads.generators", "pace")
TURNS = 8
TURN_S, SETTLE_S = 1.0, 0.2
"""As long as trials of contend prove, and as they wait after a change: a disk's queue takes a while to drain."""
WATCH_S, PROVE_S = 10, 60
NAMED = 0.05
"""Of what the victim waited for others, the part from which on a watch's culprit counts as named."""

Row = dict[str, Any]


def main() -> int:
    """1 where a draw failed."""
    given = parser(__doc__, count=200).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was planted goes with it
    with gathering(given) as campaign:
        rows = campaign.rows(lambda number: one(Draw.made(number, given.seed), campaign.output))
        campaign.write({"rows": rows})
    return 1 if any("failed" in row for row in rows) else 0


def one(draw: Draw, output: Path) -> Row:
    """Plant a draw, and have it judged."""
    with tempfile.TemporaryDirectory(prefix="contend-proving-", dir=output) as name:
        folder = Path(name)
        with beside(draw, folder) as planted:
            before = turns(planted, 0)
            row = asdict(draw) | watched(planted) | proved(planted)
            row |= {"truth": truth([*before, *turns(planted, TURNS)])}
    return row


def turns(planted: Beside, first: int) -> list[float]:
    """Logarithms of the figure as it is over that with the suspect held back, by turns in random order."""
    chance = random.Random(planted.draw.seed + first)
    ratios = []
    for turn in range(first, first + TURNS):
        order = [False, True]
        chance.shuffle(order)
        figures = {}
        for held in order:
            with planted.held_back() if held else contextlib.nullcontext():
                time.sleep(SETTLE_S)
                figures[held] = figure(planted, planted.draw.seed % 10_000 + turn)
        ratios.append(math.log(figures[False] / figures[True]))
    return ratios


def truth(ratios: Sequence[float]) -> list[float]:
    """What holding the suspect back brings, with its 95 % interval.

    A disk changes from one minute to the next: half of the turns come before, and half after, what is judged by them.
    """
    mean = statistics.fmean(ratios)
    half = t_quantile(0.975, len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return [round(math.exp(value), 5) for value in (mean, mean - half, mean + half)]


def figure(planted: Beside, seed: int) -> float:
    """Figure of the time from now on: the mean in the victim's log, or its p99 latency where it is asked."""
    if planted.url:
        out = planted.folder / "pace.json"
        words = [
            *("--rate", "200", "--for", f"{TURN_S}s", "--connections", "8", "--poisson"),
            *("--seed", str(seed)),
        ]
        subprocess.run([*PACE, planted.url, *words, "--out", str(out)], check=True, capture_output=True)
        return float(json.loads(out.read_text())["latency_s"]["p99"])
    at = planted.log.stat().st_size
    time.sleep(TURN_S)
    with planted.log.open(encoding="ascii") as file:
        file.seek(at)
        lines = file.read().rpartition("\n")[0].splitlines()[1:]
    return statistics.fmean(float(line.split()[2]) for line in lines)


def watched(planted: Beside) -> Row:
    """Whether a watch names the suspect, and with which part of what a process of the victim's waited for others."""
    run = subprocess.run(
        [*CONTEND, "watch", "--by", "process", "--for", f"{WATCH_S}s", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode:
        return {"failed": run.stderr.strip()[-300:]}
    suspects, victims = (
        set((groups[0] / "cgroup.procs").read_text().split()) for groups in (planted.suspect, planted.victims)
    )
    findings = json.loads(run.stdout)["data"]["findings"]
    parts = [
        float(finding["share"])
        for finding in findings
        if finding.get("treatment")
        and finding["treatment"]["victim"] in victims
        and finding["treatment"]["suspect"] in suspects
        and finding["share"] is not None
    ]
    return {"watch_names": any(part >= NAMED for part in parts), "watch_share": max(parts, default=0.0)}


def proved(planted: Beside) -> Row:
    """Have contend prove judge the suspect."""
    draw = planted.draw
    began = time.monotonic()
    run = subprocess.run(
        [
            *CONTEND, "prove", str(planted.victim.pid), "--against", f"/{planted.suspect[0].name}", *planted.figure,
            *draw.treatment, "--trial", f"{TURN_S:g}s", "--for", f"{PROVE_S}s", "--seed", str(draw.seed % 10_000),
            *(["--guard", planted.url] if draw.victim == "nginx" else []),
            "--consent", "--json", "--runs", str(planted.folder / "runs"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    took = {"took_s": round(time.monotonic() - began, 1)}
    if run.returncode:
        return took | {"failed": run.stderr.strip()[-300:]}
    data = json.loads(run.stdout)["data"]
    (cost,) = data["proved"]["suspects"]
    (run_at,) = (planted.folder / "runs").iterdir()
    return took | {
        "metric": cost["metric"],
        "cost": [
            None if cost[bound] is None else round(1 + cost[bound], 5) for bound in ("value", "low", "high")
        ],
        "verdict": cost["verdict"],
        "blocks": data["design"]["blocks"],
        "control_alarm": any(
            control["alarm"] for control in data["controls"] if control["metric"]["primary"]
        ),
        "worst": worst(read_rows(run_at / "trials.ndjson"), cost["metric"]),
    }


def worst(trials: Sequence[Row], metric: str) -> list[float]:
    """The victim's worst second with the suspect held back, and as it is: each over its median as it is. 2: twice as bad."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    better = ""
    for trial in trials:
        for of in trial["metrics"]:
            if trial["phase"] == "counted" and trial["status"] == "ok" and of["name"] == metric:
                better = of["better"]
                seconds[bool(trial["treated"]["held"])].append(of["value"])
    usual = statistics.median(seconds[False])
    return [
        round(usual / min(of) if better == "higher" else max(of) / usual, 4)
        for of in (seconds[True], seconds[False])
    ]


if __name__ == "__main__":
    sys.exit(main())
