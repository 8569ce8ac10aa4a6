from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from contend.errors import CannotHonour, ScenarioError
from contend.platforms.topology import (
    KINDS,
    Cpu,
    Topology,
    confined,
    format_cpu_list,
    parse_cpu_list,
    permitted,
    placement,
)

ONE = Topology((Cpu(0, 0),))
TWO = Topology((Cpu(0, 0), Cpu(1, 1)))
SIBLINGS = Topology((Cpu(0, 0), Cpu(1, 0)))
# The usual numbering: CPU n and n + 4 are the threads of core n.
SMT = Topology(tuple(Cpu(i, i % 4) for i in range(8)))
SMT_TWO_CORES = Topology(tuple(Cpu(i, i % 2) for i in range(4)))
NUMA = Topology(tuple(Cpu(i, i, package=i // 4, node=i // 4, cache=i // 4 * 4) for i in range(8)))
ALL = [TWO, SIBLINGS, SMT, SMT_TWO_CORES, NUMA]


def cores(topology: Topology, cpus: tuple[int, ...]) -> set[int]:
    return {c.core for c in topology.cpus if c.id in cpus}


@pytest.mark.parametrize("topology", ALL)
def test_same_cpu_is_one_cpu_and_the_others_are_elsewhere(topology: Topology) -> None:
    placed = placement("same-cpu", topology)
    assert placed.victim == placed.neighbours
    assert placed.victim is not None
    assert len(placed.victim) == 1
    assert placed.load == placed.tool
    assert placed.load
    assert not set(placed.victim) & set(placed.load)
    shares_core = bool(cores(topology, placed.victim) & cores(topology, placed.load))
    assert shares_core == bool(placed.notes), "a shared core is recorded, and only that"


@pytest.mark.parametrize("topology", ALL)
def test_own_cores_are_disjoint_and_of_equal_size(topology: Topology) -> None:
    placed = placement("own-cores", topology)
    assert placed.victim
    assert placed.neighbours
    assert not set(placed.victim) & set(placed.neighbours)
    assert len(placed.victim) == len(placed.neighbours)
    split = bool(cores(topology, placed.victim) & cores(topology, placed.neighbours))
    assert split == (topology is SIBLINGS), "siblings are split only where there is one core"
    assert split == any("SMT siblings" in note for note in placed.notes)


def test_own_cores_with_room_gives_the_load_its_own() -> None:
    placed = placement("own-cores", SMT)
    assert placed.victim == (3, 7)
    assert placed.neighbours == (2, 6)
    assert placed.load == (0, 1, 4, 5)
    assert placed.notes == ()


def test_own_cores_stay_in_one_numa_node() -> None:
    placed = placement("own-cores", NUMA)
    used = {c.node for c in NUMA.cpus if c.id in (*(placed.victim or ()), *(placed.neighbours or ()))}
    assert len(used) == 1


def test_same_host_sets_no_affinity() -> None:
    placed = placement("same-host", ONE)
    assert (placed.victim, placed.neighbours, placed.load, placed.tool) == (None, None, None, None)
    assert placed.all == (0,)


@pytest.mark.parametrize("kind", ["same-cpu", "own-cores"])
def test_one_cpu_is_too_few(kind: str) -> None:
    with pytest.raises(CannotHonour, match="2 CPUs") as refused:
        placement(kind, ONE)
    assert "same-host" in refused.value.hint


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ScenarioError, match="'placement: same-rack' is not one of"):
        placement("same-rack", TWO)


@pytest.mark.parametrize(("kind", "topology"), list(product(KINDS, ALL)))
def test_no_party_gets_a_cpu_that_is_not_there(kind: str, topology: Topology) -> None:
    placed = placement(kind, topology)
    for cpus in (placed.victim, placed.neighbours, placed.load, placed.tool):
        assert set(cpus or ()) <= set(topology.ids)
    assert kind in placed.summary()


def test_reads_sys(tmp_path: Path) -> None:
    for cpu, siblings, package in ((0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0), (3, "1,3", 1)):
        base = tmp_path / f"devices/system/cpu/cpu{cpu}"
        (base / "topology").mkdir(parents=True)
        (base / "topology/thread_siblings_list").write_text(siblings + "\n")
        (base / "topology/physical_package_id").write_text(f"{package}\n")
        for index, (level, shared) in enumerate(((1, siblings), (3, "0,2" if package == 0 else "1,3"))):
            (base / f"cache/index{index}").mkdir(parents=True)
            (base / f"cache/index{index}/level").write_text(f"{level}\n")
            (base / f"cache/index{index}/shared_cpu_list").write_text(f"{shared}\n")
    for node, cpus in ((0, "0,2"), (1, "1,3")):
        (tmp_path / f"devices/system/node/node{node}").mkdir(parents=True)
        (tmp_path / f"devices/system/node/node{node}/cpulist").write_text(f"{cpus}\n")
    read = Topology.read(tmp_path, allowed=[0, 1, 3])
    assert read.cpus == (Cpu(0, 0, 0, 0, 0), Cpu(1, 1, 1, 1, 1), Cpu(3, 1, 1, 1, 1))
    assert read.to_json()["smt"] is True


def test_reads_a_sys_that_says_nothing(tmp_path: Path) -> None:
    assert Topology.read(tmp_path, allowed=[5, 7]).cpus == (Cpu(5, 5, cache=5), Cpu(7, 7, cache=7))


@pytest.mark.parametrize("cpus", [(), (0,), (0, 1, 2), (1, 3, 5), (0, 1, 4, 5, 6, 9)])
def test_cpu_lists_round_trip(cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus


def test_permitted_looks_past_the_affinity_of_the_moment() -> None:
    before = os.sched_getaffinity(0)
    with confined([min(before)]):
        assert os.sched_getaffinity(0) == {min(before)}
        assert set(permitted()) >= before
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
