"""Results of the storms of a run: for each size the figures with intervals, phases and CPU by role; and how they grow.

Made from the documents that the workload left in RUN/outputs/TRIAL/storm.json.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from contend.contention.scaling import Key, Scaling, scale
from contend.contention.scaling import Storm as Batch
from contend.errors import BadInput
from contend.stats.compare import compare
from contend.stats.estimate import MATTERS, Estimate
from contend.stats.levels import level
from contend.stats.scaling import StormTimes, load_of
from contend.store.cells import PlannedCell
from contend.store.directory import Row, RunDirectory
from contend.store.documents import documents
from contend.store.file_shapes import wrong_storm
from contend.studies.storm.beside import (
    Serving,
    Stamps,
    Traced,
    anyway_of,
    counts_of,
    serving_of,
    stamps_of,
    traced,
)
from contend.text.shape import HIDDEN, Count, Named, Shape, Through, computed

Document = Mapping[str, Any]
FILE = "storm.json"
# Figures of one storm, by their key in the document.
FIGURES = {
    "min": "min_s",
    "median": "median_s",
    "p90": "p90_s",
    "max": "max_s",
    "makespan": "makespan_s",
    "accepted": "accepted_s",
    "running": "running_s",  # only where their maker has an exact stamp of it
    "deletion": "delete_median_s",
    "all deleted": "delete_makespan_s",
    "width": "width_s",
    "client CPU": "client_cpu_s",
    "polling": "asking_share",
}


@dataclass(frozen=True, slots=True)
class Size(Shape):
    """All counted storms of one size on one network."""

    cell: str
    n: Count
    network: str
    storms: Count
    levels: Annotated[
        Mapping[str, Estimate], "of one storm's figures, s: median, p90, max, makespan, accepted …"
    ]
    phases: Annotated[
        Mapping[str, float],
        Named("phases_s"),
        "of a mean server, from due to ACTIVE; `guest`: from there to its answer, if all answered",
    ]
    cpu: Annotated[
        Mapping[str, float], Named("cpu_s_per_boot"), "by role; empty where the cloud runs elsewhere"
    ]
    failed: Count
    counts: Annotated[
        Mapping[str, Estimate],
        Named("counts_per_boot"),
        "by the cloud's own counters, without the background and the polls: statements, `statements of NAME`, commits,"
        " messages …; empty where they cannot be read",
    ]
    serving: Annotated[Serving | None, "null where guests were not asked"]

    @property
    def cpu_per_boot(self) -> float | None:
        """CPU seconds of all services; None where the cloud runs elsewhere."""
        return sum(self.cpu.values()) if self.cpu else None


@dataclass(frozen=True, slots=True)
class GrowthDocument(Shape):
    """The batch law of the sizes on one network; median, p90 and makespan, ns."""

    network: str
    start: Mapping[str, Estimate]
    per_server: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class NetworksDocument(Shape):
    """One size on two networks: ratio of medians within blocks."""

    n: Count
    baseline: str
    treatment: str
    estimate: Estimate


def _growth_documents(by_network: Mapping[str, Scaling]) -> list[GrowthDocument]:
    return [
        GrowthDocument(
            network,
            {name: line.start for name, line in of.law.lines.items()},
            {name: line.slope for name, line in of.law.lines.items()},
        )
        for network, of in by_network.items()
    ]


def _network_documents(by_size: Mapping[int, tuple[str, str, Estimate]]) -> list[NetworksDocument]:
    return [NetworksDocument(n, *of) for n, of in by_size.items()]


@dataclass(frozen=True)
class Storms(Shape):
    """The storms of a storm study together."""

    sizes: tuple[Size, ...]
    growth: Annotated[Mapping[str, Scaling], Through(_growth_documents)]
    networks: Annotated[Mapping[int, tuple[str, str, Estimate]], Through(_network_documents)]
    """By size: the ratio of medians of the second network to the first, where there are two."""
    problems: Annotated[
        Mapping[str, Count], "machines that did not come to what was awaited, by what their maker said"
    ]
    requests: Annotated[Mapping[str, Count], "requests, and what went wrong with them"]
    counted: Annotated[tuple[Mapping[str, float], Mapping[str, float]], HIDDEN]
    """Statements and messages of a second in which nothing was asked for, and of one poll."""
    disagree: Annotated[Count, "servers whose own stamps contradict what the client saw"]
    awaited: Annotated[str, "what a storm waits for: ACTIVE, served"] = "ACTIVE"
    platform: Annotated[
        str, "what machines of this host were, emulated or not; `bare` for a cloud's servers"
    ] = "bare"
    stamps: Stamps | None = None
    traced: Traced | None = None
    cpus: Annotated[int, HIDDEN] = 0
    """Of this host; 0 where that is not on record."""
    noun: Annotated[str, HIDDEN] = "server"
    """What one of them is called."""

    @property
    @computed(before="disagree")
    def background_per_s(self) -> Mapping[str, float]:
        """what the counters count while nothing is asked for"""
        return self.counted[0]

    @property
    @computed(before="disagree")
    def per_poll(self) -> Mapping[str, float]:
        """and for one of our polls"""
        return self.counted[1]

    @property
    def local(self) -> bool:
        """True if the storms were of machines on this host."""
        return self.platform != "bare"

    @property
    def networked(self) -> bool:
        """True if there are storms on several networks, so that a size alone names none of them."""
        return len({size.network for size in self.sizes}) > 1

    @cached_property
    def has_cpu(self) -> bool:
        return any(size.cpu for size in self.sizes)


def read(
    run: Path,
    rows: Iterable[Row],
    planned: Iterable[PlannedCell],
    at: float = 0.95,
    matters: float = MATTERS,
    *,
    traces: str = "",
    noun: str = "server",
) -> Storms | None:
    """The storms of a run's counted trials; None where none is on record. rows: of trials.ndjson; planned: its cells;
    traces: directory of the services' traces, where they are recorded; noun: what one of them is called.
    """
    planned = tuple(planned)
    measures = {cell.id: cell.measures for cell in planned}
    servers = {cell.id: cell.values.numbers["n"] for cell in planned}
    cells: dict[str, list[tuple[Mapping[str, Any], Document]]] = {}
    ordered = sorted(rows, key=lambda row: (row["block"], row["trial"]))
    for row, document in documents(run, ordered, FILE, wrong_storm):
        # The storms of the control are storms of that size like any other.
        cells.setdefault(measures[row["cell"]], []).append((row, document))
    if not cells:
        return None
    sizes = tuple(
        sorted(
            (_size(cell, int(servers[cell]), of_cell, at) for cell, of_cell in cells.items()),
            key=lambda s: (s.network, s.n),
        )
    )
    every = [document for of_cell in cells.values() for _, document in of_cell]
    return Storms(
        sizes,
        _growth(cells, at, matters),
        _networks(sizes, cells, at, matters),
        _sum(document["problems"] for document in every),
        _sum(document["counts"] for document in every),
        anyway_of(every),
        sum(int(document["disagree"]) for document in every),
        every[0].get("awaited", "ACTIVE"),
        next(iter(cells.values()))[0][0]["factors"].get("platform", "bare"),
        stamps_of(every),
        traced(run, traces, {cell: [d for _, d in of] for cell, of in cells.items()}) if traces else None,
        _cpus(run),
        noun,
    )


def _cpus(run: Path) -> int:
    return int(RunDirectory(run).environment().get("cpus", 0))


def _size(cell: str, n: int, of_cell: Sequence[tuple[Mapping[str, Any], Document]], at: float) -> Size:
    documents = [document for _, document in of_cell]
    boots = sum(int(d["served"]) for d in documents)
    serving = serving_of(documents, at)
    guest = {"guest": serving.levels["guest"].value} if serving and "guest" in serving.levels else {}
    return Size(
        cell,
        n,
        str(of_cell[0][0]["factors"]["network"]),
        len(documents),
        {
            name: level([d[key] for d in documents], "ratio" if key == "asking_share" else "s", at)
            for name, key in FIGURES.items()
            if all(d.get(key) is not None for d in documents)
        },
        _means(d["phases_s"] for d in documents) | guest,
        {role: s / boots for role, s in _sums(d["cpu_s"] for d in documents).items()} if boots else {},
        sum(int(d["failed"]) for d in documents),
        counts_of(documents, at),
        serving,
    )


def _growth(
    cells: Mapping[str, Sequence[tuple[Mapping[str, Any], Document]]], at: float, matters: float
) -> dict[str, Scaling]:
    batches: dict[str, list[Batch]] = {}
    for of_cell in cells.values():
        for row, document in of_cell:
            batches.setdefault(str(row["factors"]["network"]), []).append(_batch(row, document))
    grown = {}
    for network, storms in batches.items():
        try:
            grown[network] = scale(storms, level=at, matters=matters)
        except BadInput:  # one size, too few storms, or sent at a rate: no law to be told
            continue
    return grown


def _batch(row: Mapping[str, Any], document: Document) -> Batch:
    served = [(s["due_s"], s) for s in document["servers"] if s["active_s"] and s["due_s"] is not None]
    begins = [round(due_s * 1e9) for due_s, _ in served]
    # Earlier documents have the middle in mind.
    ends = [round((s.get("active_at_s") or sum(s["active_s"]) / 2) * 1e9) for _, s in served]
    times = StormTimes(len(served), *(document[k] * 1e9 for k in ("median_s", "p90_s", "makespan_s")))
    parts = {Key("running", name): s * 1e9 for name, s in document["phases_s"].items()}
    mean = (sum(ends) - sum(begins)) / max(1, len(served))
    return Batch(
        f"trial {row['trial']}", "boot", times, load_of(begins, ends), mean, parts, {}, {}, frozenset()
    )


def _networks(
    sizes: Sequence[Size],
    cells: Mapping[str, Sequence[tuple[Mapping[str, Any], Document]]],
    at: float,
    matters: float,
) -> dict[int, tuple[str, str, Estimate]]:
    """Where a size was stormed on two networks: their medians, compared within blocks."""
    by_size: dict[int, list[Size]] = {}
    for size in sizes:
        by_size.setdefault(size.n, []).append(size)
    compared = {}
    for n, pair in by_size.items():
        if len(pair) != 2:
            continue
        first, second = sorted(pair, key=lambda size: (size.network != "none", size.network))
        values, blocks = zip(*(_once(size.cell, cells[size.cell]) for size in (first, second)), strict=True)
        if not all(values):  # of one of them there is no storm yet but the control's
            continue
        estimate = compare(values[0], values[1], blocks=(blocks[0], blocks[1]), level=at)
        compared[n] = (first.network, second.network, estimate.judged(matters))
    return compared


def _once(
    cell: str,
    of_cell: Sequence[tuple[Mapping[str, Any], Document]],
) -> tuple[list[float], list[int]]:
    """Medians of the cell's own storms with their blocks, those of the control left out: one a block."""
    own = [(row, d) for row, d in of_cell if row["cell"] == cell]
    return [float(d["median_s"]) for _, d in own], [int(row["block"]) for row, _ in own]


def _means(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    listed = list(parts)
    names = dict.fromkeys(name for part in listed for name in part)
    return {name: statistics.fmean(part.get(name, 0.0) for part in listed) for name in names}


def _sums(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def answer(storms: Storms) -> str:
    """The run's answer in one sentence or two."""
    sentences = []
    for network, of in storms.growth.items():
        where = f" with network {network}" if len(storms.growth) > 1 else ""
        slope = of.law.median.slope
        each = f"{slope.value / 1e9:.2g} s [{slope.low / 1e9:.2g}, {slope.high / 1e9:.2g}]"
        if slope.verdict == "higher":
            sentences.append(f"Each extra {storms.noun} adds {each} to the median{where}.")
        elif slope.verdict == "undecided":
            sentences.append(
                f"Whether the median grows with the number of {storms.noun}s is undecided{where}: {each} each."
            )
        else:
            sentences.append(
                f"The median does not grow with the number of {storms.noun}s{where}: {each} each."
            )
    largest = max(storms.sizes, key=lambda size: size.n)
    median, most = largest.levels["median"], largest.levels["max"]
    words = f"{largest.n} at once take {median.value:.2f} s (median), {most.value:.2f} s (the slowest)"
    words += f", {storms.platform}" if storms.local else ""
    return " ".join(
        [*sentences, words + (f" with network {largest.network}." if len(storms.growth) > 1 else ".")]
    )
