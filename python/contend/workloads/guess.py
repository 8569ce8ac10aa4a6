"""Figures in the output of a command, guessed: what a workload file could read, with units and directions."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MOST = 40
"""Figures of one output that are offered."""
_HIGHER = re.compile(
    r"per.?sec|/s(ec)?\b|(?<![a-z])([kmg]?bp|[fqrt]p|fl?op|i?op)s\b|throughput|bandwidth|(?<![a-z])rate\b|score|hits|speed",
    re.I,
)
_PER_SECOND = re.compile(r"per.?sec|/s(ec)?\b", re.I)
_TIMES = {
    "ns": "ns",
    "us": "us",
    "µs": "us",
    "usec": "us",
    "ms": "ms",
    "msec": "ms",
    "s": "s",
    "sec": "s",
    "secs": "s",
}
_TIMES |= {"seconds": "s", "second": "s"}
_NUMBER = r"[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_LINE = re.compile(
    r"^(?P<before>\s*(?P<name>[A-Za-z][\w /().%-]{0,40}?)\s*[:=]\s*)"
    rf"(?P<value>{_NUMBER})\s*(?P<unit>[A-Za-zµ%/]+(?:/s(?:ec)?)?)?"
)


@dataclass(frozen=True, slots=True)
class Guess:
    """A figure that could be a metric: its name, where it stands (JSONPath, CSV column or pattern), value and direction."""

    name: str
    key: str
    source: str
    value: float
    unit: str
    better: str

    def metric(self, stream: str) -> dict[str, str]:
        """As a workload file has it. stream: stdout, or a file below {out}."""
        return {"from": stream, self.key: self.source, "unit": self.unit, "better": self.better}


def guesses(text: str) -> list[Guess]:
    """Figures in an output, the likeliest headline first: JSON, NDJSON, CSV with a header, or lines like `Name: 12 ms`.

    >>> [(g.name, g.key, g.source, g.better) for g in guesses('{"total": {"mb_per_sec": 12.5}}')]
    [('mb_per_sec', 'path', '$.total.mb_per_sec', 'higher')]
    >>> [(g.name, g.unit, g.better, g.value) for g in guesses("Requests/sec:  123.4\\nLatency: 5 ms")]
    [('requests_sec', '1/s', 'higher', 123.4), ('latency', 'ms', 'lower', 5.0)]
    >>> [(g.key, g.source, g.value) for g in guesses("run,seconds\\n1,2.5\\n")]
    [('column', 'run', 1.0), ('column', 'seconds', 2.5)]
    """
    figures = list(_unlike([*_json(text)] or [*_csv(text)] or [*_lines(text)]))[:MOST]
    return sorted(figures, key=_likely, reverse=True)


def _likely(guess: Guess) -> int:
    """How much a figure looks like a program's headline: rates first, then times."""
    if guess.better == "higher":
        return 2
    return 1 if guess.unit in _TIMES.values() else 0


def _json(text: str) -> Iterator[Guess]:
    documents = []
    try:
        documents = [json.loads(text)]
    except ValueError:
        for line in text.splitlines():
            if line.lstrip().startswith("{"):
                try:
                    documents.append(json.loads(line))
                except ValueError:
                    continue
    if documents:
        yield from _leaves(documents[-1], "$")


def _leaves(value: Any, path: str) -> Iterator[Guess]:
    """Numbers in a document, but for those in long arrays: samples are no figures."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if math.isfinite(value):
            yield _guess(path.rpartition(".")[2].strip("'[]") or "value", "path", path, float(value), "")
    elif isinstance(value, dict):
        for key, of in value.items():
            plain = re.fullmatch(r"[A-Za-z_]\w*", str(key)) is not None
            quoted = str(key).replace("\\", "\\\\").replace("'", "\\'")
            yield from _leaves(of, f"{path}.{key}" if plain else f"{path}['{quoted}']")
    elif isinstance(value, list) and len(value) <= 4:
        for index, of in enumerate(value):
            yield from _leaves(of, f"{path}[{index}]")


def _csv(text: str) -> Iterator[Guess]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or "," not in lines[0]:
        return
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    for column, value in rows[-1].items():
        if column and isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()):
            yield _guess(column, "column", column, float(value.replace("_", "")), "")


def _lines(text: str) -> Iterator[Guess]:
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        # The last such line counts; spaces may differ from run to run.
        before = r"\s*".join(re.escape(part) for part in match["before"].split())
        unit = (match["unit"] or "").strip()
        yield _guess(
            match["name"],
            "pattern",
            f"(?m)^\\s*{before}\\s*({_NUMBER})",
            float(match["value"].replace("_", "")),
            unit,
        )


def _guess(name: str, key: str, source: str, value: float, unit: str) -> Guess:
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "value"
    plain = plain if plain[0].isalpha() else f"v{plain}"
    rate = _HIGHER.search(f"{name} {unit}") is not None and unit not in _TIMES
    if not unit and not rate:
        unit = next((known for end, known in _TIMES.items() if plain.endswith(f"_{end}")), "")
    unit = _TIMES.get(unit, unit) or ("1/s" if _PER_SECOND.search(name) else "")
    return Guess(plain[:40], key, source, value, unit, "higher" if rate else "lower")


def _unlike(figures: list[Guess]) -> Iterator[Guess]:
    """Each by a name of its own; of lines that repeat, one."""
    seen: dict[str, set[str]] = {}
    for guess in figures:
        sources = seen.setdefault(guess.name, set())
        if guess.source in sources:
            continue
        sources.add(guess.source)
        number = len(sources)
        name = guess.name if number == 1 else f"{guess.name}_{number}"
        yield Guess(name, guess.key, guess.source, guess.value, guess.unit, guess.better)
