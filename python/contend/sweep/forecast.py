"""What a storage sweep is about to do: how many points, how many bytes, how long."""

from __future__ import annotations

from pathlib import Path

from contend.cells.storage_cloud import forecast_lines
from contend.plan import Plan
from contend.studies import Storage
from contend.sweep import pools
from contend.sweep.points import full, size_text, table
from contend.units import format_duration

LAYOUT_BYTES_PER_S = 200e6  # of a plain disk, in sequence


def lines(scenario: Storage, plan: Plan, runs: Path) -> list[str]:
    """For people, before anything is made. Raises CannotHonour where a pool has no room."""
    pools.check(scenario, runs)
    every = sum(2 * len(full(scenario, pool)) for pool in scenario.named)
    screening = [trial for trial in plan.trials if trial.phase == "screening"]
    assert plan.screening is not None
    designs = plan.screening["designs"]
    focus = sum(len(table(scenario, pool)) for pool in scenario.named) + scenario.focus * len(scenario.pools)
    measure = scenario.measure
    each_s = pools.pair_s(scenario)
    screening_s = len(screening) / 2 * each_s
    block_s = focus * 1.4 * each_s
    written = sum(2 * scenario.size * scenario.passes for pool in scenario.named if not pool.read_only)
    levels = (
        f"{len(scenario.block_sizes)} block sizes × {len(scenario.depths)} depths × {len(scenario.engines)} engines ×"
        f" up to {len(scenario.reads)} shares of reads × {len(scenario.patterns)} patterns × {len(scenario.pools)}"
        f" pool{'s' if len(scenario.pools) > 1 else ''}, alone and beside a neighbour"
    )
    rounds = plan.screening["rounds"]
    told = [
        f"{every:,} points in the full factorial: {levels}",
        f"1. screening: {len(screening)} trials in {rounds} rounds, about {format_duration(screening_s * 1e9)}",
    ]
    told += [
        f"   {name}: {of['points']} points, D-efficiency {of['d_efficiency']:.2f}, aliasing {of['largest_aliasing']:.2f}"
        for name, of in designs.items()
    ]
    told.append(
        f"2. blocks: {focus} cells (the table's, and {scenario.focus} of each pool that the screening chooses), each"
        f" alone, alone again and beside: about {format_duration(block_s * 1e9)} a block,"
        f" {measure.planned_blocks} blocks at most"
    )
    if scenario.cloud:
        told += forecast_lines(scenario)
    of_layout = 0.0 if not written else written / LAYOUT_BYTES_PER_S
    told.append(
        f"laid out first: {pools.size_words(scenario)}"
        + (f", {size_text(written)} written" if scenario.passes > 1 else "")
        + (f", about {format_duration(of_layout * 1e9)} at 200 MB/s" if written else "")
        + "; trials then read and write as fast as the pools let them"
    )
    for name, of in pools.facts(scenario, runs).items():
        how = "written" if of["written"] else "only read"
        told.append(
            f"   {name}: {of['path']}, {of['kind']} on {of['device']}, {how}, O_DIRECT {'yes' if of['direct'] else 'no'}"
        )
    whole_s = of_layout + screening_s + block_s * measure.planned_blocks
    within = f"at most {format_duration(whole_s * 1e9)}"
    if measure.budget is not None and whole_s * 1e9 > measure.budget:
        fit = max(0, int((measure.budget / 1e9 - of_layout - screening_s) / block_s))
        within = f"{fit} blocks in the budget of {format_duration(measure.budget)}"
    told.append(f"estimated: {within}")
    return told
