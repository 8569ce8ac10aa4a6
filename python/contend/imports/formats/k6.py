"""k6: its CSV (`--out csv=FILE`, gzip too) and its summary as JSON (`--summary-export`, or what handleSummary is given).

Source: grafana.com/docs/k6, Results output: CSV, and End of test: Custom summary. Times are in ms, stamps in Unix seconds
unless timeFormat says otherwise. http_req_duration begins when the request is sent: with an arrival-rate executor too
what was late to start is not in it, so it is labelled as a closed loop's.
"""

from __future__ import annotations

import datetime
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contend.imports.document import Document, Line, Readings, Run, finite, part
from contend.imports.source import Source
from contend.ranks import interpolated

COLUMNS = {"metric_name", "timestamp", "metric_value"}
TRENDS = ("http_req_duration", "iteration_duration")
RATES = (("http_reqs", "req/s"), ("iterations", "iterations/s"))
SHARES = ("http_req_failed", "checks")
_TAKEN = {*TRENDS, *SHARES, *(name for name, _ in RATES)}
_PER_SECOND = (
    (1e17, 1e9),
    (1e14, 1e6),
    (1e11, 1e3),
)  # unix_nano, unix_micro, unix_milli: by how large they are


def is_mine(document: Any) -> bool:
    metrics = document.get("metrics") if isinstance(document, Mapping) else None
    return isinstance(metrics, Mapping) and bool(
        {"iterations", "http_reqs", "vus", "iteration_duration"} & metrics.keys()
    )


def is_mine_table(columns: list[str]) -> bool:
    return set(columns) >= COLUMNS


def read(source: Source) -> Document:
    return _table(source) if is_mine_table(source.header()[0]) else _summary(source)


# ---- the summary


def _summary(source: Source) -> Document:
    document = source.document()
    metrics = part(document, "metrics", source.name)
    readings = Readings(source.name, "closed")
    values = {name: _values(metrics[name], source, name) for name in metrics if "{" not in name}
    for name, unit in RATES:
        if name in values:
            readings.add(name, values[name].get("rate"), unit, "higher", at=f"{name} rate")
    _shares(readings, {n: values[n].get("rate", values[n].get("value")) for n in SHARES if n in values})
    for name in TRENDS:
        for key, value in values.get(name, {}).items():
            short = {"avg": "avg", "med": "med"}.get(key) or _percentile(key)
            if short:
                readings.latency(f"{name}_{short}", value, scale=1e-3, at=f"{name} {key}")
    if not readings.rows:
        raise source.bad("k6's summary has no requests and no iterations", "name the summary of a whole test")
    settings = _vus(values.get("vus_max", {}).get("max"), source.name)
    others = len(values.keys() - {n for n, _ in RATES} - {*TRENDS, *SHARES, "vus", "vus_max"})
    notes = (f"{others} other metrics of k6 are not taken in",) if others else ()
    samples = int(values.get("http_reqs", values.get("iterations", {})).get("count", 1))
    return Document("", (Run("all scenarios", settings, readings.done(), samples),), notes)


def _values(metric: Any, source: Source, name: str) -> Mapping[str, Any]:
    """Values of a metric: of --summary-export they stand in the metric itself, of handleSummary under `values`."""
    values = metric.get("values", metric) if isinstance(metric, Mapping) else None
    if not isinstance(values, Mapping):
        raise source.bad(f"its metric {name} has no values", "is it whole, and k6's own output?")
    return values


def _percentile(key: str) -> str:
    match = re.fullmatch(r"p\((\d+(?:\.\d+)?)\)", key)
    return f"p{match[1]}" if match else ""


# ---- the table


@dataclass
class _Scenario:
    times: dict[str, array[float]] = field(default_factory=lambda: {n: array("d") for n in TRENDS})
    counts: dict[str, float] = field(default_factory=dict)
    shares: dict[str, tuple[float, int]] = field(default_factory=dict)
    first: float = float("inf")
    last: float = float("-inf")


def _table(source: Source) -> Document:
    scenarios: dict[str, _Scenario] = {}
    vus_max, others, whole_seconds = 0.0, set(), True
    where, stamp, at = Line(source.name), "", 0.0
    for line, row in source.rows():
        where.number = line
        name = row["metric_name"]
        value = finite(row["metric_value"], where, name)
        if name == "vus_max":
            vus_max = max(vus_max, value)
            continue
        if name == "vus":
            continue
        if name not in _TAKEN:
            others.add(name)
            continue
        label = row.get("scenario") or "default"
        if (of := scenarios.get(label)) is None:
            of = scenarios[label] = _Scenario()
        if row["timestamp"] != stamp:  # those of a whole second have the same
            stamp = row["timestamp"]
            at = _moment(stamp, where)
        whole_seconds &= at == int(at)
        if at < of.first:
            of.first = at
        if at > of.last:
            of.last = at
        if name in TRENDS:
            of.times[name].append(value)
        elif name in SHARES:
            held, count = of.shares.get(name, (0.0, 0))
            of.shares[name] = held + value, count + 1
        else:
            of.counts[name] = of.counts.get(name, 0.0) + value
    if not scenarios:
        raise source.bad("its table has no requests and no iterations", "name the CSV of a whole test")
    notes = []
    if others:
        listed = sorted(others)
        more = " …" if len(listed) > 6 else ""
        notes.append(f"not taken in, {len(listed)} other metrics of k6: {', '.join(listed[:6])}{more}")
    if whole_seconds:
        notes.append("k6's stamps are of whole seconds here, and so is the time that its rates are over")
    settings = _vus(vus_max or None, source.name)
    runs = [_run(label, of, settings, source) for label, of in scenarios.items()]
    return Document("", tuple(runs), tuple(notes))


def _run(label: str, of: _Scenario, settings: Mapping[str, str], source: Source) -> Run:
    readings = Readings(f"{source.name}: scenario {label}", "closed")
    if of.last > of.first:
        for name, unit in RATES:
            if name in of.counts:
                readings.add(name, of.counts[name] / (of.last - of.first), unit, "higher")
    _shares(readings, {name: held / count for name, (held, count) in of.shares.items()})
    for name, times in of.times.items():
        ordered = sorted(times)
        if ordered:
            readings.latency(f"{name}_avg", sum(ordered) / len(ordered), scale=1e-3)
            readings.latency(f"{name}_med", interpolated(ordered, 0.5), scale=1e-3)
            for share in (90, 95, 99):
                readings.latency(f"{name}_p{share}", interpolated(ordered, share / 100), scale=1e-3)
    samples = int(of.counts.get("http_reqs", of.counts.get("iterations", 1)))
    return Run(label, settings, readings.done(), samples, of.first, of.last)


def _shares(readings: Readings, shares: Mapping[str, Any]) -> None:
    loop, readings.loop = readings.loop, ""
    for name, value in shares.items():
        better = "higher" if name == "checks" else "lower"
        readings.add(f"{name}_share", value, "%", better, scale=100, at=name)
    readings.loop = loop


def _vus(most: Any, where: str) -> dict[str, str]:
    return {} if most is None else {"vus_max": f"{finite(most, where, 'vus_max'):g}"}


def _moment(text: str, where: Line) -> float:
    """Seconds since the epoch, of any of k6's time formats."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        number = float(text)
        return number / next((per for least, per in _PER_SECOND if number >= least), 1.0)
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return finite(text, where, "timestamp")
