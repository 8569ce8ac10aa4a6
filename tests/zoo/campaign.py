"""Draws programs, has contend predict their edits and hunt in them, and measures the truth: one line of JSON a program.

    PYTHONPATH=tests python -m zoo.campaign --population development --first 1 --count 20 --edits 1 -o DIR

Goes on where it was stopped: programs that have a line are left out. `python -m zoo.scoring DIR` makes the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contend.errors import ContendError
from contend.testbed.rabbit import bed, node
from support.processors import awake
from zoo import harness, predictions, truth
from zoo.draws import POPULATIONS, draw, generator
from zoo.manifest import Manifest
from zoo.parts import BROKER, Change

ROWS = "rows.ndjson"
STORMS = 6
TRIES = 3


def rows(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a campaign: a last one that was cut off is left out."""
    path = folder / ROWS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def add(folder: Path, row: dict[str, Any]) -> None:
    """Append a line, after the whole ones."""
    path = folder / ROWS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def seeds(folder: Path, population: str, first: int, count: int) -> list[int]:
    """Seeds of a campaign: in order for development; for acceptance by chance, once, and kept in `seeds.json`."""
    if population == "development":
        return list(range(first, first + count))
    kept = folder / "seeds.json"
    drawn: list[int] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    drawn += [int.from_bytes(os.urandom(6), "big") for _ in range(count - len(drawn))]
    kept.write_text(json.dumps(drawn) + "\n", encoding="utf-8")
    return drawn[:count]


def chosen(manifest: Manifest, count: int) -> list[Change]:
    """So many of the edits that contend has words for, drawn by the program's seed; all of them for 0.

    Three times as often those of the mechanisms as those that every program has (Efraimidis & Spirakis 2006: the largest
    powers of a random number, by the inverse of the weight).
    """
    known = [change for change in manifest.changes if change.exists]
    rng = generator(manifest.seed, manifest.population)
    drawn = {change.switch: rng.random() ** (3 if change.general else 1) for change in known}
    known.sort(key=lambda change: drawn[change.switch], reverse=True)
    return known[:count] if count else known


def missing(libraries: Collection[str]) -> list[str]:
    """Libraries that are not installed here, or the broker."""
    return [
        name
        for name in libraries
        if (node.server() is None if name == BROKER else importlib.util.find_spec(name) is None)
    ]


@contextlib.contextmanager
def broker(libraries: Collection[str], folder: Path) -> Iterator[None]:
    """A RabbitMQ for a program that needs one, in a folder of its own. Raises HostFailed if it does not come up."""
    if BROKER not in libraries:
        yield
        return
    try:
        os.environ["ZOO_RABBIT"] = bed.up(folder).url()
        yield
    finally:
        bed.down(folder)


@dataclass(frozen=True)
class _Try:
    """A program that was traced and measured. edits: what was predicted of each, and its truth."""

    traces: Sequence[Path]
    traced: Sequence[truth.Storm]
    untraced: Sequence[truth.Storm]
    edits: list[dict[str, Any]]
    has_moved: bool


def _try(manifest: Manifest, program: Path, edits: int, most_pairs: int, refused: float) -> _Try:
    folder = program.parent
    for old in folder.glob("storm-*"):
        shutil.rmtree(old)
    traces, traced = predictions.trace(folder, STORMS)
    untraced = truth.storms(program, ["plain"] * (STORMS + 1))[1:]
    tried, has_moved = [], False
    for change in chosen(manifest, edits):
        predicted = predictions.predict(folder, traces, change.options, manifest.job)
        if predicted.asks_for_storms and len(traces) == STORMS:
            more, more_traced = predictions.trace(folder, STORMS, first=STORMS + 1)
            traces, traced = traces + more, traced + more_traced
            predicted = predictions.predict(folder, traces, change.options, manifest.job)
        rng = generator(manifest.seed, manifest.population)
        measured = None
        if rng.random() < refused or predicted.trusted:
            measured = truth.measure(program, change.switch, rng, most=most_pairs, before=untraced)
            has_moved = has_moved or measured.has_moved
        told = asdict(measured) if measured else None
        tried.append({"change": asdict(change), "predicted": asdict(predicted), "truth": told})
    return _Try(traces, traced, untraced, tried, has_moved)


def trial(
    manifest: Manifest, folder: Path, edits: int, most_pairs: int, *, refused: float = 1.0, keep: bool = False
) -> dict[str, Any]:
    """Trace, predict, hunt and measure one program. Raises ProgramFailed, ContendFailed.

    refused: the chance that a refused edit is measured too. Where a refusal asks for more storms it gets as many again,
    once. All is done again where the host is another one by the time that an edit is measured: whether it is, is told by
    unedited storms, and not by what was predicted.
    """
    begin, load = time.monotonic(), os.getloadavg()[0]
    program = manifest.write(folder)
    tries, one = 1, _try(manifest, program, edits, most_pairs, refused)
    while one.has_moved and tries < TRIES:
        tries, one = tries + 1, _try(manifest, program, edits, most_pairs, refused)
    hunted = predictions.hunt(folder, one.traces[0], manifest.job)
    if not keep:
        for old in one.traces:
            shutil.rmtree(old)
    known = asdict(manifest)
    del known["source"], known["changes"]
    known |= {"plain": asdict(truth.plain(one.untraced)), "traced": asdict(truth.plain(one.traced))}
    known |= {"commit": commit(), "load": round(load, 2), "tries": tries, "storms": len(one.traces)}
    return {**known, "edits": one.edits, "hunt": asdict(hunted), "took_s": round(time.monotonic() - begin, 1)}


def commit() -> str:
    """Of this tree, short; empty outside of a repository."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--population", choices=POPULATIONS, default="development")
    parser.add_argument("--first", type=int, default=1, help="first seed, of development")
    parser.add_argument("--count", type=int, default=20, help="number of programs")
    parser.add_argument("--edits", type=int, default=1, help="edits of each program; 0: all")
    parser.add_argument("--pairs", type=int, default=48, help="most pairs of storms for one truth")
    parser.add_argument("--only", default="", help="mechanisms of every program, with commas")
    parser.add_argument("--without", default="", help="mechanisms of no program, with commas")
    parser.add_argument(
        "--refused", type=float, default=1.0, help="part of the refused edits that is measured, by chance"
    )
    parser.add_argument("--keep", action="store_true", help="keep the traces")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    given = parser.parse_args(arguments)
    folder: Path = given.output
    folder.mkdir(parents=True, exist_ok=True)
    done = {(row["population"], row["seed"]) for row in rows(folder)}
    only, without = ([name for name in text.split(",") if name] for text in (given.only, given.without))
    begin(folder, {"only": only, "without": without})
    try:
        with awake():
            for seed in seeds(folder, given.population, given.first, given.count):
                if (given.population, seed) in done:
                    continue
                manifest = draw(seed, given.population, only=only, without=without)
                program = folder / "programs" / manifest.key
                try:
                    if absent := missing(manifest.libraries):
                        raise truth.ProgramFailed(f"not installed: {', '.join(absent)}")
                    with broker(manifest.libraries, folder / "rabbit"):
                        row = trial(
                            manifest,
                            program,
                            given.edits,
                            given.pairs,
                            refused=given.refused,
                            keep=given.keep,
                        )
                except (truth.ProgramFailed, predictions.ContendFailed, ContendError) as failed:
                    row = {"seed": seed, "population": given.population, "failed": str(failed)}
                    row["mechanisms"] = manifest.mechanisms
                add(folder, row)
                print(seed, *manifest.mechanisms, row.get("failed", f"{row.get('took_s')} s"), flush=True)
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on after {len(rows(folder))} programs", file=sys.stderr)
        return 130
    return 0


def how_drawn(folder: Path) -> dict[str, list[str]]:
    """How the programs of a campaign are drawn: `only` and `without` of `draw`."""
    begun = json.loads((folder / "campaign.json").read_text(encoding="utf-8"))
    return {name: begun[name] for name in ("only", "without")}


def begin(folder: Path, drawn: dict[str, list[str]]) -> None:
    """Tell programs the speed of `burn` on this machine, measured when a campaign begins and kept with how its programs are
    drawn.

    Raises SystemExit if a campaign that goes on would draw others.
    """
    kept = folder / "campaign.json"
    if not kept.exists():
        kept.write_text(
            json.dumps({**drawn, "loops_per_s": f"{harness.loops_per_s():.0f}"}) + "\n", encoding="utf-8"
        )
    begun = json.loads(kept.read_text(encoding="utf-8"))
    os.environ["ZOO_LOOPS_PER_S"] = begun.pop("loops_per_s")
    if begun != drawn:
        raise SystemExit(f"{folder} was begun with {begun}, and goes on only so")


if __name__ == "__main__":
    sys.exit(main())
