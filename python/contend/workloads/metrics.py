"""Reads a trial's figures out of the tool's output and files."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import BadInput, TrialFailed
from contend.scenario.yaml_file import read_yaml
from contend.text.shape import Shape
from contend.workloads.spec import Metric, Workload

MAX_BYTES = 64 * 2**20  # a tool's result, not its log of every operation
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Reading(Shape):
    """One figure of one trial: `value` in `unit`, finite. `primary`: the workload's headline metric."""

    name: str
    value: float
    unit: str
    better: str  # higher, lower
    loop: str  # open, closed, or "" where it is no load generator's
    primary: bool


def read_metrics(
    workload: Workload,
    out: Path,
    stdout: Sequence[Path],
    stderr: Sequence[Path],
    builtins: Mapping[str, float],
) -> list[Reading]:
    """Read every metric of the workload, in the order of its file.

    out: the trial's directory. stdout, stderr: one path for each command of `run`. builtins: wall, cpu, user,
    system and server_cpu in seconds and max_rss in bytes, as contend measured them. Raises TrialFailed for the first metric
    that is not there, is no number or is not finite.
    """
    texts: dict[Path, str] = {}

    def read(source: str) -> str:
        path = source_path(source, out, stdout, stderr)
        if path not in texts:
            texts[path] = _read(path)
        return texts[path]

    readings = []
    for name, metric in workload.metrics.items():
        text = ""
        try:
            if metric.builtin:
                raw = _builtin(metric.builtin, builtins)
            else:
                text = read(metric.source)
                raw = _find(metric, text)
            value = raw * metric.scale
            if metric.per is not None:
                text = read(metric.per.source)
                value = _divided(value, _by_path(metric.per.path, text))
            if not math.isfinite(value):
                raise UnreadableError(f"{value} is not a finite number")
        except NothingThereError as error:
            if metric.optional and name != workload.primary:
                continue
            raise _failed(workload, name, metric, error, text) from error
        except UnreadableError as error:
            raise _failed(workload, name, metric, error, text) from error
        readings.append(
            Reading(name, value, metric.unit, metric.better, metric.loop, primary=name == workload.primary)
        )
    return readings


def source_path(source: str, out: Path, stdout: Sequence[Path], stderr: Sequence[Path]) -> Path:
    """The file that a metric's `from` means: `stdout`, `stderr:2`, or a file below `out`."""
    stream, _, step = source.partition(":")
    if stream in ("stdout", "stderr"):
        paths = stdout if stream == "stdout" else stderr
        return paths[int(step) - 1 if step else -1]
    return out / source


class UnreadableError(Exception):
    """Why a figure could not be read; `read_metrics` adds whose it is and where it was looked for."""


class NothingThereError(UnreadableError):
    """The document is as it should be, and has no such figure."""


def _builtin(name: str, builtins: Mapping[str, float]) -> float:
    if name not in builtins:
        raise UnreadableError(f"{name} was not measured on this platform")
    return float(builtins[name])


def _divided(value: float, by: float) -> float:
    if by == 0:
        raise UnreadableError("what it is divided by is 0")
    return value / by


def _find(metric: Metric, text: str) -> float:
    if metric.pattern:
        return _by_pattern(metric.pattern, text)
    if metric.column:
        return _by_column(metric.column, text)
    return _by_path(metric.path, text)


def _by_pattern(pattern: str, text: str) -> float:
    last = None
    for last in re.finditer(pattern, text, re.MULTILINE):  # noqa: B007 - the last one counts
        pass
    if last is None:
        raise NothingThereError("the pattern matches nothing")
    return _number(last[1])


def _by_column(column: str, text: str) -> float:
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UnreadableError(f"it is not CSV ({error})") from error
    if len(rows) < 2:
        raise UnreadableError("it has no row below the header")
    header = [cell.strip() for cell in rows[0]]
    if column not in header:
        raise NothingThereError(f"it has the columns {', '.join(header)[:SHOWN]}")
    index = header.index(column)
    if index >= len(rows[-1]):
        raise UnreadableError("its last row is cut off")
    return _number(rows[-1][index])


def _by_path(path: str, text: str) -> float:
    query = _compiled(path)
    for document in _documents(text):
        matches = query.findall(document)
        if matches:
            return _number(matches[-1])
    raise NothingThereError("nothing stands at the path")


def _documents(text: str) -> Sequence[Any]:
    """The JSON document, or the NDJSON ones with the last first.

    Lines before the first that starts with a bracket are passed over: fio, for one, puts notes there.
    """
    begin = re.search(r"^[{\[]", text, re.MULTILINE)
    text = text[begin.start() :] if begin else text
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError) as whole:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise UnreadableError(f"it is not JSON ({whole})") from whole
        documents = []
        for number, line in enumerate(lines, 1):
            try:
                documents.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UnreadableError(
                    f"it is neither JSON ({whole}) nor NDJSON (line {number}: {error})"
                ) from error
    return documents[::-1]


@functools.lru_cache(maxsize=256)
def _compiled(path: str) -> Any:
    import jsonpath

    return jsonpath.compile(path)


def _number(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise UnreadableError(f"{json.dumps(raw)[:SHOWN]} is not a number")
    try:
        return float(raw)
    except (ValueError, OverflowError) as error:
        raise UnreadableError(f"'{str(raw)[:SHOWN]}' is not a number") from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnreadableError(f"cannot read it: {getattr(error, 'strerror', error)}") from error
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"it is larger than {MAX_BYTES >> 20} MiB")
    return data.decode("utf-8", errors="replace")


def _failed(workload: Workload, name: str, metric: Metric, why: UnreadableError, text: str) -> TrialFailed:
    """`fio: metric 'iops' from fio.json at $.jobs[0].iops: nothing stands at the path; it begins: …`"""
    reader = metric.path or metric.column or metric.pattern
    where = f" from {metric.source} at {reader}" if metric.source else ""
    begins = f"; it begins: {text.strip()[:SHOWN]!r}" if text.strip() else ""
    return TrialFailed(
        f"{workload.name}: metric '{name}'{where}: {why}{begins}", hint=f"see {_line(workload, name)}"
    )


def _line(workload: Workload, name: str) -> str:
    """Where the metric is defined: file and line, as far as they can still be found."""
    if not workload.origin:
        return f"metrics.{name} of the workload '{workload.name}', in the scenario or its study"
    try:
        return read_yaml(Path(workload.origin), workload.origin).where(("metrics", name))
    except BadInput:  # changed or removed since it was loaded
        return f"metrics.{name} in {workload.origin}"
