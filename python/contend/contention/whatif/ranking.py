"""Fixes that suggest themselves by what a storm waits for, tried and ranked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from contend import _native
from contend.contention.hunting.calls import says_nothing_new
from contend.contention.hunting.rows import calls_of
from contend.contention.whatif import doubts
from contend.contention.whatif.gate import Replayed
from contend.contention.whatif.replays import RANKING_DRAWS, Replay
from contend.contention.whatif.storms import Edit, as_options
from contend.contention.whatif.times import Predicted, predicted_times
from contend.text.shape import Shape, Through

BEST = 3
# A fix is tried where its resource makes jobs wait for so much of their time.
WORTH = 0.01
LEAST_GAIN = 0.005
# A span of so much of the jobs' time may be left out, the longest ones.
LONG = 0.05
REMOVALS = 3
ALIKE = 0.02
# A call that follows one of its own kind in so many of its cases may be coalesced.
CHATTY = 0.5
# From where the cost of a call is taken, where what an item costs is not known.
UNLEARNT = ("server", "shortest")
COALESCED = 8


@dataclass(frozen=True, slots=True)
class Fix(Shape):
    """A fix that suggests itself, best first; the last are the best ones together."""

    edits: Annotated[tuple[Edit, ...], Through(as_options), "as options"]
    predicted: Annotated[Mapping[str, Predicted], Through(predicted_times)]
    gain: Annotated[float, "of the median; negative: worse"]
    assumes: Annotated[str, "what it takes for granted, or empty"] = ""


def cost_note(cost: Mapping[str, Any]) -> str:
    """Say what a coalesced call costs, and from what that is known."""
    fixed, item = cost["fixed_ns"] / 1e6, cost["item_ns"] / 1e6
    learnt = f"{cost['call']}: {cost['before']} calls become {cost['after']}; "
    how = {
        "calls": f"a call costs {fixed:.3g} ms and {item:.3g} ms an item, learnt from {cost['calls']} calls",
        "pool": f"a call costs {fixed:.3g} ms and {item:.3g} ms an item, learnt from other calls of its pool",
        "server": "what an item costs cannot be learnt, since all calls carry the same number: what the server does was"
        " taken as the items' and not saved, the way there and back as the call's",
        "shortest": f"what an item costs cannot be learnt: the shortest call, {fixed:.3g} ms, was taken as what each"
        " call costs without its items",
    }
    return learnt + how[cost["source"]]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Fixes that were tried: what the best would bring, and those of which nothing can be predicted, with why."""

    best: tuple[Fix, ...] = ()
    refused: tuple[tuple[Edit, str], ...] = ()

    def refusals(self) -> Iterator[str]:
        """A sentence for each reason: which fixes it forbids to predict."""
        by_reason: dict[str, list[str]] = {}
        for edit, reason in self.refused:
            by_reason.setdefault(reason, []).append(str(edit))
        for reason, edits in by_reason.items():
            yield f"not predicted: {', '.join(edits)}: {reason}"


def rank_fixes(replay: Replay) -> Ranking:
    """Rank the candidates that gain most, and the best three of them together; none of which the prediction is refused."""
    before, _, _ = replay.run((), RANKING_DRAWS)
    refused: list[tuple[Edit, str]] = []

    def tried(edits: tuple[Edit, ...], assumes: str) -> Fix | None:
        predicted, costs, outcomes = replay.run(edits, RANKING_DRAWS)
        if reason := replay.refusal(edits, outcomes):
            if len(edits) == 1:
                refused.append((edits[0], reason))
            return None
        unknown = dict.fromkeys(cost_note(cost) for cost in costs if cost["source"] in UNLEARNT)
        gain = 1 - predicted["median_ns"].value / max(1.0, before["median_ns"].value)
        return Fix(edits, predicted, gain, "; ".join(filter(None, [assumes, *unknown])))

    singles = [
        tried((edit,), assumes)
        for edit, assumes in candidates(replay.storms[0], needless(replay.storms[0].path))
    ]
    gaining = (fix for fix in singles if fix and fix.gain > LEAST_GAIN)
    best = sorted(gaining, key=lambda fix: -fix.gain)[:BEST]
    if len(best) > 1:
        assumes = "; ".join(filter(None, dict.fromkeys(fix.assumes for fix in best)))
        together = tried(tuple(edit for fix in best for edit in fix.edits), assumes)
        best.extend([together] if together else [])
    return Ranking(tuple(best), tuple(refused))


def needless(path: str) -> set[str]:
    """Names of calls in a trace that, by a hunt, say nothing new."""
    by_name: dict[str, list[Any]] = {}
    for row in calls_of(_native.ctrace_calls([path])):
        by_name.setdefault(row.name, []).append(row)
    return {name for name, rows in by_name.items() if says_nothing_new(rows)}


def _longest(storm: Replayed, unneeded: Collection[str]) -> list[str]:
    """Names of the spans with most of the jobs' time; of two that are always one in the other, the shorter name."""
    calls = {*storm.parts["system_calls"], *unneeded}
    least = LONG * storm.recorded["jobs_ns"]
    spans = [row for row in storm.parts["spans"] if row[3] >= least and row[0] not in calls]
    names: dict[tuple[int, int], str] = {}
    for name, count, _, ns, _ in sorted(spans, key=lambda row: (-row[3], len(row[0]))):
        alike = (known for known in names if known[0] == count and known[1] - ns <= ALIKE * ns)
        key = next(alike, (count, ns))
        names[key] = min(names.get(key, name), name, key=len)
    return list(names.values())[:REMOVALS]


def candidates(storm: Replayed, unneeded: Collection[str] = ()) -> Iterator[tuple[Edit, str]]:
    """List fixes that one storm's waits suggest, each with what it takes for granted. `unneeded`: calls that say
    nothing new."""
    least = WORTH * storm.recorded["jobs_ns"]
    waits: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for row, ns in zip(storm.parts["locks"], storm.recorded["lock_ns"], strict=True):
        waits[row["name"]] = waits.get(row["name"], 0) + ns
        if row["semaphore"] and row["capacity"]:
            sizes[row["name"]] = max(sizes.get(row["name"], 0), row["capacity"])
    for name, ns in waits.items():
        if ns >= least and name in sizes:
            yield Edit("size", name, 2 * sizes[name]), f"who is let in by {name} can be twice as many"
        if ns >= least:
            yield Edit("hold", name, 0.5), f"what is done under {name} itself can be halved"
    pools: dict[str, tuple[int, int, int]] = {}
    for row, ns in zip(storm.parts["pools"], storm.recorded["pool_ns"], strict=True):
        waited, workers, queues = pools.get(row["name"], (0, 0, 0))
        pools[row["name"]] = (waited + ns, max(workers, row["workers"] or 0), max(queues, row["queues"]))
    for name, (ns, workers, queues) in pools.items():
        if ns >= least:
            if queues > 1:
                yield Edit("global_queue", name), "any worker can serve any item"
            if not doubts.forked([Edit("workers", name)], [storm.parts]):
                yield Edit("workers", name, 2 * workers), ""
    spans = storm.parts["spans"]
    for name in _longest(storm, unneeded):
        yield Edit("remove", name), f"{name} need not be done, or not by the job"
    for name, count, calls, _, repeated in spans:
        if name in unneeded:
            yield Edit("remove", name), f"{name} says nothing new and can be left out"
        elif calls and repeated >= CHATTY * count:
            yield Edit("coalesce", name, COALESCED), f"{name} can carry several items"
