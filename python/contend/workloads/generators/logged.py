"""Reads a figure in a log: `python -m contend.workloads.generators logged KIND FILE PATTERN --for TIME --out DIR`.

Of the lines that are written during a trial those count that match the pattern; its one group is a time. A file that is
put aside meanwhile (rotated) is read to its end, and the new one from its beginning. Written is `logged.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from contend.errors import BadInput, ContendError, TrialFailed
from contend.units import NS_PER_S, parse_duration_ns
from contend.workloads.generators.verbs import failed

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MOST_BYTES = 256 * 2**20
"""Of what is written in a trial; a log that grows faster is cut there, which fails the trial."""
FEWEST = 20
"""Lines, of which the slowest in a hundred is told."""


def main(arguments: Sequence[str]) -> int:
    """Read for the length of a trial, and return the exit code."""
    parser = argparse.ArgumentParser(prog="logged", description="Read a figure in a log.")
    parser.add_argument("kind", choices=("time", "count"))
    parser.add_argument("file", type=Path)
    parser.add_argument("pattern")
    parser.add_argument("--unit", choices=tuple(UNITS), default="s")
    parser.add_argument("--for", dest="length", required=True, metavar="TIME")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    given = parser.parse_args(arguments)
    try:
        length_s = parse_duration_ns(given.length) / NS_PER_S
        pattern = compiled(given.pattern, groups=1 if given.kind == "time" else 0)
        began = time.monotonic()
        text = written(given.file, length_s)
        took_s = time.monotonic() - began
        if given.kind == "time":
            figures = times(text, pattern, UNITS[given.unit])
        else:
            figures = {"rate": len(_matches(text, pattern)) / took_s}
    except ContendError as error:
        return failed(error)
    (given.out / "logged.json").write_text(json.dumps(figures), encoding="utf-8")
    return 0


def compiled(pattern: str, groups: int) -> re.Pattern[str]:
    """Compile a pattern for lines. Raises BadInput."""
    try:
        made = re.compile(pattern)
    except re.error as error:
        raise BadInput(f"'{pattern}' is no regular expression: {error}") from error
    if groups and made.groups != groups:
        raise BadInput(
            f"'{pattern}' needs exactly one (group), which is the time",
            hint="took ([0-9.]+) ms; (?:…) groups without counting",
        )
    return made


def times(text: str, pattern: re.Pattern[str], scale: float) -> dict[str, float]:
    """Figures of the times in lines, s. Raises TrialFailed where there are none, BadInput where one is no number.

    >>> times("took 10 ms\\ntook 30 ms\\n", re.compile(r"took (\\d+) ms"), 1e-3)
    {'mean': 0.02, 'p50': 0.02}
    """
    matches = _matches(text, pattern)
    try:
        values = [float(match[1]) * scale for match in matches]
    except (TypeError, ValueError) as error:
        raise BadInput(f"in a line that matches is no number: {error}", hint="took ([0-9.]+) ms") from error
    if not all(map(math.isfinite, values)):
        raise BadInput("in a line that matches is no finite number", hint="took ([0-9.]+) ms")
    figures = {"mean": statistics.fmean(values), "p50": statistics.median(values)}
    if len(values) >= FEWEST:
        figures["p99"] = statistics.quantiles(values, n=100, method="inclusive")[98]
    return figures


def _matches(text: str, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    """The first match in each line that has one. Raises TrialFailed where none has."""
    matches = [match for line in text.split("\n") if (match := pattern.search(line))]
    if not matches:
        raise TrialFailed(
            f"no line matches '{pattern.pattern}' in what was written during the trial",
            hint="choose a time when it is written to, or longer trials: --trial 10s; who buffers its log writes late",
        )
    return matches


def written(path: Path, length_s: float) -> str:
    """Whole lines that are written to a file within so long from now. Raises BadInput, TrialFailed."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", hint="--log FILE, as root") from error
    with file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            whole = file.read(1) == b"\n"
        else:
            whole = True
        time.sleep(length_s)
        data = _rest(file, path)
        if not whole:  # its beginning was there before
            data = data.partition(b"\n")[2]
        try:
            moved = not os.path.samestat(os.fstat(file.fileno()), path.stat())
        except OSError:
            moved = False  # put aside, and there is no new one yet
        if moved:
            with path.open("rb") as new:
                data += _rest(new, path)
    return data.rpartition(b"\n")[0].decode("utf-8", "replace")


def _rest(file: BinaryIO, path: Path) -> bytes:
    if os.fstat(file.fileno()).st_size < file.tell():
        raise TrialFailed(f"{path} was cut short meanwhile", hint="put logs aside by renaming them")
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TrialFailed(
            f"more than {MOST_BYTES >> 20} MiB were written to {path} in a trial", hint="--trial 1s"
        )
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
