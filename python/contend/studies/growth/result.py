"""The results of all passes of a run: how each call grows with the population, and where it misses the SLO.

Made from the documents that the workload left in RUN/outputs/TRIAL/growth.json.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from contend.errors import BadInput
from contend.stats.compare import compare
from contend.stats.estimate import MATTERS, Estimate
from contend.stats.trend import PER, SHAPES, Trend, Visit, trend
from contend.store.directory import Row
from contend.store.documents import documents
from contend.store.file_shapes import wrong_growth
from contend.text.shape import HIDDEN, Count, Limits, Named, Shape, Through, computed
from contend.units import format_duration

Document = Mapping[str, Any]
FILE = "growth.json"
QUIET = "quiet"
MODES: Mapping[str, str] = {"mixed": "while it creates", "neighbour": "while a neighbour creates"}
CALLS = ("list", "page", "show", "create", "delete")
LEAST_GROWTH = 1.1
"""A call that is not a tenth slower at the largest population is no finding, however sure its slope is."""


@dataclass(frozen=True)
class Call:
    """One call of one kind. latency: seconds; breaks: the population from which on it misses the SLO; counted: what the
    cloud's counters gained with each call, by what they count; size: bytes of the answer; level: of the interval that
    makes it a finding, of all calls together; beside: by mode the ratio to quiet, within visits."""

    kind: str
    name: str
    latency: Trend
    breaks: Estimate
    counted: Mapping[str, Trend]
    size: Trend | None
    level: float
    beside: Mapping[str, Estimate]

    @property
    def title(self) -> str:
        return f"{self.name} {self.kind}"

    @cached_property
    def together(self) -> Estimate:
        """The slope with an interval that holds simultaneously for all calls of the run."""
        return self.latency.slope_at(self.level)

    @property
    def growing_counts(self) -> dict[str, Trend]:
        return {
            what: of
            for what, of in self.counted.items()
            if of.slope_at(self.level).low > 0 and of.growth >= LEAST_GROWTH
        }

    @property
    def flagged(self) -> bool:
        """Its work grows: a slope above 0 beyond the joint interval. A listing of all grows with its answer; where its
        work is counted, that has to grow too."""
        slower = self.together.low > 0 and self.latency.growth >= LEAST_GROWTH
        return slower and (self.name != "list" or not self.counted or bool(self.growing_counts))


@dataclass(frozen=True, slots=True)
class CountedDocument(Shape):
    """A count, or the size of the answer: with no entities, and for every 100 more."""

    start: Estimate
    slope: Estimate
    shape: Annotated[str, Limits(enum=list(SHAPES))]


@dataclass(frozen=True, slots=True)
class CallDocument(Shape):
    """One call by population. Latencies in s."""

    call: str
    start: Estimate
    at_largest: Estimate
    largest: Annotated[float, "entities in the largest visit"]
    slope: Estimate
    slope_together: Annotated[Estimate, "its interval holds with all others of the run"]
    bend: Annotated[Estimate | None, "what the slope gains with every 100 more"]
    shape: Annotated[str, Limits(enum=list(SHAPES))]
    breaks: Annotated[Estimate, "the population from which on a typical call misses the SLO"]
    counted: Mapping[str, CountedDocument]
    bytes: Annotated[CountedDocument | None, "of the answer"]
    beside: Annotated[Mapping[str, Estimate], "by mode, latency as a multiple of that in quiet"]
    flagged: Annotated[bool, "its work grows with the population"]
    visits: Annotated[tuple[tuple[float, float, float, float], ...], "population, s, control s, at s"]


def _documents(calls: Sequence[Call]) -> list[CallDocument]:
    return [
        CallDocument(
            call=call.name,
            start=call.latency.at(0),
            at_largest=call.latency.at(call.latency.largest),
            largest=call.latency.largest,
            slope=call.latency.slope,
            slope_together=call.together,
            bend=call.latency.bend,
            shape=call.latency.shape,
            breaks=call.breaks,
            counted={what: _counted(of) for what, of in call.counted.items()},
            bytes=None if call.size is None else _counted(call.size),
            beside=call.beside,
            flagged=call.flagged,
            visits=tuple((v.population, v.value, v.control, v.at_s) for v in call.latency.visits),
        )
        for call in calls
    ]


def _counted(of: Trend) -> CountedDocument:
    return CountedDocument(of.at(0), of.slope, of.shape)


def _slope(of: Trend | None) -> Estimate | None:
    return None if of is None else of.slope


@dataclass(frozen=True)
class Grown(Shape):
    """All passes over one kind of entity."""

    kind: str
    passes: Count
    reached: Count
    left_out: Annotated[str, "why there are no figures; empty where there are"]
    modes_left_out: Mapping[str, str]
    stopped: str
    calls: Annotated[tuple[Call, ...], Through(_documents)]
    control: Annotated[Trend | None, Through(_slope), "slope of the call that looks at no entities"]
    flooded_per_s: Mapping[str, float]
    level: Annotated[float, HIDDEN]

    @property
    @computed(before="flooded_per_s")
    def alarm(self) -> Annotated[bool, Named("control_alarm")]:
        """the control changed with the population, beyond what one of the run's controls would by chance"""
        return self.control is not None and self.control.slope_at(self.level).excludes(0.0)


@dataclass(frozen=True)
class Growths(Shape):
    """The passes of a growth study together."""

    slo_s: Annotated[float, "of a typical call"]
    kinds: Annotated[tuple[Grown, ...], "in the order of the plan"]
    problems: Annotated[Mapping[str, Count], "calls that failed, by what the cloud said"]
    requests: Annotated[Mapping[str, Count], "requests, and what went wrong with them"]

    @property
    def calls(self) -> list[Call]:
        return [call for grown in self.kinds for call in grown.calls]

    @property
    def flagged(self) -> list[Call]:
        """Calls whose work grows, the one that grew by most seconds first."""
        return sorted(
            (c for c in self.calls if c.flagged), key=lambda c: -c.together.value * c.latency.largest
        )

    @property
    def modes(self) -> list[str]:
        """Modes beside `quiet` that have figures."""
        return [mode for mode in MODES if any(mode in call.beside for call in self.calls)]


def read(
    run: Path,
    rows: Iterable[Row],
    kinds: Sequence[str],
    slo_s: float,
    level: float = 0.95,
    matters: float = MATTERS,
) -> Growths | None:
    """Growths of a run's counted trials; None where none is on record. rows: of trials.ndjson."""
    by_kind: dict[str, list[tuple[str, Document]]] = {}
    in_order = sorted(rows, key=lambda row: (row["block"], row["trial"]))
    for row, document in documents(run, in_order, FILE, wrong_growth):
        by_kind.setdefault(document["kind"], []).append((str(row["trial"]), document))
    if not by_kind:
        return None
    ordered = [(kind, by_kind[kind]) for kind in dict.fromkeys((*kinds, *by_kind)) if kind in by_kind]
    together = sum(len(_names(passes)) for _, passes in ordered)
    controls = sum(1 for _, passes in ordered if _names(passes))
    every = [document for _, passes in ordered for _, document in passes]
    return Growths(
        slo_s,
        tuple(
            _grown(
                kind,
                passes,
                slo_s,
                level,
                1 - (1 - level) / max(1, together),
                1 - (1 - level) / max(1, controls),
                matters,
            )
            for kind, passes in ordered
        ),
        _sum(document["problems"] for document in every),
        _sum(document["requests"] for document in every),
    )


Passes = Sequence[tuple[str, Document]]


def _grown(
    kind: str, passes: Passes, slo_s: float, level: float, joint: float, of_controls: float, matters: float
) -> Grown:
    documents = [document for _, document in passes]
    calls = []
    for name in _names(passes):
        latency = _trend(_visits(passes, name), "s", level, matters)
        if latency is None:
            continue
        counts = dict.fromkeys(w for _, _, call in _calls(passes, name) for w in call["counted"])
        counted = {
            what: of
            for what in counts
            if (
                of := _trend(
                    _work(passes, name, lambda c, w=what: c["counted"].get(w, 0)), what, level, matters
                )
            )
        }
        size = _trend(_work(passes, name, lambda call: call["bytes"]), "B", level, matters)
        beside = _beside(passes, name, level, matters)
        calls.append(Call(kind, name, latency, latency.breaks(slo_s), counted, size, joint, beside))
    control = _trend(
        [
            Visit(v["population"], v["control_s"], 0.0, v["at_s"], series)
            for series, v in _quiet(passes)
            if v["control_s"]
        ],
        "s",
        level,
        matters,
    )
    return Grown(
        kind,
        len(passes),
        max(int(d["reached"]) for d in documents),
        "; ".join(dict.fromkeys(d["left_out"] for d in documents if d["left_out"])),
        {mode: why for d in documents for mode, why in d["modes_left_out"].items()},
        "; ".join(dict.fromkeys(d["stopped"] for d in documents if d["stopped"])),
        tuple(calls),
        control,
        _flooded(passes),
        of_controls,
    )


def _names(passes: Passes) -> list[str]:
    there = {name for _, visit in _quiet(passes) for name in visit["calls"]}
    return [name for name in CALLS if name in there]


def _quiet(passes: Passes) -> list[tuple[str, Document]]:
    """Visits without a flood, with the pass they are of, in the order of time."""
    return [(series, v) for series, d in passes for v in d["visits"] if v["mode"] == QUIET]


def _calls(passes: Passes, name: str) -> list[tuple[str, Document, Document]]:
    return [
        (series, visit, visit["calls"][name])
        for series, visit in _quiet(passes)
        if visit["calls"].get(name, {}).get("median_s")
    ]


def _visits(passes: Passes, name: str) -> list[Visit]:
    return [
        Visit(visit["population"], call["median_s"], visit["control_s"] or 0.0, visit["at_s"], series)
        for series, visit, call in _calls(passes, name)
    ]


def _work(passes: Passes, name: str, value: Any) -> list[Visit]:
    """Visits of what does not hang on how fast the host is: neither control nor time beside it."""
    return [
        Visit(visit["population"], value(call), series=series) for series, visit, call in _calls(passes, name)
    ]


def _trend(visits: Sequence[Visit], unit: str, level: float, matters: float) -> Trend | None:
    """None where the visits are too few, or the call does none of it at times."""
    if not visits or min(visit.value for visit in visits) <= 0:
        return None
    try:
        return trend(visits, unit, level, matters)
    except BadInput:
        return None


def _beside(passes: Passes, name: str, level: float, matters: float) -> dict[str, Estimate]:
    """Latency under each flood over that in quiet, visit by visit."""
    ratios = {}
    for mode in MODES:
        quiet, flooded = [], []
        for _, document in passes:
            stops: dict[tuple[str, int], dict[str, float]] = {}
            for visit in document["visits"]:
                took = visit["calls"].get(name, {}).get("median_s")
                if took:
                    stops.setdefault((visit["way"], visit["made"]), {})[visit["mode"]] = took
            both = [stop for stop in stops.values() if QUIET in stop and mode in stop]
            quiet += [stop[QUIET] for stop in both]
            flooded += [stop[mode] for stop in both]
        if quiet:
            ratios[mode] = compare(quiet, flooded, level=level).judged(matters)
    return ratios


def _flooded(passes: Passes) -> dict[str, float]:
    """Creations a second, by mode."""
    rates: dict[str, list[float]] = {}
    for _, document in passes:
        for visit in document["visits"]:
            if visit["mode"] != QUIET:
                rates.setdefault(visit["mode"], []).append(float(visit["flooded_per_s"]))
    return {mode: math.fsum(values) / len(values) for mode, values in rates.items()}


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def answer(growths: Growths) -> str:
    """The run's answer in one sentence or two."""
    if not growths.calls:
        return "No call could be followed over a growing population."
    flagged = growths.flagged
    kinds = sum(bool(grown.calls) for grown in growths.kinds)
    many = f"{len(growths.calls)} calls about {kinds} kind{'s' if kinds != 1 else ''} of entities"
    if flagged:
        worst = flagged[0]
        text = (
            f"{len(flagged)} of {many} do more work as the cloud fills; {worst.title} most:"
            f" {milliseconds(worst.latency.slope)} ms for every {PER:g} more."
        )
    else:
        undecided = sum(call.latency.shape == "undecided" for call in growths.calls)
        text = f"None of {many} is shown to do more work as the cloud fills"
        text += f"; whether {undecided} of them grow is undecided." if undecided else "."
    reached = [call for call in growths.calls if call.breaks.verdict != "refused"]
    if reached:
        first = min(reached, key=lambda call: call.breaks.value)
        slo = format_duration(1e9 * growths.slo_s)
        at = "from the first entity on" if first.breaks.value == 0 else f"at {broken(first.breaks)}"
        text += f" {first.title[0].upper()}{first.title[1:]} is the first to miss the SLO of {slo}, {at}."
    return text


def milliseconds(of: Estimate) -> str:
    """Write seconds as milliseconds, `24.5 [23.9, 25.1]`.

    >>> milliseconds(Estimate(0.02451, 0.0239, 0.0251, "s per 100", 20, 0.95, "", "higher"))
    '24.5 [23.9, 25.1]'
    """
    ends = [1e3 * value for value in (of.value, of.low, of.high)]
    digits = _digits(ends)
    value, low, high = (f"{end:.{digits}f}" for end in ends)
    return f"{value} [{low}, {high}]"


def _digits(values: list[float]) -> int:
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return 0 if largest >= 100 else 1 if largest >= 10 else 2


def broken(at: Estimate) -> str:
    """The population at which the SLO is missed, in words.

    >>> broken(Estimate(1240.4, 1190.2, 1302.0, "entities", 20, 0.95, "", "level"))
    '1240 [1190, 1302]'
    >>> broken(Estimate(math.inf, math.inf, math.inf, "entities", 20, 0.95, "", "refused"))
    'not within reach'
    >>> broken(Estimate(math.inf, 850.2, math.inf, "entities", 20, 0.95, "", "refused"))
    'not before 850'
    """
    if at.verdict == "refused":
        if math.isinf(at.low):
            return "not within reach"
        return f"not before {at.low:.0f}" if at.low > 0 else "cannot be told"
    if at.value == 0:
        return "the first on"
    high = f"{at.high:.0f}" if math.isfinite(at.high) else "?"
    return f"{at.value:.0f} [{at.low:.0f}, {high}]"
