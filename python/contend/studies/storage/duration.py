"""The size of a storage sweep before it runs: how many points, how many bytes, how long."""

from __future__ import annotations

from pathlib import Path

from contend.studies.needs import Needs, least_blocks
from contend.studies.plan import Plan
from contend.studies.storage import pools
from contend.studies.storage.cloud_cells import instance_lines
from contend.studies.storage.model import Storage
from contend.studies.storage.points import full, size_text, table
from contend.units import format_duration

LAYOUT_BYTES_PER_S = 200e6  # of a plain disk, in sequence


def needs(scenario: Storage, plan: Plan) -> Needs:
    """Estimate the times of a sweep: laying out the files, the screening, a block of the cells that it will choose."""
    focus = sum(len(table(scenario, pool)) for pool in scenario.named) + scenario.focus * len(scenario.pools)
    each_s = pools.pair_s(scenario)
    written = sum(2 * scenario.size * scenario.passes for pool in scenario.named if not pool.read_only)
    pilot_round_s = focus * each_s * 0.7 if scenario.measure.pilot else 0.0  # each alone
    return Needs(
        preparing_s=written / LAYOUT_BYTES_PER_S,
        screening_s=sum(trial.phase == "screening" for trial in plan.trials) / 2 * each_s,
        round_s=pilot_round_s,
        pilot_s=pilot_round_s * scenario.measure.pilot,
        block_s=focus * 1.4 * each_s,
        least=least_blocks(scenario, plan),
        planned=scenario.measure.planned_blocks,
    )


def lines(scenario: Storage, plan: Plan, runs: Path) -> list[str]:
    """Lines on the sweep for people, before anything is made. Raises CannotHonour where a pool has no room."""
    pools.check(scenario, runs)
    every = sum(2 * len(full(scenario, pool)) for pool in scenario.named)
    screening = [trial for trial in plan.trials if trial.phase == "screening"]
    assert plan.screening is not None
    designs = plan.screening["designs"]
    focus = sum(len(table(scenario, pool)) for pool in scenario.named) + scenario.focus * len(scenario.pools)
    measure = scenario.measure
    of = needs(scenario, plan)
    screening_s, block_s = of.screening_s, of.block_s
    written = sum(2 * scenario.size * scenario.passes for pool in scenario.named if not pool.read_only)
    levels = (
        f"{len(scenario.block_sizes)} block sizes × {len(scenario.depths)} depths × {len(scenario.engines)} engines ×"
        f" up to {len(scenario.reads)} shares of reads × {len(scenario.patterns)} patterns × {len(scenario.pools)}"
        f" pool{'s' if len(scenario.pools) > 1 else ''}, alone and beside a neighbour"
    )
    rounds = plan.screening["rounds"]
    lines = [
        f"{every:,} points in the full factorial: {levels}",
        f"1. screening: {len(screening)} trials in {rounds} rounds, about {format_duration(screening_s * 1e9)}",
    ]
    lines += [
        f"   {name}: {design['points']} points, D-efficiency {design['d_efficiency']:.2f},"
        f" aliasing {design['largest_aliasing']:.2f}"
        for name, design in designs.items()
    ]
    lines.append(
        f"2. blocks: {focus} cells (the table's, and {scenario.focus} of each pool that the screening chooses), each"
        f" alone, alone again and beside: about {format_duration(block_s * 1e9)} a block,"
        f" {measure.planned_blocks} blocks at most"
    )
    if scenario.cloud:
        lines += instance_lines(scenario)
    lines.append(
        f"laid out first: {pools.size_words(scenario)}"
        + (f", {size_text(written)} written" if scenario.passes > 1 else "")
        + (f", about {format_duration(of.preparing_s * 1e9)} at 200 MB/s" if written else "")
        + "; trials then read and write as fast as the pools let them"
    )
    for name, pool in pools.facts(scenario, runs).items():
        how = "written" if pool["written"] else "only read"
        direct = "yes" if pool["direct"] else "no"
        lines.append(
            f"   {name}: {pool['path']}, {pool['kind']} on {pool['device']}, {how}, O_DIRECT {direct}"
        )
    within = f"at most {format_duration(of.whole_s * 1e9)}"
    if measure.budget is not None and of.whole_s * 1e9 > measure.budget:
        fit = of.blocks_within(measure.budget / 1e9)
        within = f"{fit} blocks in the budget of {format_duration(measure.budget)}"
    lines.append(f"estimated: {within}")
    return lines
