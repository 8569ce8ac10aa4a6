"""PTO and PSO: known answer 8, what is refused and why, and that blocks are what everything is paired in."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats.platform_size import Setting, SizeCell, decompositions, overheads
from known import platforms as known
from known.noise import GENERATORS, Noise, noise
from support.known_counts import answer

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "platform-size.md"
SEED = 20260101
BLOCKS = 12

every_noise = pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.name)


def setting(size: float, *, platform: str = "container", how: str = "vanilla", host: float = 8) -> Setting:
    return Setting("made up", platform, how, size, host)


def cell(where: Setting, slow: float, *, seed: int = 1, blocks: int = BLOCKS, sd: float = 0.01) -> SizeCell:
    """Its own noise for each setting, and a block's own pace shared by both arms of all cells with this seed."""
    pace = np.exp(np.random.default_rng(seed).normal(0, 0.5, blocks))
    own, bare = np.exp(np.random.default_rng([seed, int(8 * where.size)]).normal(0, sd, (2, blocks)))
    return SizeCell(where, (slow * pace * own).tolist(), (pace * bare).tolist())


def missing(c: SizeCell, *blocks: int) -> SizeCell:
    return SizeCell(c.setting, [math.nan if i in blocks else v for i, v in enumerate(c.values)], c.baseline)


LADDER = [cell(setting(size), 1.1 * slow) for size, slow in ((1, 1.6), (2, 1.3), (4, 1.1), (8, 1.0))]


@pytest.mark.parametrize("blocks", [6, 10, 20])
@every_noise
def test_pto_and_pso_hold_the_truth(generator: Noise, blocks: int) -> None:
    for measure in (known.pto, known.pso):
        found = answer(lambda n, of=measure: of(generator, blocks, n, SEED), 2000)
        assert 0.92 <= found.share <= 0.985  # at 6 blocks ranks give 97 %, the least that is at least 95


@pytest.mark.parametrize(("blocks", "unequal"), [(8, False), (20, True)])
@pytest.mark.parametrize("name", ["iid", "neighbour"])
def test_all_parts_hold_together(name: str, blocks: int, unequal: bool) -> None:
    found = known.whole_decomposition(noise(name), blocks, 100, SEED, unequal)
    assert found.share >= 0.92


def test_no_pto_without_a_cell_near_one() -> None:
    assert known.without_one(noise("iid"), 10, 20, SEED).share == 1
    (found,) = decompositions(LADDER[:3])
    assert (found.pto.verdict, found.pto.n) == ("refused", 0)
    assert found.pso == () and found.at_one is None
    assert "0.5" in found.refused and "0.95" in found.refused
    assert math.isnan(found.pto.value) and math.isinf(found.pto.high)
    assert found.pto.to_json()["value"] is None


def test_nearly_all_of_the_host_counts_and_is_told() -> None:
    nearly = [cell(setting(s, host=32), 1.1) for s in (8, 31)]
    (found,) = decompositions(nearly)
    assert not found.refused and found.at_one == nearly[1].setting
    assert "0.969" in found.pto.warnings[-1]
    (exactly,) = decompositions(LADDER)
    assert exactly.pto.warnings == ()
    (too_far,) = decompositions([cell(setting(s, host=32), 1.1) for s in (8, 30)])
    assert too_far.refused


def test_the_parts_are_those_put_in() -> None:
    (found,) = decompositions(LADDER)
    assert found.pto.value == pytest.approx(1.1, rel=0.02)
    assert [p.setting.size for p in found.pso] == [1, 2, 4]
    assert [p.ratio.value for p in found.pso] == pytest.approx([1.6, 1.3, 1.1], rel=0.02)
    assert all(p.ratio.verdict == "higher" for p in found.pso)
    assert "4 intervals hold together" in found.pto.method


def test_pso_is_paired_in_blocks() -> None:
    """Blocks that differ by a factor, in each cell and its baseline unlike, cancel where they are the same blocks."""
    trend = np.exp(np.linspace(0, 2, BLOCKS))
    cells = [SizeCell(c.setting, (np.array(c.values) * trend).tolist(), c.baseline) for c in LADDER]
    before, after = decompositions(LADDER)[0], decompositions(cells)[0]
    for one, other in zip(before.pso, after.pso, strict=True):
        assert other.ratio.value == pytest.approx(one.ratio.value)
        assert other.ratio.low == pytest.approx(one.ratio.low)
    assert after.pto.value > 2 * before.pto.value


def test_order_of_cells_is_no_matter() -> None:
    assert decompositions(LADDER[::-1]) == decompositions(LADDER)
    assert [o.setting for o in overheads(LADDER[::-1])] == [c.setting for c in LADDER[::-1]]


def test_only_vanilla_containers_are_claimed() -> None:
    cells = [
        cell(setting(size, platform=platform, how=how), 1.2)
        for platform, how in (("container", "vanilla"), ("container", "pinned"), ("vm", "vanilla"))
        for size in (4, 7, 8)
    ]
    container, pinned, vm = decompositions(cells)
    assert [d.standing for d in (container, pinned, vm)] == ["claim", "description", "description"]
    assert container.spare is None and pinned.spare is None
    assert vm.spare == setting(7, platform="vm")
    assert decompositions(cells, claimed=())[0].standing == "description"


def test_fewer_than_six_blocks_carry_no_interval() -> None:
    few = [cell(c.setting, 1.1, blocks=5) for c in LADDER]
    (found,) = decompositions(few)
    assert found.pto.verdict == "too few" and found.pto.value == pytest.approx(1.1, rel=0.05)
    assert {o.ratio.verdict for o in overheads(few)} == {"too few"}
    assert {o.ratio.verdict for o in overheads([cell(c.setting, 1.1, blocks=6) for c in LADDER])} == {
        "higher"
    }


def test_a_failed_trial_costs_its_block_only_where_it_is_needed() -> None:
    cells = [missing(LADDER[0], 3), *LADDER[1:3], missing(LADDER[3], 5)]
    (found,) = decompositions(cells)
    assert found.pto.n == BLOCKS - 1
    assert [p.ratio.n for p in found.pso] == [BLOCKS - 2, BLOCKS - 1, BLOCKS - 1]
    assert [o.ratio.n for o in overheads(cells)] == [BLOCKS - 1, BLOCKS, BLOCKS, BLOCKS - 1]
    (none,) = decompositions([LADDER[0], missing(LADDER[3], *range(BLOCKS))])
    assert none.pto.verdict == "too few" and none.pto.n == 0 and not none.refused


def test_more_cells_make_wider_intervals() -> None:
    alone, _ = (o.ratio for o in overheads([LADDER[0], LADDER[3]]))
    many = overheads([*LADDER, *(cell(setting(s, how="pinned"), 1.0) for s in range(1, 9))])[0].ratio
    assert many.value == pytest.approx(alone.value)
    assert many.high / many.low > alone.high / alone.low
    assert "12 intervals hold together" in many.method


def test_where_pso_fades() -> None:
    (found,) = decompositions(LADDER)
    half_way = found.fades(1.2)
    assert half_way.above == setting(2) and half_way.below == setting(4)
    assert found.fades(1.02).below == setting(8)  # by definition: PSO(8) = 1
    assert found.fades(5.0).above is None and found.fades(5.0).below == setting(1)
    assert decompositions(LADDER[:3])[0].fades().below is None
    with pytest.raises(BadInput, match="limit"):
        found.fades(1.0)


def test_errors_name_what_is_wrong() -> None:
    for size in (0, -1, 9, math.nan):
        with pytest.raises(BadInput, match="on a host of 8"):
            setting(size)
    with pytest.raises(BadInput, match=r"values: -1 in block 1"):
        SizeCell(setting(1), [1, -1], [1, 1])
    with pytest.raises(BadInput, match="2 values and 1 of the baseline"):
        SizeCell(setting(1), [1, 1], [1])
    with pytest.raises(BadInput, match="baseline"):
        SizeCell(setting(1), [1], [])
    with pytest.raises(BadInput, match="two cells"):
        overheads([LADDER[0], LADDER[0]])
    with pytest.raises(BadInput, match="different numbers of blocks"):
        decompositions([LADDER[0], cell(setting(8), 1.0, blocks=7)])


def test_of_nothing_nothing() -> None:
    assert overheads([]) == () and decompositions([]) == ()


def test_the_examples_on_the_page() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 6
    assert result.failed == 0
