"""Effects as quotients of overhead ratios within blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats.platform_effects import KINDS, Effect, Kind, effects
from contend.stats.platform_size import Setting, SizeCell
from known import platforms as known
from known.noise import GENERATORS, Noise
from support.known_counts import answer

SEED = 20260101
BLOCKS = 12
_rng = np.random.default_rng(SEED)


def bare(sd: float = 0.01) -> list[float]:
    found: list[float] = np.exp(_rng.normal(0, sd, BLOCKS)).tolist()
    return found


def cell(
    how: str, size: float, slow: float, *, host: float = 8, of: str = "film", base: list[float] | None = None
) -> SizeCell:
    own = slow * np.exp(_rng.normal(0, 0.01, BLOCKS))
    return SizeCell(Setting(of, "container", how, size, host), own.tolist(), base or bare())


def of_kind(found: tuple[Effect, ...], kind: Kind) -> list[Effect]:
    return [e for e in found if e.kind == kind]


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.name)
def test_effects_hold_the_truth(generator: Noise, crossed: bool) -> None:
    assert 0.93 <= answer(lambda n: known.effect(generator, 20, n, SEED, crossed), 2000).share <= 0.97


def test_the_smallest_effect_that_could_be_seen_is_seen_in_four_of_five() -> None:
    told = known.effect(GENERATORS[0], 20, 2000, SEED, crossed=False).extra
    assert 75 <= int(told.rpartition("in ")[2].rstrip("%")) <= 85


def test_pinning_and_its_crossing_with_size() -> None:
    cells = [
        cell("vanilla", 2, 2.0),
        cell("vanilla", 8, 1.2),
        cell("pinned", 2, 1.25),
        cell("pinned", 8, 1.2),
    ]
    found = effects(cells)
    small, whole = of_kind(found, "pinning")
    assert small.ratio.value == pytest.approx(1.6, rel=0.03) and small.ratio.verdict == "higher"
    assert whole.ratio.verdict == "unaffected" and 0 < whole.detectable < 0.05
    (crossed,) = of_kind(found, "size × pinning")
    assert crossed.ratio.value == pytest.approx(1.6, rel=0.03)
    assert [s.size for s in (*crossed.over, *crossed.under)] == [2, 8, 8, 2]
    assert "above 1, pinning helps" in small.meaning
    assert len(found) == 3
    cells[1] = cell("vanilla", 8, 1.5)
    (other,) = effects(cells, kinds=["size × pinning"])
    assert other.ratio.value == pytest.approx((2.0 / 1.5) / (1.25 / 1.2), rel=0.03)


def test_no_crossing_with_size_without_a_cell_near_one() -> None:
    cells = [cell("vanilla", 2, 2.0), cell("vanilla", 4, 1.2), cell("pinned", 2, 1.0), cell("pinned", 4, 1.0)]
    assert {e.kind for e in effects(cells)} == {"pinning"}


def test_chr_and_its_crossing_with_pinning() -> None:
    cells = [
        cell("vanilla", 4, 1.8, host=32),
        cell("vanilla", 4, 1.5, host=16),
        cell("vanilla", 4, 1.2, host=4),
        cell("pinned", 4, 1.1, host=32),
        cell("pinned", 4, 1.0, host=4),
    ]
    found = effects(cells)
    hosts = [
        (e.over[0].provisioning, e.over[0].host_cpus, e.under[0].host_cpus) for e in of_kind(found, "CHR")
    ]
    assert hosts == [("vanilla", 32, 16), ("vanilla", 16, 4), ("pinned", 32, 4)]
    assert of_kind(found, "CHR")[0].ratio.value == pytest.approx(1.2, rel=0.03)
    assert of_kind(found, "CHR × pinning") == []  # the pinned one has no host of 16
    (crossed,) = of_kind(effects([cells[0], *cells[2:]]), "CHR × pinning")
    assert crossed.ratio.value == pytest.approx((1.8 / 1.2) / (1.1 / 1.0), rel=0.03)


def test_pto_of_hosts_of_several_sizes() -> None:
    cells = [cell("vanilla", host, slow, host=host) for host, slow in ((2, 1.1), (16, 1.3), (4, 1.1))]
    found = of_kind(effects([*cells, cell("vanilla", 2, 1.5, host=16), cell("pinned", 8, 1.0)]), "PTO")
    assert [(e.over[0].host_cpus, e.under[0].host_cpus) for e in found] == [(16, 4), (4, 2)]
    assert found[0].ratio.value == pytest.approx(1.3 / 1.1, rel=0.03)
    assert found[1].ratio.verdict == "unaffected"


def test_pieces_against_the_whole_is_a_ratio_of_overheads() -> None:
    cells = [
        cell("vanilla", 2, 1.5),
        cell("vanilla", 8, 1.0),
        # Thirty times as long on either platform, and dearer in the container by a fifth.
        cell("vanilla", 2, 30 * 1.8, of="pieces", base=[30 * x for x in bare()]),
        cell("vanilla", 8, 30 * 1.0, of="pieces", base=[30 * x for x in bare()]),
    ]
    found = effects(cells, pieces={"pieces": "film"})
    small, whole = of_kind(found, "pieces")
    assert small.ratio.value == pytest.approx(1.2, rel=0.03)
    assert whole.ratio.value == pytest.approx(1.0, rel=0.03)
    assert of_kind(found, "size × pieces")[0].ratio.value == pytest.approx(1.2, rel=0.03)
    assert effects(cells) == ()


def test_a_shared_baseline_cancels() -> None:
    """It adds no noise, and a block whose baseline failed still counts."""
    wild = bare(sd=1.0)
    wild[3] = math.nan
    cells = [cell("vanilla", 2, 2.0, base=wild), cell("pinned", 2, 1.0, base=list(wild))]
    (found,) = effects(cells, kinds=["pinning"])
    assert found.ratio.n == BLOCKS
    assert found.ratio.relative_half_width < 0.03
    apart = [cells[0], SizeCell(cells[1].setting, cells[1].values, bare())]
    (other,) = effects(apart, kinds=["pinning"])
    assert other.ratio.n == BLOCKS - 1 and other.ratio.relative_half_width > 0.3


def test_each_kind_is_a_table_that_holds_together() -> None:
    cells = [cell(how, size, 1.0) for how in ("vanilla", "pinned") for size in (2, 4, 8)]
    found = effects(cells)
    assert "3 intervals hold together" in of_kind(found, "pinning")[0].ratio.method
    assert "2 intervals hold together" in of_kind(found, "size × pinning")[0].ratio.method
    assert [e.kind for e in found] == sorted((e.kind for e in found), key=KINDS.index)


def test_other_blocks_are_refused() -> None:
    fewer = SizeCell(Setting("pieces", "container", "vanilla", 2, 8), [1.0] * 7, [1.0] * 7)
    with pytest.raises(BadInput, match="different numbers of blocks"):
        effects([cell("vanilla", 2, 1.5), fewer], pieces={"pieces": "film"})


def test_of_nothing_nothing() -> None:
    assert effects([]) == ()
    assert effects([cell("vanilla", 2, 1.0)]) == ()


def test_a_varied_provisioning_is_divided_by_the_one_it_is_paired_with() -> None:
    cells = [
        cell("long", 2, 1.5),
        cell("short", 2, 1.2),
        cell("long", 8, 1.1),
        cell("short", 8, 1.0),
        cell("other", 2, 3.0),
    ]
    found = of_kind(effects(cells, pairs={"period": (("long", "short"),)}), "period")
    assert [
        (e.over[0].provisioning, e.under[0].provisioning, e.over[0].size, e.under[0].size) for e in found
    ] == [
        ("long", "short", 2, 2),
        ("long", "short", 8, 8),
    ]
    assert [e.ratio.value for e in found] == pytest.approx([1.25, 1.1], rel=0.03)
    assert of_kind(effects(cells), "period") == [], "nobody asked for it"
