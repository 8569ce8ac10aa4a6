"""Records beside the storms of a run: counts, guests, notifications, and what their services' traces say.

Traces are read once; what they say is kept in RUN/traced.json.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from contend.clouds.storm.counted import POLLS
from contend.clouds.traced import Window, counts, length, per_item
from contend.errors import BadInput, ContendError, HostFailed
from contend.stats.estimate import Estimate
from contend.stats.levels import level
from contend.store.directory import RunDirectory
from contend.text.shape import Count, Shape, Through

Document = Mapping[str, Any]
FILE = "traced.json"
SCHEMA_VERSION = 1
# What a boot is, the best first: on its host where --include names it, as the API's request else.
BOOTS = ("*_do_build_and_run_instance", "POST /v2.1/servers", "POST *servers")
_FINDINGS = 3


@dataclass(frozen=True, slots=True)
class Serving(Shape):
    """The guests, by TCP or HTTP to their own addresses."""

    answered: Count
    at_once: Annotated[Count, "to the first attempt: not known to be the guest"]
    timed_out: Annotated[Count, "no answer in time"]
    levels: Annotated[
        Mapping[str, Estimate],
        "s from due to the answer, none unless all answered; after_active and guest (a mean one's) from ACTIVE; width: of"
        " the interval in which it came",
    ]


@dataclass(frozen=True, slots=True)
class Stamps(Shape):
    """Nova's notifications beside what was seen without them."""

    heard: Annotated[Count, "servers"]
    inside: Annotated[Count, "of these, stamps inside the interval that was seen"]
    error_s: Annotated[float, "from the interval's middle to the stamp, median"]
    largest_error_s: float


def counts_of(documents: Sequence[Document], at: float) -> dict[str, Estimate]:
    """Counts of one boot, over storms. A name that one storm lacks was not counted in it yet: a user's first statement."""
    counted = [d["counted"]["per_boot"] for d in documents if d.get("counted")]
    names = dict.fromkeys(name for one in counted for name in one)
    return {name: level([float(one.get(name, (0.0,))[0]) for one in counted], "", at) for name in names}


def anyway_of(documents: Sequence[Document]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean counts of a second without any request, and of one poll."""
    counted = [d["counted"] for d in documents if d.get("counted")]
    return _means([c["background_per_s"] for c in counted]), _means([c["per_poll"] for c in counted])


def _means(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) / len(parts) for name in names}


def serving_of(documents: Sequence[Document], at: float) -> Serving | None:
    """When guests answered first, over storms; None where no guest was tried."""
    servings = [d["serving"] for d in documents if d.get("serving")]
    if not servings:
        return None
    timed_out, at_once = (sum(int(one[key]) for one in servings) for key in ("timed_out", "at_once"))
    # Documents of earlier versions lack the last two.
    known = ("median", "p90", "max", "after_active", "guest", "width")
    names = (
        ()
        if timed_out or at_once
        else [name for name in known if all(f"{name}_s" in one for one in servings)]
    )
    levels = {name: level([one[f"{name}_s"] for one in servings], "s", at) for name in names}
    return Serving(sum(int(one["answered"]) for one in servings), at_once, timed_out, levels)


def stamps_of(documents: Sequence[Document]) -> Stamps | None:
    """Nova's notifications over storms; None where none was received."""
    stamps = [d["stamps"] for d in documents if d.get("stamps")]
    if not stamps:
        return None
    return Stamps(
        sum(int(one["heard"]) for one in stamps),
        sum(int(one["inside"]) for one in stamps),
        statistics.median(float(one["error_s"]) for one in stamps),
        max(float(one["largest_error_s"]) for one in stamps),
    )


@dataclass(frozen=True, slots=True)
class TracedFinding(Shape):
    """A finding of the hunt."""

    sentence: str
    advice: str
    kind: str
    resource: str


def _findings(documents: Sequence[Mapping[str, str]]) -> list[TracedFinding]:
    return [TracedFinding(**one) for one in documents]


@dataclass(frozen=True)
class Traced(Shape):
    """One boot by the services' own traces."""

    services: Annotated[
        Mapping[str, Mapping[str, Mapping[str, float]]],
        "by cell and service: statements, commits, rollbacks, calls, casts, replies",
    ]
    findings: Annotated[
        Sequence[Mapping[str, str]], Through(_findings), "the first of a hunt over all traces"
    ] = ()
    jobs: Annotated[str, "what the hunt took for boots"] = ""
    command: Annotated[str, "shows the rest"] = ""
    why: Annotated[str, "why there is nothing"] = ""


def traced(run: Path, directory: str, cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> Traced:
    """One boot by the services' traces. cells: the storms' documents by cell. Those without windows are left out."""
    known = {cell: [d for d in of if d.get("counted")] for cell, of in cells.items()}
    storms = [d["counted"]["storm_ns"] for of in known.values() for d in of]
    run_directory = RunDirectory(run)
    with suppress(BadInput, TypeError):  # not there, or not of this version: it is read anew
        saved = run_directory.read_json(FILE)
        if saved.pop("schema_version", None) == SCHEMA_VERSION and saved.pop("storms_ns", None) == storms:
            return Traced(**{**saved, "findings": tuple(saved["findings"])})
    try:
        services = {cell: _mean(Path(directory), of) for cell, of in known.items() if of}
        hunted = _hunted(directory, services)
    except ContendError as error:
        hunted = Traced({}, why=f"{error.message} ({error.hint})" if error.hint else error.message)
    saved = {"schema_version": SCHEMA_VERSION, "storms_ns": storms, **hunted.to_json()}
    with suppress(HostFailed):  # another's run, or a full disk
        run_directory.write_json(FILE, saved)
    return hunted


def _hunted(directory: str, services: Mapping[str, Any]) -> Traced:
    """With what boots waited for. Raises BadInput where there is no boot on record, HostFailed."""
    from contend.contention.hunt import batch_of, hunt

    for pattern in BOOTS:
        try:
            batch = batch_of(directory, [Path(directory)], pattern)
        except BadInput:
            if pattern == BOOTS[-1]:
                raise
            continue
        hunted = hunt(batch, top=_FINDINGS)
        findings = [
            {"sentence": f.sentence, "advice": f.advice, "kind": f.kind, "resource": f.resource}
            for f in hunted.findings
        ]
        command = f"contend hunt {shlex.quote(directory)} --job {shlex.quote(pattern)}"
        return Traced(services, findings, batch.whole.chosen, command)
    raise AssertionError("unreachable")


def _mean(traces: Path, documents: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean of one boot, by service, over all storms of a cell."""
    names = ("quiet_ns", "storm_ns", "polled_ns")
    windows: list[Window] = [
        (int(d["counted"][n][0]), int(d["counted"][n][1])) for d in documents for n in names
    ]
    # The quiet time is the run's, and in every document.
    distinct = sorted(set(windows))
    by_window = dict(zip(distinct, counts(traces, distinct), strict=True))
    sums: dict[str, dict[str, float]] = {}
    for number, document in enumerate(documents):
        quiet, storm, polled = windows[3 * number : 3 * number + 3]
        idle, after = by_window[quiet], by_window[polled]
        one_poll = per_item(after, idle, length(polled) / max(1, length(quiet)), {}, POLLS)
        polls = document["counted"]["polls"]
        others = {
            service: {kind: max(0.0, value) * polls for kind, value in of.items()}
            for service, of in one_poll.items()
        }
        share = length(storm) / max(1, length(quiet))
        for service, of in per_item(by_window[storm], idle, share, others, document["n"]).items():
            total = sums.setdefault(service, {})
            for kind, value in of.items():
                total[kind] = total.get(kind, 0.0) + value / len(documents)
    return dict(sorted(sums.items(), key=lambda item: -item[1].get("statements", 0.0)))
