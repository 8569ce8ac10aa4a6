"""Storms of several sizes and what a larger one would take, by the batch law: of a run of `boot-storm`, without traces.

A line through storms of N = 1, 2, 5 says what 20 would take only as long as what made the line goes on to do so. It is
refused where the hardware was at its limit in any of the sizes, where it would be at that of the larger one by the CPU time
that a boot is known to cost, where the law does not predict its own largest size, and further out than it was tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.contention.alibi.cells import cell_alibis
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import CellAlibi
from contend.contention.alibi.words import short
from contend.contention.whatif.gate import Gate
from contend.contention.whatif.prediction import Whatif
from contend.contention.whatif.regime import FULL_USE, Regime
from contend.contention.whatif.storms import Edit
from contend.contention.whatif.times import KEYS, Predicted, Times
from contend.errors import BadInput
from contend.stats.scaling import Line, line
from contend.store.cells import by_id
from contend.store.directory import RunDirectory
from contend.store.documents import documents
from contend.store.file_shapes import wrong_storm
from contend.store.rows import latest

FILE = "storm.json"
LAW = "batch law"
STRAIGHT = 0.05  # so little the largest size may be off the line of the others, however sure these are
Document = Mapping[str, Any]


def has_storms(path: Path) -> bool:
    """True if the run's trials were storms on a cloud, without traces."""
    return (path / "plan.json").is_file() and any(path.glob(f"outputs/*/{FILE}"))


def measured(run: Path) -> dict[int, list[Document]]:
    """Read counted storms, by their number of servers. Raises BadInput for those that allow no prediction of a larger
    one."""
    by_servers: dict[int, list[Document]] = {}
    networks: set[str] = set()
    opened = RunDirectory.open(str(run))
    for row, document in documents(run, latest(opened.rows(opened.plan())), FILE, wrong_storm):
        if document.get("rate"):
            raise BadInput(
                f"{run}: its servers were sent at a rate, not at once",
                hint="the batch law is for storms: rate=0",
            )
        networks.add(str(row["factors"].get("network", "")))
        by_servers.setdefault(int(document["served"]), []).append(document)
    if len(networks) > 1:
        raise BadInput(
            f"{run}: its storms differ in more than their size",
            hint="a run of one network, with --set n=[1,2,5]",
        )
    return by_servers


def times(document: Document) -> Times:
    """Read the times of one storm, ns."""
    return Times(*(float(document[key.replace("_ns", "_s")]) * 1e9 for key in KEYS))


def predict(run: Path, jobs: int) -> Whatif:
    """Forecast a storm of that many servers. Raises BadInput where sizes or storms are too few for a line."""
    storms = measured(run)
    of = [(n, times(document)) for n, documents in sorted(storms.items()) for document in documents]
    lines = {key: line([(n, getattr(one, key)) for n, one in of], "ns") for key in KEYS}
    predicted = {}
    for key, fitted in lines.items():
        forecast = fitted.at(jobs)
        known = forecast.verdict == "level"
        predicted[key] = Predicted(
            forecast.value, max(0.0, forecast.low) if known else None, forecast.high if known else None
        )
    largest = max(storms)
    alibis = _alibis(run)
    regime = _regime(alibis)
    reason = (
        _hardware(regime)
        or _room(run, storms[largest], jobs, predicted["makespan_ns"].value)
        or _law(lines, jobs)
    )
    check = lines["makespan_ns"].check
    return Whatif(
        (str(run),),
        (Edit("jobs", "", jobs),),
        largest,
        Times.mean([times(document) for document in storms[largest]]),
        predicted,
        Gate(abs(check.error) if check is not None else 0.0, reason is None, reason),
        regime,
        (),
        (_from(storms), *(f"n = {a.factors.get('n', '?')}: {a.text}" for a in alibis if a.verdict != "idle")),
        method=LAW,
    )


def _from(storms: Mapping[int, Sequence[Document]]) -> str:
    sizes = ", ".join(f"{n} ({len(of)} storms)" for n, of in sorted(storms.items()))
    return f"a straight line through the storms of {sizes}; recorded is what the largest of these took"


def _alibis(run: Path) -> Sequence[CellAlibi]:
    directory = RunDirectory.open(str(run))
    plan = directory.plan()
    planned = by_id(plan)
    alibis = cell_alibis(latest(directory.rows(plan)), Recording.of_run(directory))
    return [alibi for alibi in alibis if not planned[alibi.cell].control]


def _regime(alibis: Sequence[CellAlibi]) -> Regime:
    """The regime of all sizes: one in which the hardware was at its limit is enough."""
    limits = [alibi for alibi in alibis if alibi.verdict not in ("idle", "unknown")]
    if limits:
        reason = "; ".join(f"{short(alibi)} in {alibi.cell}" for alibi in limits)
        return Regime(
            "CPU-bound" if any(a.verdict in _CPU for a in limits) else "mixed", None, None, None, reason
        )
    if alibis and all(alibi.verdict == "idle" for alibi in alibis):
        return Regime("blocked", None, None, None, "the hardware was idle in storms of every size")
    return Regime("not known", None, None, None, "what the hardware did is not on record for every size")


_CPU = ("cpu", "thread", "steal", "throttling")


def _hardware(regime: Regime) -> str | None:
    if regime.kind in ("blocked", "not known"):
        return None
    return f"the hardware was at its limit, so the line is that of its load and need not go on: {regime.why}"


def _room(run: Path, largest: Sequence[Document], jobs: int, makespan_ns: float) -> str | None:
    """The CPU time of the cloud's services, where they run here."""
    boots = sum(int(document["served"]) for document in largest)
    each_s = sum(sum(document["cpu_s"].values()) for document in largest) / max(boots, 1)
    processors = int(RunDirectory(run).environment().get("cpus", 0))
    if not processors:
        return None
    has_s = processors * makespan_ns / 1e9
    if each_s * jobs < FULL_USE * has_s:
        return None
    return (
        f"{jobs} boots cost the cloud's services {each_s * jobs:.1f} CPU-s ({each_s:.2f} each), and {processors} processors"
        f" have {has_s:.1f} in the {makespan_ns / 1e9:.1f} s that the line says: they would be the limit"
    )


def _law(lines: Mapping[str, Line], jobs: int) -> str | None:
    """Its own doubts."""
    for name in ("median", "makespan"):
        key = f"{name}_ns"
        forecast = lines[key].at(jobs)
        if forecast.verdict != "level":
            return "; ".join(forecast.warnings)
        check = lines[key].check
        if check is not None and not check.inside and abs(check.error) > STRAIGHT:
            return (
                f"not a straight line: without n = {check.jobs} the {name} there is predicted"
                f" {check.error * 100:+.0f} % off"
            )
    return None
