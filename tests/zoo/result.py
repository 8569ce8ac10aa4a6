"""Publishes the scores of campaigns: docs/results/NAME.json and its page; NAME.ndjson.gz has their rows.

    PYTHONPATH=tests:bench python -m zoo.result DIR … [--left-out stores=OTHER …] -o docs/results/what-if-programs

`--left-out`: what `zoo.again --left-out` made of the same campaign, by the recogniser. The programs are made again by their
seeds: unpacked as `rows.ndjson` of a folder, the rows can be asked about once more (`zoo.again --retrace`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results import files, record
from zoo import scoring
from zoo.campaign import STORMS, rows
from zoo.mechanisms import mechanisms
from zoo.scoring import BASELINES, Row

SIZES = (("below 10 %", 0.1), ("10 to 30 %", 0.3), ("above 30 %", float("inf")))
"""Kinds of true changes, by the larger one of median and makespan, with what they lie below."""


_PLACES = re.compile(r"/[^\s\"']*?/(?=programs/|site-packages/|lib/python3)")
"""Where on this machine a program or a library lies."""


def summary(of: Sequence[Row], left_out: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Counts of a campaign, by mechanism and in all, as a data file has them. `left_out`: rows without a recogniser."""
    whole = [row for row in of if "failed" not in row]
    return {
        "population": sorted({row["population"] for row in of}),
        "programs": len(whole),
        "failed": [f"{row['seed']}: {row['failed']}" for row in of if "failed" in row],
        "took_s": round(sum(row["took_s"] for row in whole)),
        "recorded_at": dict(Counter(row["commit"] for row in whole)),
        "load": [statistics.median(loads), max(loads)] if (loads := [row["load"] for row in whole]) else [],
        "done_again": sum(row.get("tries", 1) > 1 for row in whole),
        "asked_for_storms": sum(row.get("storms", STORMS) > STORMS for row in whole),
        "moved": sum(scoring.has_moved(edit) for row in whole for edit in row["edits"]),
        "seeds": [row["seed"] for row in whole],
        "unsupported": {name: one.unsupported for name, one in mechanisms().items() if one.unsupported},
        "groups": [group(name, among) for name, among in scoring.groups(whole).items() if among],
        "sizes": sizes(whole),
        "left_out": [without(name, rows_of) for name, rows_of in left_out.items()],
        "worst": scoring.worst(whole, 2),
    }


def group(name: str, of: Sequence[Row]) -> dict[str, Any]:
    """Counts of programs of one kind: answers of what-if by how they came out, of two naive answers, and of hunt."""
    pairs = [(row, edit) for row in of for edit in row["edits"]]
    naive = {}
    for key, baseline in BASELINES.items():
        answers = [scoring.wrong_truly(baseline(row, edit), edit) for row, edit in pairs]
        naive[key] = [answers.count(True), len(answers) - answers.count(None)]
    return {
        "name": name,
        "edits": len(pairs),
        "answers": dict(Counter(scoring.outcome(edit) for _, edit in pairs)),
        "naive": naive,
        "hunts": dict(Counter(scoring.heard(row) for row in of)),
    }


def sizes(of: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How trusted answers came out, by the size of the true change."""
    counts: dict[str, Counter[str]] = {name: Counter() for name, _ in SIZES}
    trusted = (edit for row in of for edit in row["edits"] if edit["predicted"]["trusted"])
    for edit in (edit for edit in trusted if edit["truth"] is not None):
        change = max(abs(edit["truth"][key]["value"] - 1) for key in ("median", "makespan"))
        counts[next(name for name, below in SIZES if change < below)][scoring.outcome(edit)] += 1
    return {name: dict(count) for name, count in counts.items()}


def without(name: str, of: Sequence[Row]) -> dict[str, Any]:
    """How answers came out without one recogniser."""
    answers = Counter(scoring.outcome(edit) for row in of if "failed" not in row for edit in row["edits"])
    return {"name": name, "answers": dict(answers)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--left-out", action="append", default=[], metavar="NAME=OTHER")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PATH")
    given = parser.parse_args(arguments)
    left_out = dict(text.split("=", 1) for text in given.left_out)
    said = shlex.join(["python", "-m", "zoo.result", *(sys.argv[1:] if arguments is None else arguments)])
    with record.recording(said):
        of = [row for folder in given.folders for row in rows(folder)]
        found = summary(of, {name: rows(Path(folder)) for name, folder in left_out.items()})
        files.save_at(given.output, found)
        # Without the time, so that the same rows are the same bytes.
        with gzip.GzipFile(given.output.with_suffix(".ndjson.gz"), "wb", mtime=0) as file:
            file.write(_PLACES.sub("", "".join(json.dumps(row) + "\n" for row in of)).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
