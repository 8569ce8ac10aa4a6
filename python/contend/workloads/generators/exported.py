"""Reads an exported figure: `python -m contend.workloads.generators exported KIND URL SERIES --for TIME --out DIR`.

It is exported in the text form of OpenMetrics or Prometheus. A trial's figure is what changed between two readings: for
a histogram or a summary the mean of what it timed, and percentiles where there are buckets; for a counter the counts a
second; for a gauge its mean over readings. Nothing is asked of the service itself, beside what exports its figures.
Written is `exported.json`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from contend.errors import BadInput, ContendError, TrialFailed, suggest
from contend.units import NS_PER_S, parse_duration_ns
from contend.workloads.generators.verbs import failed

Kind = Literal["time", "count", "value"]
KINDS: Mapping[str, Kind] = {"histogram": "time", "summary": "time", "counter": "count"}
"""By what a family says that it is; of any other it is a value."""
ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_TIMEOUT_S, _MOST_BYTES, _LOOK_S = 5.0, 64 * 2**20, 0.25
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Series:
    """A name, and labels that a sample must have; samples with further labels are added up."""

    name: str
    labels: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Series:
        """Read a series as it is written in what is exported. Raises BadInput.

        >>> Series.parse('http_seconds{path="/cart"}')
        Series(name='http_seconds', labels={'path': '/cart'})
        """
        name, brace, rest = text.strip().partition("{")
        labels, at = {}, 0
        rest = rest.rstrip()
        inside = rest.removesuffix("}")
        while brace and at < len(inside) and (match := _LABEL.match(inside, at)):
            labels[match[1]] = re.sub(r"\\(.)", lambda of: "\n" if of[1] == "n" else of[1], match[2])
            at = match.end()
        if not name or (brace and (at < len(inside) or inside == rest)):
            raise BadInput(
                f"'{text}' is no series", hint="""like http_request_duration_seconds{path="/cart"}"""
            )
        return cls(name.strip(), labels)


@dataclass(slots=True)
class Reading:
    """A series at one time. value: of a counter or gauge, or how much was timed in all; count: how often; buckets: how often
    up to each bound; parts: each sample by itself."""

    at_ns: int
    value: float = 0.0
    count: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Read for the length of a trial, and return the exit code."""
    parser = argparse.ArgumentParser(prog="exported", description="Read a figure that something exports.")
    parser.add_argument("kind", choices=("time", "count", "value"))
    parser.add_argument("url")
    parser.add_argument("series")
    parser.add_argument("--for", dest="length", required=True, metavar="TIME")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    given = parser.parse_args(arguments)
    try:
        length_s = parse_duration_ns(given.length) / NS_PER_S
        figures = read(given.kind, given.url, Series.parse(given.series), length_s)
    except ContendError as error:
        return failed(error)
    (given.out / "exported.json").write_text(json.dumps(figures), encoding="utf-8")
    return 0


def read(kind: Kind, url: str, series: Series, length_s: float) -> dict[str, float]:
    """Read for so long. Raises BadInput, TrialFailed."""
    began = time.monotonic()
    readings = [_reading(kind, url, series)]
    while (left := began + length_s - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_S) if kind == "value" else left)
        if kind == "value":
            readings.append(_reading(kind, url, series))
    if kind == "value":
        return {"value": sum(of.value for of in readings) / len(readings)}
    return changed(kind, series, readings[0], _reading(kind, url, series))


def changed(kind: Kind, series: Series, before: Reading, after: Reading) -> dict[str, float]:
    """Figures of the time between two readings. Raises TrialFailed where nothing was counted, or it began anew.

    >>> then = Reading(0, 10.0, 100, {0.1: 90, 0.2: 100, math.inf: 100})
    >>> now = Reading(2 * NS_PER_S, 40.0, 300, {0.1: 90, 0.2: 300, math.inf: 300})
    >>> changed("time", Series("a", {}), then, now)["mean"]
    0.15
    >>> changed("count", Series("a", {}), Reading(0, 5.0), Reading(2 * NS_PER_S, 25.0))
    {'rate': 10.0}
    """
    value, count = after.value - before.value, after.count - before.count
    # One worker of several that begins anew is hidden in their sum.
    if value < 0 or count < 0 or any(after.parts.get(part, -1.0) < was for part, was in before.parts.items()):
        raise TrialFailed(
            f"{series.name} began anew",
            hint="what exports it was started again: run it again while it goes on",
        )
    if (value if kind == "count" else count) == 0:
        raise TrialFailed(
            f"{series.name} counted nothing in {(after.at_ns - before.at_ns) / NS_PER_S:.1f} s",
            hint="choose a time when it has work, or longer trials: --trial 10s",
        )
    if kind == "count":
        return {"rate": value / ((after.at_ns - before.at_ns) / NS_PER_S)}
    buckets = {bound: after.buckets[bound] - before.buckets.get(bound, 0.0) for bound in after.buckets}
    figures = {"mean": value / count}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        if (quantile := quantile_of(buckets, share)) is not None:
            figures[name] = quantile
    return figures


def quantile_of(buckets: Mapping[float, float], share: float) -> float | None:
    """Find a quantile in cumulative buckets, as evenly spread within one: what Prometheus's histogram_quantile does.

    None without buckets, or where it lies beyond the last bound.

    >>> quantile_of({0.1: 50, 0.2: 100, math.inf: 100}, 0.75)
    0.15...
    >>> quantile_of({0.1: 50, math.inf: 100}, 0.75) is None
    True
    """
    if not buckets:
        return None
    wanted = share * max(buckets.values())
    lower, below = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= wanted:
            if math.isinf(bound) or count == below:
                return None
            return lower + (bound - lower) * (wanted - below) / (count - below)
        lower, below = bound, count
    return None


def kind_of(url: str, series: Series) -> Kind:
    """Find out what a series is. Raises BadInput where it is not exported, TrialFailed where nothing answers."""
    return _find(_families(url), url, series)[0]


def _reading(kind: Kind, url: str, series: Series) -> Reading:
    families = _families(url)
    at_ns = time.monotonic_ns()
    is_a, samples = _find(families, url, series)
    if is_a != kind:
        raise BadInput(f"{series.name} of {url} is a {is_a}, no {kind}", hint=f"the workload exported-{is_a}")
    reading = Reading(at_ns)
    for name, labels, value in samples:
        if kind != "value" and not name.endswith("_created") and "quantile" not in labels:
            reading.parts[f"{name} {sorted(labels.items())}"] = value
        if kind != "time" or name.endswith("_sum"):
            reading.value += value
        elif name.endswith("_count"):
            reading.count += value
        elif name.endswith("_bucket"):
            bound = float(labels["le"])
            reading.buckets[bound] = reading.buckets.get(bound, 0.0) + value
    return reading


_Sample = tuple[str, Mapping[str, str], float]


def _find(
    families: Iterable[tuple[str, str, Sequence[_Sample]]], url: str, series: Series
) -> tuple[Kind, list[_Sample]]:
    """Find a series: what it is, and its samples. Raises BadInput."""
    names, of_name = set(), []
    for name, kind, samples in families:
        names.add(name)
        is_a = KINDS.get(kind, "value")
        if is_a == "time" and series.name != name:  # one of its parts: how often is a counter of its own
            if series.name in (f"{name}_sum", f"{name}_bucket"):
                raise BadInput(
                    f"'{series.name}' is a part of {name}", hint=f"--series {name}, or {name}_count"
                )
            is_a = "count"
        mine = [s for s in samples if series.name in (name, s[0])]
        if is_a == "count":
            mine = [s for s in mine if not s[0].endswith("_created")]
        of_name += [(is_a, sample) for sample in mine]
    if not of_name:
        raise BadInput(
            f"{url} exports no '{series.name}'", hint=suggest(series.name, names, f"curl -s {url}")
        )
    labelled = [(is_a, s) for is_a, s in of_name if series.labels.items() <= dict(s[1]).items()]
    if not labelled:
        others = sorted({json.dumps(dict(s[1])) for _, s in of_name})[:3]
        raise BadInput(
            f"{url} exports no {series.name} with these labels", hint=f"it has {', '.join(others)}"
        )
    return labelled[0][0], [sample for _, sample in labelled]


def _families(url: str) -> list[tuple[str, str, Sequence[_Sample]]]:
    """Families by name, kind and samples. Raises BadInput, TrialFailed."""
    from prometheus_client import parser as prometheus
    from prometheus_client.openmetrics import parser as openmetrics

    if not url.startswith(("http://", "https://")):
        raise BadInput(f"'{url}' is no URL of metrics", hint="like http://127.0.0.1:9100/metrics")
    request = urllib.request.Request(url, headers={"Accept": ACCEPT})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            kind = answer.headers.get("Content-Type", "")
            text = answer.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise TrialFailed(
            f"{url} exports nothing: {why}", hint="does it serve there? curl shows it"
        ) from error
    parse = openmetrics if "openmetrics-text" in kind else prometheus
    try:
        return [
            (family.name, family.type, [(s.name, s.labels, float(s.value)) for s in family.samples])
            for family in parse.text_string_to_metric_families(text)
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise BadInput(
            f"what {url} exports is no text of OpenMetrics or Prometheus: {error}", hint="curl shows it"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
