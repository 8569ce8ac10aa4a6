"""Overhead studies: which cells there are, what each place is given, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.engine import checks
from contend.errors import BadInput, CannotHonour, ScenarioError
from contend.platforms.base import Limit
from contend.platforms.sizes import INSTANCE_TYPES, PlatformSize, parse_platform_size
from contend.platforms.topology import Cpu, Topology, pick
from contend.scenario.yaml_file import read_yaml
from contend.studies.cell import Cell
from contend.studies.overhead.model import Overhead
from contend.studies.registry import cells_of
from contend.studies.scenarios import load, parse, to_yaml


def overhead(*settings: str) -> Overhead:
    asked = load("platform-overhead", settings)
    assert isinstance(asked, Overhead)
    return asked


def cells(*settings: str) -> dict[str, Cell]:
    return {cell.id: cell for cell in cells_of(overhead(*settings))}


def test_each_size_has_its_own_bare_host_and_the_largest_a_control() -> None:
    found = cells("apps=mpi-prime", "sizes=[0.5,1,2]")
    assert {name: cell.baseline for name, cell in found.items()} == {
        "mpi-prime|bare 1 CPU": "",
        "mpi-prime|container vanilla 0.5 CPU": "mpi-prime|bare 1 CPU",
        "mpi-prime|container pinned 0.5 CPU": "mpi-prime|bare 1 CPU",
        "mpi-prime|container vanilla 1 CPU": "mpi-prime|bare 1 CPU",
        "mpi-prime|container pinned 1 CPU": "mpi-prime|bare 1 CPU",
        "mpi-prime|bare 2 CPUs": "",
        "mpi-prime|bare 2 CPUs (control)": "mpi-prime|bare 2 CPUs",
        "mpi-prime|container vanilla 2 CPUs": "mpi-prime|bare 2 CPUs",
        "mpi-prime|container pinned 2 CPUs": "mpi-prime|bare 2 CPUs",
    }
    assert [cell.id for cell in found.values() if cell.control] == ["mpi-prime|bare 2 CPUs (control)"]


def test_what_a_place_is_given() -> None:
    found = cells("apps=mpi-prime", "sizes=[0.5,2/1GB]")

    def given(name: str) -> tuple[Limit, int | None]:
        place = found[f"mpi-prime|{name}"].victim.platform
        assert place is not None
        return place.limit, place.cpus_wanted

    assert given("bare 1 CPU") == (Limit(), 1)
    assert given("bare 2 CPUs") == (Limit(), 2)
    assert given("container vanilla 0.5 CPU") == (Limit(cpus=0.5), None)
    assert given("container pinned 0.5 CPU") == (Limit(cpus=0.5), 1), "half of one CPU, always the same"
    assert given("container vanilla 2 CPUs 1 GiB") == (Limit(cpus=2, memory_bytes=1 << 30), None)
    assert given("container pinned 2 CPUs 1 GiB") == (Limit(memory_bytes=1 << 30), 2)


def test_a_command_of_the_users_takes_the_place_of_the_applications() -> None:
    asked, _ = checks.fitted(overhead("app=sleep 0.1 {x}", "sizes=1"))
    assert isinstance(asked, Overhead)
    assert asked.apps[0].command is not None and asked.apps[0].command.directory == str(Path.cwd())
    victims = {cell.victim.instance.label for cell in cells_of(asked)}
    assert victims == {"sleep"}
    command = cells_of(asked)[0].victim.instance.workload.run
    assert command == ("sleep 0.1 {{x}}",)
    checks.check(asked)
    with pytest.raises(CannotHonour, match=r"no program '\./not-there'"):
        checks.check(checks.fitted(overhead("app=./not-there", "sizes=1"))[0])


def test_it_reads_back_what_it_wrote() -> None:
    asked = overhead("sizes=[0.5,Large,2/1GB]", "provisioning=vanilla")
    assert parse(read_yaml(to_yaml(asked), "again.yaml", ScenarioError)) == asked.model_copy(
        update={"origin": "again.yaml"}
    )


def test_sizes_that_do_not_fit_are_left_out_and_said() -> None:
    asked, skipped = checks.fitted(overhead("sizes=[1,4000,1/4096GB]"))
    assert isinstance(asked, Overhead) and [size.cpus for size in asked.sizes] == [1]
    assert [line.split(":")[0] for line in skipped] == ["size 4000 CPUs", "size 1 CPU 4096 GiB"]
    with pytest.raises(CannotHonour, match="no size fits"):
        checks.fitted(overhead("sizes=4000"))
    usual, skipped = checks.fitted(overhead())
    assert isinstance(usual, Overhead) and skipped == ()
    host = len(Topology.read().cpus)
    assert [size.cpus / host for size in usual.sizes] == [0.25, 0.5, 1]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("sizes=tiny", "'tiny' is no size"),
        ("sizes=0", "0 CPUs: a size is from 0.05"),
        ("sizes=[{memory: 1GB}]", "a size is {cpus: 2, memory: 8GB}"),
        ("platforms=bare", "'platforms: bare' is not one of: container, vm, container-in-vm"),
        ("platforms=[bare]", "'platforms: bare' is not one of: container, vm, container-in-vm"),
        ("provisioning=sticky", "'provisioning: sticky' is not one of: vanilla, pinned"),
        ("apps=[]", "name `apps`"),
        ("directory=/tmp", "there is none"),
        ("apps=[{ffmpeg: {limit: {cpus: 1}}}]", "a second treatment"),
        ("trace=true", "without traces"),
    ],
)
def test_what_cannot_be_asked(setting: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        overhead(setting)


def test_sizes_of_the_study() -> None:
    assert {name: (s.cpus, (s.memory_bytes or 0) // 2**30) for name, s in INSTANCE_TYPES.items()} == {
        "Large": (2, 8),
        "xLarge": (4, 16),
        "2xLarge": (8, 32),
        "4xLarge": (16, 64),
        "8xLarge": (32, 128),
        "16xLarge": (64, 256),
    }
    assert parse_platform_size("xLARGE") == INSTANCE_TYPES["xLarge"]
    assert parse_platform_size("1.5") == PlatformSize(1.5) and PlatformSize(1.5).whole_cpus == 2


def test_cpus_are_picked_as_close_together_as_they_fit() -> None:
    """Two packages of two caches of two cores of two threads: 16 CPUs, threads of a core 8 apart."""
    host = Topology(tuple(Cpu(n, n % 8, n % 8 // 4, n % 8 // 4, n % 8 // 2) for n in range(16)))
    assert pick(host, 1) == (7,)
    assert pick(host, 2) == (7, 15), "a core"
    assert pick(host, 4) == (6, 7, 14, 15), "a cache"
    assert pick(host, 5) == (5, 6, 7, 14, 15), "a cache, and one of the same node"
    assert pick(host, 8) == (4, 5, 6, 7, 12, 13, 14, 15), "a node"
    assert pick(host, 9) == (3, 4, 5, 6, 7, 12, 13, 14, 15)
    for number in range(1, 17):
        assert len(set(pick(host, number))) == number
    with pytest.raises(CannotHonour, match="17 CPUs are wanted, this host gives 16"):
        pick(host, 17)


def test_a_small_rest_is_taken_from_the_smallest_that_holds_it() -> None:
    """A node of four CPUs and one of two: three CPUs are one node's, two are the other's."""
    host = Topology(tuple(Cpu(n, n, node=0 if n < 4 else 1, cache=0 if n < 4 else 1) for n in range(6)))
    assert pick(host, 2) == (4, 5)
    assert pick(host, 3) == (1, 2, 3)


def test_who_starts_guests_is_qemu_itself_or_a_libvirt_of_this_host() -> None:
    assert overhead("platforms=vm").hypervisor == "qemu"
    for asked in ("libvirt", "qemu:///session", "qemu+unix:///system?socket=/run/mine"):
        found = overhead("platforms=[container,container-in-vm]", f"hypervisor={asked}")
        assert found.made_on.hypervisor == asked
    for settings, said in (
        (("platforms=vm", "hypervisor=vmware"), "'vmware' starts no guests of this host"),
        (("platforms=vm", "hypervisor=qemu+ssh://there/system"), "starts no guests of this host"),
        (("hypervisor=libvirt",), "is of virtual machines"),
    ):
        with pytest.raises(ScenarioError, match=said):
            overhead(*settings)
    text = "study: interference\nvictims: [fio]\nplatform: {kind: container, hypervisor: libvirt}\n"
    with pytest.raises(ScenarioError, match="a container has none"):
        parse(read_yaml(text, "mine.yaml", ScenarioError))
