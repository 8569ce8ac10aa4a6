"""Comparison of two finished runs that were made at different times, with the doubt that comes of that.

Their interval is widened by what the same scenario, unchanged, varied by between at least five earlier runs on
the same host. Without those the verdict is inconclusive, unless the runs are far apart beyond a stated doubt.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml

from contend.analysis.comparisons import Series, Table, tabulate
from contend.document import Level, MetricInfo
from contend.environment import same_host
from contend.errors import BadInput, ContendError
from contend.scenario.yaml_file import read_yaml
from contend.stats.compare import compare_unpaired
from contend.stats.estimate import NO_RATIO, Estimate
from contend.stats.sessions import widen
from contend.store.cells import planned_cells
from contend.store.directory import SCENARIO_FILE, RunDirectory
from contend.store.hosts import refuse_hosts
from contend.store.rows import latest
from contend.text.shape import HIDDEN, Count, Shape

# What a scenario says of how precisely, and under which name: two that differ in nothing else ask the same.
MEASURED = ("measure", "title", "about")

# What reading a directory raises that is torn, foreign, or of another version.
UNREADABLE = (ContendError, OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError)


@dataclass(frozen=True)
class Change(Shape):
    """One cell of both runs, one metric. The estimate is above 1 where the second run is worse."""

    factors: dict[str, str]
    metric: MetricInfo
    baseline: Level
    treatment: Level
    estimate: Estimate
    sessions: Annotated[Count, "earlier unchanged runs that the doubt between runs was taken from"]


@dataclass(frozen=True)
class Comparison(Shape):
    """All changes from one run to another, and warnings about the comparison as a whole."""

    cells: tuple[Change, ...]
    warnings: tuple[str, ...]
    missing: Annotated[tuple[str, ...], HIDDEN] = ()
    """Headline figures (cell and metric) of the first run that the second does not have."""


def compare_runs(
    first: RunDirectory,
    second: RunDirectory,
    *,
    level: float = 0.95,
    sessions: Sequence[Path] = (),
    candidates: Sequence[Path] | None = None,
) -> Comparison:
    """Compare every cell and metric that both runs have. `sessions` are directories to look for earlier runs in (default:
    those that hold the two); `candidates` are run directories to use instead of looking. Raises BadInput when the runs have
    nothing in common.
    """
    for run in (first, second):
        refuse_hosts(run, "a comparison of two runs")
    warnings = []
    one, other = first.environment(), second.environment()
    imported = [
        run.path.name for run, environment in ((first, one), (second, other)) if "imported" in environment
    ]
    if imported:
        warnings.append(
            f"{' and '.join(imported)}: made by another tool, whose files do not say on which host; a difference may be"
            " the host's"
        )
    elif not same_host(one, other):
        warnings.append("the two runs are of different hosts: a difference may be the host's")
    elif one.get("kernel") != other.get("kernel"):
        warnings.append(f"the kernel changed between the runs: {one.get('kernel')} → {other.get('kernel')}")
    warnings += _settings_changed(first, second) if len(imported) == 2 else []
    changed = [t for t in one.get("tools", {}) if one["tools"][t] != other.get("tools", {}).get(t)]
    if changed:
        warnings.append(f"other versions of {', '.join(changed)}")
    commits, later = one.get("revisions", {}), other.get("revisions", {})
    warnings += [
        f"{name} was {commits[name][:12]}, and is {later[name][:12]}"
        for name in commits
        if name in later and commits[name] != later[name]
    ]
    if candidates is None:
        candidates = list(runs_in([*sessions] or [first.path.parent, second.path.parent]))
    earlier = list(aa_sessions(first, second, candidates))
    a, b = _table(first), _table(second)
    cells = [
        _change(
            dict(cell.factors),
            a[cell.id][name],
            b[cell.id][name],
            level,
            [s[cell.id][name] for s in earlier if name in s.get(cell.id, {})],
        )
        for cell in planned_cells(first.plan())
        if not cell.control and cell.id in a and cell.id in b
        for name in a[cell.id]
        if name in b[cell.id]
    ]
    missing, added = _headlines_of_one(first, a, b), _headlines_of_one(second, b, a)
    alone = [cell for plan, other in ((first, b), (second, a)) for cell in _of_one(plan, other)]
    alone += [f"{cell} {metric}" for cell, metric in (*missing, *added) if cell in a and cell in b]
    if alone:
        warnings.append(f"left out, of one run alone: {', '.join(dict.fromkeys(alone))}")
    if not cells:
        raise BadInput(
            f"{first.path.name} and {second.path.name} have no cell in common",
            hint="compare two runs of one scenario",
        )
    return Comparison(tuple(cells), tuple(warnings), tuple(f"{cell} {metric}" for cell, metric in missing))


def _of_one(run: RunDirectory, other: Mapping[str, object]) -> list[str]:
    """Names of a run's cells that the other run has not measured."""
    return [cell.id for cell in planned_cells(run.plan()) if not cell.control and cell.id not in other]


def _headlines_of_one(run: RunDirectory, own: Table, other: Table) -> list[tuple[str, str]]:
    """Cell and metric of a run's headline figures that the other run has not measured."""
    return [
        (cell.id, name)
        for cell in planned_cells(run.plan())
        if not cell.control
        for name, series in own.get(cell.id, {}).items()
        if series.info.primary and name not in other.get(cell.id, {})
    ]


def _change(
    factors: dict[str, str], a: Series, b: Series, level: float, sessions: Sequence[Series]
) -> Change:
    first, second = (b, a) if a.info.better == "higher" else (a, b)
    # A level of 0 has no ratio to another, and so tells nothing of how much runs differ.
    medians = [math.log(m) for m in (statistics.median(s.values) for s in sessions) if m > 0]
    if min(*first.values, *second.values) <= 0:
        return Change(factors, a.info, a.level(level), b.level(level), _no_ratio(a, b, level), len(medians))
    # Two runs share no blocks, whatever their numbers are.
    estimate = compare_unpaired(first.values, second.values, level=level)
    return Change(factors, a.info, a.level(level), b.level(level), widen(estimate, medians), len(medians))


def runs_in(folders: Iterable[Path]) -> Iterator[Path]:
    """Run directories in each of these folders, by name; those that this user may not read are left out. A folder that is
    named twice, in whatever spelling, is looked into once."""
    for folder in {folder.resolve(): folder for folder in folders}.values():
        yield from sorted(p for p in folder.iterdir() if os.path.isfile(p / "trials.ndjson"))  # noqa: PTH113


def _no_ratio(a: Series, b: Series, level: float) -> Estimate:
    """Errors and lost packets may well be 0 in a run."""
    n = min(len(a.values), len(b.values))
    why = f"a {a.info.name} of 0 has no ratio"
    return Estimate(math.nan, 0.0, math.inf, "ratio", n, level, NO_RATIO, "refused", (why,))


def _settings_changed(first: RunDirectory, second: RunDirectory) -> list[str]:
    """In what two imported runs were asked for different things."""
    one, other = _question(first), _question(second)
    if one.get("tool") != other.get("tool"):
        return [f"one is of {one.get('tool')}, the other of {other.get('tool')}"]
    a, b = one.get("settings", {}), other.get("settings", {})
    changed = [
        f"{key} {a.get(key, 'not set')} → {b.get(key, 'not set')}"
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key)
    ]
    return [f"they were asked for different things: {', '.join(changed)}"] if changed else []


def aa_sessions(
    first: RunDirectory, second: RunDirectory, candidates: Iterable[Path]
) -> Iterable[dict[str, dict[str, Series]]]:
    """Tables of earlier runs of the first one's scenario, commits, host and tools: they show how much "unchanged" varies.

    Each run counts once, and the second not at all, by whatever paths it is reached and however often it was copied.
    """
    environment, question = first.environment(), _question(first)
    known = {_identity(second)}
    for path in candidates:
        try:
            run = RunDirectory.open(path)
            other = run.environment()
            alike = (
                _question(run) == question
                and same_host(environment, other)
                and environment.get("tools") == other.get("tools")
                and environment.get("revisions") == other.get("revisions")
            )
            if not alike or (identity := _identity(run)) in known:
                continue
            table = _table(run)
        except UNREADABLE:
            continue  # another kind of directory, a torn one, or a run from another version
        known.add(identity)
        yield table


def _identity(run: RunDirectory) -> str:
    """The name and time that a run began with, which its ledger keeps where the directory is renamed or copied; its path
    where no ledger has them."""
    began = next((event for event in run.events() if event["event"] == "run-start"), {})
    name = began.get("run")
    return f"{name} {began.get('utc')}" if isinstance(name, str) else str(run.path.resolve())


def _question(run: RunDirectory) -> Any:
    """The scenario less how precisely it was measured."""
    data = read_yaml(run.scenario_text(), f"{run.path / SCENARIO_FILE}").data
    if not isinstance(data, dict):
        raise BadInput(f"{run.path / SCENARIO_FILE} is no scenario", hint="is this a whole run directory?")
    return {k: v for k, v in data.items() if k not in MEASURED}


def _table(run: RunDirectory) -> dict[str, dict[str, Series]]:
    return tabulate(r for r in latest(run.rows(run.plan())) if r["phase"] == "counted")


def verdict(comparison: Comparison, fail_above: float) -> int:
    """Exit code of a gate on headline metrics: 4 when one is worse beyond its interval, 5 undecided, else 0.

    Undecided is also what the second run has no figure of, and everything where no headline metric is in both.
    """
    limit = 1 + fail_above
    headline = [c.estimate for c in comparison.cells if c.metric.primary]
    if any(e.low > limit and e.differs for e in headline):
        return 4
    undecided = comparison.missing or not headline or any(e.high > limit for e in headline)
    return 5 if undecided else 0


__all__ = ["Change", "Comparison", "compare_runs", "verdict"]
