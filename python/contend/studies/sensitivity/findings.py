"""Advice on where to put workloads, by their forecast: which together, which apart, with the command that checks each
claim."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from contend.advice.document import MeasuredMeans, PlacementDocument, PredictedMeans
from contend.advice.finding import Evidence, Expected, Finding
from contend.errors import BadInput
from contend.studies.cell import cell_workload
from contend.studies.model import COMMAND, WorkloadRef
from contend.studies.sensitivity.assignment import Aim, Assignment, assign, slowdowns
from contend.studies.sensitivity.model import Sensitivity
from contend.studies.sensitivity.result import Pair, Sensitivities
from contend.units import format_times

MOST_APART = 3  # of the pairs told to be kept apart, the worst
WIDE = 2.0  # from a slowdown to twice that: such an interval tells nobody where to put two workloads


@dataclass(frozen=True, slots=True)
class Placed:
    """An assignment, and the mean slowdowns of a workload in it by the measured pairs, NaN where some are missing. best:
    the assignment that the measured pairs alone would choose."""

    hosts: int
    aim: Aim
    assignment: Assignment
    measured: float
    measured_random: float
    best: Assignment | None

    @property
    def extrapolated(self) -> bool:
        """True if some host has more than two workloads, a combination that was not measured."""
        return any(len(group) > 2 for group in self.assignment.groups)

    def document(self, workloads: Sequence[str]) -> PlacementDocument:
        """The assignment as a document, with the workloads' names."""

        def named(groups: Sequence[Sequence[int]]) -> list[list[str]]:
            return [[workloads[i] for i in group] for group in groups]

        best = self.best
        return PlacementDocument(
            self.hosts,
            self.aim,
            named(self.assignment.groups),
            self.assignment.exact,
            self.extrapolated,
            PredictedMeans(self.assignment.mean, self.assignment.worst, self.assignment.random),
            MeasuredMeans(
                self.measured,
                self.measured_random,
                None if best is None else best.mean,
                None if best is None else named(best.groups),
            ),
        )


def findings(of: Sensitivities, scenario: Sensitivity) -> tuple[Finding, ...]:
    """Findings for two workloads a host; none where the forecast is refused or incomplete."""
    if of.refused or unpredicted(of):
        return ()
    return claims(of, scenario, best_placement(of, two_a_host(of)))


def unpredicted(of: Sensitivities) -> str:
    """A phrase on workloads that cannot be placed, because a pair of theirs has no prediction; "" for none."""
    gaps = np.isnan(of.logs()) & ~np.eye(len(of.workloads), dtype=bool)
    silent = [name for j, name in enumerate(of.workloads) if gaps[:, j].any()]
    if not silent:
        return ""
    return (
        f"how hard {', '.join(silent)} press{'es' if len(silent) == 1 else ''} on the probes was not measured"
    )


def two_a_host(of: Sensitivities) -> int:
    return -(-len(of.workloads) // 2)


def best_placement(of: Sensitivities, hosts: int, aim: Aim = "total") -> Placed:
    """The assignment with the least predicted slowdown. Raises BadInput for an impossible number of hosts, and for a
    forecast with gaps (`unpredicted`)."""
    n = len(of.workloads)
    if not 1 <= hosts <= n:
        raise BadInput(
            f"--hosts {hosts}: there are {n} workloads",
            hint=f"a number from 1 (all together) to {n} (each alone)",
        )
    if why := unpredicted(of):
        raise BadInput(f"no placement: {why}", hint="contend run --resume repeats what failed")
    predicted, measured = of.logs(), of.logs(measured=True)
    assignment = assign(predicted, hosts, aim=aim)
    off = ~np.eye(n, dtype=bool)
    if np.isnan(measured[off]).any():
        return Placed(hosts, aim, assignment, math.nan, math.nan, None)
    best = assign(measured, hosts, aim=aim)
    return Placed(
        hosts, aim, assignment, statistics.fmean(slowdowns(measured, assignment.groups)), best.random, best
    )


def claims(of: Sensitivities, scenario: Sensitivity, placed: Placed) -> tuple[Finding, ...]:
    """A finding for every two that are put together, and for the worst that are kept apart."""
    refs = settings(scenario)
    names = of.workloads
    together = [
        (names[a], names[b])
        for group in placed.assignment.groups
        for i, a in enumerate(group)
        for b in group[i + 1 :]
    ]
    every = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    apart = sorted(
        (two for two in every if two not in together and _worse(of, *two).predicted.low > 1),
        key=lambda two: -_worse(of, *two).predicted.value,
    )[:MOST_APART]
    kept = [("together", two) for two in together] + [("apart", two) for two in apart]
    return tuple(
        _claim(f"F{number}", kind, of, scenario, two, refs)
        for number, (kind, two) in enumerate(kept, start=1)
    )


def _worse(of: Sensitivities, a: str, b: str) -> Pair:
    """The one of a pair's two directions with the larger predicted slowdown."""
    return max(of.pair(a, b), of.pair(b, a), key=lambda p: p.predicted.value)


def _claim(
    id_: str,
    kind: str,
    of: Sensitivities,
    scenario: Sensitivity,
    two: tuple[str, str],
    refs: Mapping[str, str],
) -> Finding:
    worse = _worse(of, *two)
    other = of.pair(worse.neighbour, worse.victim)
    lead = "Together" if kind == "together" else "Apart"
    sentence = (
        f"{lead}: {two[0]} and {two[1]}. {worse.victim} is predicted to be slowed {factor(worse)} beside {worse.neighbour},"
        f" {other.victim} {factor(other)} beside {other.neighbour}"
    )
    if kind == "apart" and worse.resource:
        sentence += f"; most of it is the {worse.resource}"
    if worse.beyond or other.beyond:
        sentence += " (an extrapolation: harder than any injector)"
    if kind == "apart":
        advice = "put them on two hosts"
    elif any(pair.predicted.high > WIDE * pair.predicted.low for pair in (worse, other)):
        advice = "put them on one host only after the command has measured it: the interval is too wide to decide by"
    else:
        advice = "put them on one host: it costs less than the alternatives"
    evidence = []
    for pair in (worse, other):
        where = f"cell {pair.cell}"
        evidence.append(
            Evidence(f"predicted slowdown of {pair.victim}", pair.predicted.value, "ratio", "curves × probes")
        )
        if pair.measured is not None and math.isfinite(pair.measured.value):
            evidence.append(
                Evidence(f"measured slowdown of {pair.victim}", pair.measured.value, "ratio", where)
            )
    return Finding(
        id=id_,
        kind=kind,
        subject=worse.victim,
        resource=worse.resource or "unexplained",
        sentence=f"{sentence}.",
        share=None,
        estimate=worse.predicted,
        evidence=tuple(evidence),
        advice=advice,
        verify=verify(scenario, refs[two[0]], refs[two[1]]),
        expected=Expected((labelled(scenario)[worse.neighbour].workload,), worse.predicted),
    )


def factor(pair: Pair) -> str:
    """The predicted slowdown in words.

    >>> from contend.stats.estimate import Estimate
    >>> factor(Pair("a", "b", "a|b", Estimate(1.5, 1.4, 1.6, "ratio", 9, 0.95, "", "higher"), 1, None, False, False, {}))
    '1.50× [1.40, 1.60]'
    """
    e = pair.predicted
    return format_times(e.value, e.low, e.high)


def labelled(scenario: Sensitivity) -> dict[str, WorkloadRef]:
    """Labels of workloads, also with all parameters spelt out, with what the scenario's list has."""
    refs = {}
    for ref in scenario.workloads:
        workload = cell_workload(ref)
        refs[workload.label] = ref
        refs.setdefault(workload.label.replace(workload.instance.label, workload.instance.spelt_out, 1), ref)
    return refs


def settings(scenario: Sensitivity) -> dict[str, str]:
    """Labels of workloads, with how `--set victims=` names each."""
    return {label: _text(as_given(ref)) for label, ref in labelled(scenario).items()}


def _text(given: str | dict[str, Any]) -> str:
    if isinstance(given, str):
        return given
    return yaml.safe_dump(given, default_flow_style=True, width=1000).strip()


def as_given(ref: WorkloadRef) -> str | dict[str, Any]:
    """A workload as a scenario's list names it."""
    if ref.command is not None:
        own = ref.command
        return {COMMAND: {"run": own.run, "name": ref.workload, "directory": own.directory}}
    return {ref.workload: dict(ref.parameters)} if ref.parameters else ref.workload


def verify(scenario: Sensitivity, victim: str, neighbour: str) -> str:
    """The command that measures two workloads beside each other, both ways."""
    words = ["contend", "run", "noisy-neighbour"]
    settings = [
        f"victims={victim}",
        f"neighbours={neighbour}",
        "directions=both",
        f"placement={scenario.placement}",
    ]
    if scenario.platform.kind != "bare":
        settings.append(f"platform={scenario.platform.kind}")
    for setting in settings:
        words += ["--set", setting]
    return shlex.join(words)
