"""Has this tree predict the edits of a campaign once more, on its kept traces and with its measured truths.

    PYTHONPATH=tests python -m zoo.again DIR -o OTHER [--left-out stores] [--retrace]

So that no truth is measured twice while contend changes; of an edit that was refused and is trusted now it is measured if
it was not. With `--retrace` programs whose traces were not kept are made again by their seed and traced anew. With
`--left-out` a recogniser of the replay is switched off, to see that programs which need it are then refused: that has no
option of the command line, and is asked of the library. Goes on where it was stopped, as a campaign does;
`python -m zoo.scoring OTHER` makes the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contend.contention.whatif.prediction import whatif
from contend.contention.whatif.storms import Edit, open_storms
from contend.errors import ContendError
from support.processors import awake
from zoo import predictions, truth
from zoo.campaign import STORMS, add, begin, broker, commit, how_drawn, rows
from zoo.draws import draw, generator
from zoo.predictions import Prediction


def row_again(
    row: dict[str, Any],
    programs: Path,
    left_out: Sequence[str] = (),
    *,
    retrace: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """The row of one program with what this tree predicts, and hunts where nothing is left out. `programs`: folder of all
    programs, a folder each with its traces. `retrace`: how programs are drawn whose traces are not there. Raises
    ContendFailed, ProgramFailed.
    """
    folder = programs / f"{row['population']}-{row['seed']}"
    traces = sorted(folder.glob("storm-*"))
    if not traces:
        if retrace is None:
            raise predictions.ContendFailed(f"{folder.name}: its traces were not kept")
        draw(row["seed"], row["population"], **retrace).write(folder)
        traces, _ = predictions.trace(folder, row.get("storms", STORMS))
        row = {**row, "commit": commit()}
    edits = []
    for edit in row["edits"]:
        options = edit["change"]["options"]
        if left_out:
            predicted = predict_without(traces, options, row["job"], left_out)
        else:
            predicted = predictions.predict(folder, traces, options, row["job"])
        measured = edit["truth"]
        if measured is None and predicted.trusted and not left_out:
            rng = generator(row["seed"], row["population"])
            measured = asdict(truth.measure(folder / "program.py", edit["change"]["switch"], rng))
        edits.append({**edit, "predicted": asdict(predicted), "truth": measured})
    again = {**row, "edits": edits}
    if not left_out:
        again["hunt"] = asdict(predictions.hunt(folder, traces[0], row["job"]))
    return again


def predict_without(
    traces: Sequence[Path], options: Sequence[str], job: str, left_out: Sequence[str]
) -> Prediction:
    """Predict one edit without these recognisers of the replay."""
    try:
        sources = open_storms(traces, [job] if job else [], without=left_out)
        answer = whatif(sources, [edit_of(options)])
    except ContendError as refused:
        return Prediction(False, None, None, str(refused))
    baseline = answer.baseline
    median, makespan = (answer.predicted[key] for key in ("median_ns", "makespan_ns"))
    return Prediction(
        answer.gate.passed and median.low is not None,
        median.value / baseline.median_ns,
        makespan.value / baseline.makespan_ns,
        answer.gate.reason or "",
        answer.regime.kind,
        answer.gate.self_replay_error,
    )


def edit_of(options: Sequence[str]) -> Edit:
    """The edit that an option of `contend whatif` and its value name.

    >>> edit_of(["--hold", "storm.stock=0.5"]), edit_of(["--jobs", "20"])
    (Edit(kind='hold', name='storm.stock', number=0.5), Edit(kind='jobs', name='', number=20.0))
    >>> edit_of(["--remove", "prepare"])
    Edit(kind='remove', name='prepare', number=0)
    """
    option, value = options
    kind = option.removeprefix("--").replace("-", "_")
    if kind == "jobs":
        return Edit(kind, "", float(value))
    if kind in ("remove", "unlock", "global_queue"):
        return Edit(kind, value)
    name, _, number = value.rpartition("=")
    return Edit(kind, name, float(number))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--retrace", action="store_true", help="trace programs whose traces were not kept")
    parser.add_argument("--left-out", default="", help="recognisers, with commas", metavar="NAMES")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OTHER")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    done = {(row["population"], row["seed"]) for row in rows(given.output)}
    left_out = [name for name in given.left_out.split(",") if name]
    retrace = None
    if given.retrace:
        retrace = how_drawn(given.folder)
        begin(given.output, retrace)
    with awake() if retrace else contextlib.nullcontext():
        for row in rows(given.folder):
            if "failed" in row or (row["population"], row["seed"]) in done:
                continue
            libraries = draw(row["seed"], row["population"], **retrace).libraries if retrace else ()
            with broker(libraries, given.output):
                again = row_again(row, given.folder / "programs", left_out, retrace=retrace)
            add(given.output, again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
