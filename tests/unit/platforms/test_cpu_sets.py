"""Which CPUs a set gets: close together, or apart; and whether that makes a difference on a host."""

from __future__ import annotations

import pytest

from contend.errors import CannotHonour
from contend.platforms.cpu_sets import alike, describe, spread
from contend.platforms.topology import Cpu, Topology, pick

# Two packages of two caches of two cores of two threads: threads of a core are 8 apart.
BIG = Topology(tuple(Cpu(n, n % 8, n % 8 // 4, n % 8 // 4, n % 8 // 2) for n in range(16)))
TWO = Topology((Cpu(0, 0), Cpu(1, 1)))
SIBLINGS = Topology((Cpu(0, 0), Cpu(1, 0), Cpu(2, 2), Cpu(3, 2)))


def levels(host: Topology, cpus: tuple[int, ...]) -> tuple[int, int, int]:
    taken = [cpu for cpu in host.cpus if cpu.id in cpus]
    return len({c.core for c in taken}), len({c.cache for c in taken}), len({c.node for c in taken})


def test_apart_is_cores_first_then_caches_and_nodes() -> None:
    assert spread(BIG, 1) == pick(BIG, 1) == (7,)
    assert levels(BIG, spread(BIG, 2)) == (2, 2, 2) and levels(BIG, pick(BIG, 2)) == (1, 1, 1)
    assert levels(BIG, spread(BIG, 3)) == (3, 3, 2)
    assert levels(BIG, spread(BIG, 4)) == (4, 4, 2) and levels(BIG, pick(BIG, 4)) == (2, 1, 1)
    assert levels(BIG, spread(BIG, 8)) == (8, 4, 2), "no two threads of a core while there are free ones"
    for number in range(1, 17):
        assert len(set(spread(BIG, number))) == number
    with pytest.raises(CannotHonour, match="17 CPUs are wanted"):
        spread(BIG, 17)


def test_cores_come_before_caches() -> None:
    """A cache of three cores and one of one core with two threads: the fourth CPU is the last core, not a thread."""
    host = Topology((Cpu(0, 0), Cpu(1, 1), Cpu(2, 2), Cpu(3, 3, cache=1), Cpu(4, 3, cache=1)))
    assert {cpu.core for cpu in host.cpus if cpu.id in spread(host, 4)} == {0, 1, 2, 3}


def test_where_it_makes_no_difference() -> None:
    for number in (1, 2):
        assert alike(TWO, pick(TWO, number), spread(TWO, number))
    assert not alike(SIBLINGS, pick(SIBLINGS, 2), spread(SIBLINGS, 2))
    assert alike(SIBLINGS, pick(SIBLINGS, 3), spread(SIBLINGS, 3)), "one whole core and half of another"
    assert alike(BIG, pick(BIG, 16), spread(BIG, 16))
    assert not any(alike(BIG, pick(BIG, n), spread(BIG, n)) for n in range(2, 15))


def test_a_set_in_words() -> None:
    assert describe(BIG, pick(BIG, 2)) == "1 core, 1 cache, 1 node"
    assert describe(BIG, spread(BIG, 2)) == "2 cores, 2 caches, 2 nodes, 2 packages"
