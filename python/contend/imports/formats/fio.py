"""fio's `--output-format=json` and json+.

Source: fio, stat.c (show_thread_status_json, add_ddir_status_json) and HOWTO: rates are per second, latencies in ns with
their percentiles as text keys; `runtime` in ms, `timestamp_ms` is when the report was written, at the end. With
--status-interval a file holds the report so far again and again: the last is of the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contend.imports.document import Document, Readings, Run, finite, flat, items
from contend.imports.json_text import Collectors
from contend.imports.source import Source

WAYS = ("mixed", "read", "write", "trim")
PERCENTILES = ("50", "99", "99.9")  # where the job declares none of its own
# What says nothing of what was measured.
_BESIDE = {
    "name",
    "output",
    "output-format",
    "randseed",
    "status-interval",
    "eta",
    "group_reporting",
    "description",
}

_OF_A_JOB = {"jobname", "hostname", "error", "job options", *WAYS}
_OF_A_WAY = {"total_ios", "runtime", "iops", "bw_bytes", "bw", "clat_ns", "lat_ns"}


def is_mine(document: Any) -> bool:
    return isinstance(document, Mapping) and "fio version" in document


def read(source: Source) -> Document:
    report = None
    for document in source.documents():  # text may follow: of --output-format=json,normal
        if is_mine(document):
            report = document
    if report is None:
        raise source.bad("it holds no report of fio", "fio --output-format=json --output=FILE writes one")
    key = "client_stats" if "client_stats" in report else "jobs"
    jobs = [j for j in _jobs(report, key, source.name) if j.get("jobname") != "All clients"]
    common = report.get("global options", {})
    ended = report.get("timestamp_ms")
    ended_s = None if ended is None else finite(ended, source.name, "timestamp_ms") / 1000
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for job in jobs:
        where = f" on {job['hostname']}" if key == "client_stats" and job.get("hostname") else ""
        grouped.setdefault(f"{job.get('jobname', 'job')}{where}", []).append(job)
    notes: list[str] = []
    runs = [_run(label, clones, common, ended_s, source, notes) for label, clones in grouped.items()]
    return Document(str(report["fio version"]), tuple(runs), tuple(notes))


class _Jobs:
    """The jobs of a report without what nothing is read of: json+ has a count for each latency there was."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def add(self, item: Any) -> None:
        if isinstance(item, dict):
            item = {k: _slim_way(v) if k in WAYS else v for k, v in item.items() if k in _OF_A_JOB}
        self.entries.append(item)


COLLECTORS: Collectors = {".jobs": _Jobs, ".client_stats": _Jobs}


def _slim_way(way: Any) -> Any:
    if not isinstance(way, dict):
        return way
    kept = {k: v for k, v in way.items() if k in _OF_A_WAY} if way.get("total_ios") else {}
    for kind in ("clat_ns", "lat_ns"):
        if isinstance(kept.get(kind), dict):
            kept[kind] = {k: v for k, v in kept[kind].items() if k != "bins"}
    return kept


def _jobs(report: Mapping[str, Any], key: str, where: str) -> list[Any]:
    jobs = report.get(key)
    return jobs.entries if isinstance(jobs, _Jobs) else list(items(report, key, where))


def _run(
    label: str,
    clones: Sequence[Mapping[str, Any]],
    common: Mapping[str, Any],
    ended_s: float | None,
    source: Source,
    notes: list[str],
) -> Run:
    """One job; its clones (numjobs without group_reporting) ran at the same time: their rates add up."""
    where = f"{source.name}: job {label}"
    options = {**common, **clones[0].get("job options", {})}
    settings = {k: v or "1" for k, v in flat(options).items() if k not in _BESIDE}
    failed = [clone["error"] for clone in clones if clone.get("error")]
    if failed:
        return Run(label, settings, (), 0, error=f"fio ended it with error {failed[0]}")
    readings = Readings(where)
    requests, took_s = 0, 0.0
    rated = any("rate_iops" in o or "rate" in o for o in (options,))
    for way in WAYS:
        active = [clone[way] for clone in clones if clone.get(way, {}).get("total_ios")]
        if not active:
            continue
        requests += sum(int(a["total_ios"]) for a in active)
        took_s = max(took_s, *(finite(a.get("runtime", 0), where, f"{way} runtime") / 1000 for a in active))
        for name, key, unit, scale in (("iops", "iops", "IOPS", 1.0), ("bw", "bw_bytes", "MB/s", 1e-6)):
            values = [finite(a.get(key, _old_bandwidth(a, key)), where, f"{way} {key}") for a in active]
            readings.add(f"{way}_{name}", sum(values), unit, "higher", scale=scale)
        _latencies(readings, way, active, options, notes, label)
    if not readings.rows:
        return Run(label, settings, (), 0, error="the job did no request")
    if rated and len(clones) == 1:
        notes.append(
            f"{label}: fio was given a rate, and still times a request from when it was sent, not from when it was due"
        )
    began = None if ended_s is None else ended_s - took_s
    return Run(label, settings, readings.done(), requests, began, ended_s)


def _old_bandwidth(way: Mapping[str, Any], key: str) -> Any:
    """Before fio 3 there is `bw` in KiB/s only."""
    return way["bw"] * 1024 if key == "bw_bytes" and "bw" in way else None


def _latencies(
    readings: Readings,
    way: str,
    active: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    notes: list[str],
    label: str,
) -> None:
    readings.loop = "closed"
    for kind in ("clat", "lat"):
        each = [a[f"{kind}_ns"] for a in active if a.get(f"{kind}_ns", {}).get("N")]
        if len(each) != len(active):
            continue
        total = sum(e["N"] for e in each)
        mean = (
            sum(finite(e.get("mean"), readings.where, f"{way} {kind}_ns.mean") * e["N"] for e in each) / total
        )
        readings.latency(f"{way}_{kind}_mean", mean, scale=1e-9)
        percentiles = [e.get("percentile", {}) for e in each]
        if len(each) > 1 and percentiles[0]:
            note = f"{label}: percentiles of {len(each)} clones cannot be added up; fio's --group_reporting has them of all"
            if note not in notes:
                notes.append(note)
            continue
        wanted = None if "percentile_list" in options else PERCENTILES
        for key, value in percentiles[0].items():
            name = f"{float(key):g}"
            if wanted is None or name in wanted:
                readings.latency(
                    f"{way}_{kind}_p{name}", value, scale=1e-9, at=f"{way} {kind}_ns.percentile {key}"
                )
    readings.loop = ""
