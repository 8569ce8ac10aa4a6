"""Sample runs for the tests of the reports: simulated trials, the analysis of them, and a host's timelines.

The figures come from a seeded simulation of the trials, so every report shows something that could have been
measured. Intervals are t intervals of the log ratio within blocks: close enough to look right, and not meant
to be the project's statistics.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.advice.finding import Evidence, Finding
from contend.document import Analysis, CellResult, Control, Design, Layout, Level, MetricInfo
from contend.probes.observed import Observations, Observed
from contend.report.model import ReportInput
from contend.stats.estimate import MATTERS, Estimate, verdict_of
from contend.studies.registry import study
from support.planned import planned_of_rows
from support.report_series import write_series

T_975 = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14)
S = 1_000_000_000
T0 = 5_000 * S

VICTIMS: dict[str, tuple[MetricInfo, float, float, dict[str, float]]] = {
    # metric, level alone, noise, true slowdown by neighbour
    "ffmpeg": (
        MetricInfo("wall", "s", "lower", "", True),
        1.04,
        0.012,
        {"stress-cpu": 2.02, "stress-memory": 1.31, "fio randwrite": 1.0},
    ),
    "fio randread": (
        MetricInfo("iops", "IOPS", "higher", "closed", True),
        86_100.0,
        0.025,
        {"stress-cpu": 1.08, "stress-memory": 1.02, "fio randwrite": 1.87},
    ),
    "nginx": (
        MetricInfo("requests", "req/s", "higher", "closed", True),
        27_900.0,
        0.03,
        {"stress-cpu": 1.96, "stress-memory": 1.22, "fio randwrite": 1.01},
    ),
}
EXTRA = {
    "ffmpeg": (MetricInfo("max_rss", "MiB", "lower", "", False), 182.0, 0.004),
    "fio randread": (MetricInfo("p99", "s", "lower", "closed", False), 0.00075, 0.05),
    "nginx": (MetricInfo("cpu", "s", "lower", "", False), 0.91, 0.02),
}
NEIGHBOURS = ("stress-cpu", "stress-memory", "fio randwrite")
ENVIRONMENT: dict[str, Any] = {
    "schema_version": 1,
    "contend": "0.1.0",
    "os": "Debian GNU/Linux 12 (bookworm)",
    "kernel": "6.18.5",
    "cpu": "AMD EPYC 7B13",
    "cpus": 2,
    "smt": False,
    "memory_gib": 24.0,
    "governor": "not exposed",
    "virtualised": "kvm",
    "cgroup": {"version": 2, "controllers": ["cpu", "io", "memory"]},
    "mitigations": {"meltdown": "Not affected", "spectre_v2": "Mitigation: Retpolines; IBPB: conditional"},
    "tools": {"ffmpeg": "5.1.6", "fio": "3.33", "nginx": "1.22.1", "wrk": "4.1.0"},
}
SCENARIO = """\
study: interference
title: Who are my neighbours, and what do they cost me?
victims: [ffmpeg, {fio: {pattern: randread, block: 4k, depth: 32}}, nginx]
neighbours: [stress-cpu, stress-memory, {fio: {pattern: randwrite}}]
platform: {kind: bare}
placement: same-cpu            # same-cpu | own-cores | same-host
measure: {target: 2%, blocks: 15, budget: 3m}
"""


def estimate(pairs: Sequence[float]) -> Estimate:
    logs = [math.log(p) for p in pairs]
    n = len(logs)
    middle = statistics.fmean(logs) if n else math.nan
    half = T_975[min(n - 1, 14)] * statistics.stdev(logs) / math.sqrt(n) if n > 4 else math.inf
    low, high = (math.exp(middle - half), math.exp(middle + half)) if half < 50 else (0.0, math.inf)
    return Estimate(math.exp(middle), low, high, "ratio", n, 0.95, "sample", verdict_of(low, high))


def level(values: Sequence[float], unit: str, flagged: Sequence[int] = ()) -> Level:
    value = statistics.median(values) if values else math.nan
    few = len(values) < 6
    low, high = (0.0, math.inf) if few else (sorted(values)[1], sorted(values)[-2])
    shape = Estimate(value, low, high, unit, len(values), 0.95, "median", "too few" if few else "level")
    return Level(shape, tuple(values), tuple(range(len(values))), tuple(flagged))


def interference(
    directory: Path | None = None,
    *,
    victims: Sequence[str] = tuple(VICTIMS),
    neighbours: Sequence[str] = NEIGHBOURS,
    blocks: int = 9,
    failing: str = "",
    seed: int = 4711,
    trial_s: float = 1.6,
) -> ReportInput:
    """A run of the built-in scenario's shape. `failing` is an error message that two trials end with."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    now = T0
    lost = {(1, victims[0], neighbours[0]), (blocks - 1, victims[-1], neighbours[-1])} if failing else set()
    for block in range(-1, blocks):
        cells = [
            (v, n) for v in victims for n in ("none", "none (control)", *neighbours) if v != n or block >= 0
        ]
        if block < 0:
            cells = [(v, "none") for v in victims]
        rng.shuffle(cells)
        for victim, neighbour in cells:
            row = _trial(rng, len(rows), block, victim, neighbour, now, trial_s)
            if (block, victim, neighbour) in lost:
                row |= {"status": "failed", "error": failing, "hint": "run it alone first", "metrics": []}
            if block == 3 and neighbour == "none":
                row["flags"] = ["cpu busy before the trial"]
            rows.append(row)
            now = row["ended_ns"] + round(0.35 * S)
    series = None
    if directory is not None:
        series = directory / "series"
        write_series(series, rows)
    return ReportInput(
        _analyse(rows, victims, neighbours, blocks, failing),
        ENVIRONMENT,
        SCENARIO,
        rows,
        series,
        "contend run noisy-neighbour --budget 3m --set measure.seed=4711",
        "runs/noisy-neighbour-20261120-1842",
    )


def _spec(victim: str) -> tuple[MetricInfo, float, float, dict[str, float]]:
    known = VICTIMS.get(victim)
    if known:
        return known
    rng = random.Random(victim)
    return MetricInfo("wall", "s", "lower", "", True), rng.uniform(0.2, 3), rng.uniform(0.005, 0.06), {}


def _true(victim: str, neighbour: str) -> float:
    if neighbour.startswith("none"):
        return 1.0
    rng = random.Random(f"{victim}/{neighbour}")
    return _spec(victim)[3].get(neighbour, rng.choice([1.0, 1.0, 1.03, 1.2, 1.6, 2.4, 0.93]))


def _trial(
    rng: random.Random, number: int, block: int, victim: str, neighbour: str, now: int, trial_s: float
) -> dict[str, Any]:
    metric, base, noise, _ = _spec(victim)
    slow = _true(victim, neighbour) * math.exp(rng.gauss(0, noise))
    metrics = [_value(metric, base / slow if metric.better == "higher" else base * slow)]
    if victim in EXTRA:
        extra, extra_base, extra_noise = EXTRA[victim]
        up = slow if extra.name == "p99" else 1.0
        metrics.append(_value(extra, extra_base * up * math.exp(rng.gauss(0, extra_noise))))
    length = round(trial_s * S * (slow if metric.unit == "s" else 1))
    return {
        "schema_version": 1,
        "trial": number,
        "block": max(0, block),
        "phase": "pilot" if block < 0 else "counted",
        "cell": f"{victim}|{neighbour}",
        "clock": "CLOCK_MONOTONIC",
        "started_ns": now,
        "ended_ns": now + length,
        "factors": {"victim": victim, "neighbour": neighbour, "placement": "same-cpu", "platform": "bare"},
        "utc": f"2026-11-20T18:{42 + number // 60:02d}:{number % 60:02d}.000+00:00",
        "status": "ok",
        "error": "",
        "hint": "",
        "metrics": metrics,
        "flags": [],
        "neighbours": [],
        "honoured": {"cpus": "0"},
        "evidence": [{"name": "run_delay", "value": max(0.0, slow - 1) * base % 7, "unit": "s"}],
        "overhead": {"wall_ns": 3_000_000, "cpu_ns": 2_100_000},
    }


def _value(metric: MetricInfo, value: float) -> dict[str, Any]:
    return {
        "name": metric.name,
        "value": value,
        "unit": metric.unit,
        "better": metric.better,
        "loop": metric.loop,
        "primary": metric.primary,
    }


def _analyse(
    rows: list[dict[str, Any]], victims: Sequence[str], neighbours: Sequence[str], blocks: int, failing: str
) -> Analysis:
    def values(cell: str, metric: str) -> dict[int, float]:
        return {
            r["block"]: m["value"]
            for r in rows
            if r["cell"] == cell and r["phase"] == "counted"
            for m in r["metrics"]
            if m["name"] == metric
        }

    def compare(cell: str, base: str, metric: MetricInfo) -> tuple[Level, Level, Estimate]:
        one, two = values(base, metric.name), values(cell, metric.name)
        both = sorted(one.keys() & two.keys())
        up = metric.better == "higher"
        pairs = [one[b] / two[b] if up else two[b] / one[b] for b in both]
        flagged = [i for i, b in enumerate(sorted(one)) if b == 3]
        return (
            level(list(one.values()), metric.unit, flagged),
            level(list(two.values()), metric.unit),
            estimate(pairs),
        )

    results, controls, reached = [], [], {}
    for victim in victims:
        for metric in [_spec(victim)[0], *([EXTRA[victim][0]] if victim in EXTRA else [])]:
            factors = {"victim": victim, "placement": "same-cpu", "platform": "bare"}
            worst = 0.0
            for neighbour in neighbours:
                if neighbour == victim:
                    continue
                base, treated, ratio = compare(f"{victim}|{neighbour}", f"{victim}|none", metric)
                delay = max(0.0, ratio.value - 1) * 0.97
                results.append(
                    CellResult(
                        f"{victim}|{neighbour}",
                        {**factors, "neighbour": neighbour},
                        metric,
                        base,
                        treated,
                        ratio,
                        Observations({"run_delay": (delay, "s")}),
                        Observations({"run_delay": (0.004, "s")}),
                    )
                )
                worst = max(worst, ratio.relative_half_width)
            *_, same = compare(f"{victim}|none (control)", f"{victim}|none", metric)
            alarm = same.verdict in ("higher", "lower")
            control = {**factors, "neighbour": "none (control)"}
            alone = {**factors, "neighbour": "none"}
            controls.append(Control(control, metric, same, same.detectable, alarm, alone))
            if metric.primary:
                reached[f"{victim} {metric.name}"] = worst <= 0.02
    flags: dict[str, int] = {}
    for row in rows:
        for flag in row["flags"]:
            flags[flag] = flags.get(flag, 0) + 1
    primary = [c for c in results if c.metric.primary]
    worst_cell = max(primary, key=lambda c: c.estimate.value)
    answer = (
        f"{worst_cell.factors['neighbour']} costs {worst_cell.factors['victim']} the most: it takes "
        f"{worst_cell.estimate.value:.2f} times as long beside it."
    )
    design = Design(
        4711,
        blocks,
        "pairs",
        "Hodges–Lehmann estimate of the log ratio within blocks, as a ratio",
        "exact signed-rank, Bonferroni over the matrix",
        len(primary),
        MATTERS,
        0.02,
        reached,
        "target reached" if all(reached.values()) else "budget spent",
        0.04,
        dict.fromkeys(victims, 1),
    )
    failed = tuple(
        f"trial {r['trial']} ({r['cell']}, block {r['block']}): {r['error']}"
        for r in rows
        if r["status"] == "failed"
    )
    return Analysis(
        "noisy-neighbour-20261120-1842",
        "interference",
        "Who are my neighbours, and what do they cost me?",
        answer,
        design,
        tuple(results),
        tuple(controls),
        _findings(primary),
        ("beside qemu: KVM guests do not boot here",) if failing else (),
        failed,
        flags,
        len(rows),
        planned=planned_of_rows(rows),
    )


def _findings(cells: Sequence[CellResult]) -> tuple[Finding, ...]:
    found = []
    for cell in sorted(cells, key=lambda c: -c.estimate.value)[:3]:
        if cell.estimate.verdict != "higher":
            continue
        victim, neighbour = cell.factors["victim"], cell.factors["neighbour"]
        delay = cell.evidence[Observed.RUN_DELAY][0]
        found.append(
            Finding(
                f"run-queue-{len(found) + 1}",
                "run-queue",
                victim,
                "run queue",
                f"{victim} waits for the CPU beside {neighbour}: run delay {delay:.2f} s a trial, "
                "against 0.00 s alone; it was not throttled.",
                0.97,
                cell.estimate,
                (
                    Evidence("run delay beside", delay, "s", f"cell {cell.cell}, evidence run_delay"),
                    Evidence("run delay alone", 0.004, "s", f"cell {victim}|none, evidence run_delay"),
                    Evidence("throttled", 0.0, "s", f"cell {cell.cell}, evidence throttled"),
                ),
                f"Give {victim} a CPU of its own; that should bring it to at most 1.05.",
                f"contend run noisy-neighbour --set victims={victim.split()[0]} --set placement=own-cores",
            )
        )
    return tuple(found)


def compare_study(*, blocks: int = 20, seed: int = 7) -> ReportInput:
    """`contend ab`: two commands, three metrics, ratios as measured."""
    rng = random.Random(seed)
    metrics = (
        MetricInfo("wall", "s", "lower", "", True),
        MetricInfo("cpu", "s", "lower", "", False),
        MetricInfo("throughput", "MB/s", "higher", "", False),
    )
    base = {"wall": 2.0, "cpu": 1.7, "throughput": 310.0}
    true = {"wall": 0.88, "cpu": 1.0, "throughput": 1.14}
    rows: list[dict[str, Any]] = []
    now = T0
    for block in range(blocks):
        variants = ["gzip -6", "gzip -6 (control)", "zstd -3"]
        rng.shuffle(variants)
        for variant in variants:
            values = [
                _value(
                    m,
                    base[m.name]
                    * (true[m.name] if variant == "zstd -3" else 1)
                    * math.exp(rng.gauss(0, 0.02)),
                )
                for m in metrics
            ]
            row = _trial(rng, len(rows), block, "ffmpeg", "none", now, 2.0)
            rows.append(
                row
                | {"cell": variant, "factors": {"variant": variant, "platform": "bare"}, "metrics": values}
            )
            now = row["ended_ns"] + S // 10

    def value(cell: str, metric: str) -> list[float]:
        return [m["value"] for r in rows if r["cell"] == cell for m in r["metrics"] if m["name"] == metric]

    cells, controls = [], []
    for metric in metrics:
        one, two, same = (value(c, metric.name) for c in ("gzip -6", "zstd -3", "gzip -6 (control)"))
        ratio = estimate([b / a for a, b in zip(one, two, strict=True)])
        control = estimate([b / a for a, b in zip(one, same, strict=True)])
        factors = {"variant": "zstd -3", "platform": "bare"}
        cells.append(
            CellResult(
                "zstd -3",
                factors,
                metric,
                level(one, metric.unit),
                level(two, metric.unit),
                ratio,
                Observations(),
                Observations(),
            )
        )
        alarm = control.verdict in ("higher", "lower")
        controls.append(
            Control(
                {"variant": "gzip -6 (control)", "platform": "bare"},
                metric,
                control,
                control.detectable,
                alarm,
                {"variant": "gzip -6", "platform": "bare"},
            )
        )
    design = Design(
        7,
        blocks,
        "pairs",
        "Hodges–Lehmann estimate of the log ratio within blocks, as a ratio",
        "exact signed-rank",
        len(metrics),
        MATTERS,
        0.02,
        {f"{m.name}": True for m in metrics},
        "target reached",
        0.0,
        {"gzip -6": 1},
    )
    analysis = Analysis(
        "ab-20261120-1900",
        "compare",
        "Is zstd -3 faster than gzip -6?",
        "zstd -3 takes 12 % less time than gzip -6.",
        design,
        tuple(cells),
        tuple(controls),
        (),
        (),
        (),
        {},
        len(rows),
        layout=study("compare").layout(None),
        planned=planned_of_rows(rows),
    )
    command = "contend ab -- 'gzip -6 -k f' --vs 'zstd -3 -k f'"
    variants = "study: compare\nvariants: [{name: gzip -6, command: gzip -6 -k f}, {name: zstd -3, command: zstd -3 -k f}]\n"
    return ReportInput(analysis, ENVIRONMENT, variants, rows, None, command, "runs/ab-20261120-1900")


def matrix_8x8(directory: Path | None = None) -> ReportInput:
    names = ("ffmpeg", "fio randread", "nginx", "redis", "pgbench", "kernel-build", "cassandra", "wordpress")
    return interference(directory, victims=names, neighbours=names, blocks=7, trial_s=0.5)


def one_by_one() -> ReportInput:
    return interference(victims=("ffmpeg",), neighbours=("stress-cpu",), blocks=12)


def too_few() -> ReportInput:
    return interference(victims=("ffmpeg", "nginx"), neighbours=("stress-cpu", "stress-memory"), blocks=3)


def hostile(directory: Path | None = None) -> ReportInput:
    """Names and errors that hold markup, and names longer than any column."""
    long = "a-very-long-workload-name-with-parameters depth=32 block=4k pattern=randread"
    report = interference(
        directory,
        victims=("<script>alert(1)</script>", long),
        neighbours=("<img src=x onerror=alert(2)>", "[red]rich[/red] \"quoted\" 'name' & more"),
        failing="exit code 1: </script><b>No such file</b> [bold]x[/bold] \x1b[31m",
    )
    return dataclasses.replace(
        report, scenario_text=report.scenario_text + "# </pre><script>alert(3)</script>\n"
    )


def two_factors(layout: Layout) -> ReportInput:
    """A study of another package: levels of a program on two inputs, whose factors nobody else knows."""
    report = compare_study()
    levels = {"gzip -6": "6", "zstd -3": "9", "gzip -6 (control)": "6 (control)"}

    def own(factors: Mapping[str, str], given: str) -> dict[str, str]:
        return {"level": levels[factors["variant"]], "input": given}

    inputs = ("text", "noise")
    rows = [
        {**row, "cell": f"{given}/{row['cell']}", "factors": own(row["factors"], given)}
        for given in inputs
        for row in report.rows
    ]
    analysis = dataclasses.replace(
        report.analysis,
        layout=layout,
        cells=tuple(
            dataclasses.replace(c, cell=f"{given}/{c.cell}", factors=own(c.factors, given))
            for given in inputs
            for c in report.analysis.cells
        ),
        controls=tuple(
            dataclasses.replace(c, factors=own(c.factors, given), repeats=own(c.repeats, given))
            for given in inputs
            for c in report.analysis.controls
        ),
        planned=planned_of_rows(rows),
    )
    return dataclasses.replace(report, analysis=analysis, rows=rows)
