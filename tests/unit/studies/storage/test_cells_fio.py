"""Which fio a point of a storage sweep is, word by word, on files, devices and what is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contend.errors import ScenarioError
from contend.studies.cell import ALONE, CONTROL
from contend.studies.storage.cells import by_label, cells, focused, pair, trio
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.points import Point
from support.made_sweeps import sweep

MIB = 2**20
RANDOM = Point(4096, 32, "async", 70, "random")
SEQUENTIAL = Point(65536, 8, "sync", 0, "sequential")
VALUES = {"work": "/w", "out": "/o", "seed": 7, "seconds": "1", "cpus": 2, "step_ms": 1000}


def scenario(**more: Any) -> Storage:
    return sweep().model_copy(update=more)


def words(argv: tuple[str, ...] | list[str]) -> dict[str, str]:
    return {
        name.lstrip("-"): value for name, _, value in (word.partition("=") for word in argv if word != "fio")
    }


def run_of(asked: Storage, pool: Pool, point: Point) -> dict[str, str]:
    (argv,) = pair(asked, pool, point)[0].victim.instance.commands(VALUES).run
    return words(list(argv))


def beside_of(asked: Storage, pool: Pool, point: Point) -> dict[str, str]:
    (neighbour,) = pair(asked, pool, point)[1].neighbours
    return words(list(neighbour.instance.commands(VALUES).neighbour))


LOAD = {
    "thread": "", "filename": "/w/data", "group_reporting": "", "norandommap": "", "randseed": "7", "time_based": "",
    "allow_file_create": "0", "direct": "1",
}  # fmt: skip
MIXED = {
    **LOAD, "offset": "0", "offset_increment": "0", "size": str(64 * MIB), "numjobs": "1", "rw": "randrw", "rwmixread": "70",
    "bs": "4096", "iodepth": "32", "ioengine": "libaio",
}  # fmt: skip
# Eight threads in sequence: an eighth of the file each, in whole 64 KiB.
APART = {
    **LOAD, "offset": "0", "offset_increment": str(8 * MIB), "size": str(8 * MIB), "numjobs": "8", "rw": "write",
    "rwmixread": "0", "bs": "65536", "iodepth": "1", "ioengine": "psync",
}  # fmt: skip


@pytest.mark.parametrize(("point", "load"), [(RANDOM, MIXED), (SEQUENTIAL, APART)])
def test_a_point_is_one_fio_and_its_neighbour_is_the_same_without_an_end(
    point: Point, load: dict[str, str]
) -> None:
    asked = scenario()
    run = run_of(asked, asked.named[0], point)
    assert run.pop("output").startswith("/o/")
    assert run == {
        "name": "trial", **load, "runtime": "1000ms", "unified_rw_reporting": "1", "output-format": "json",
    }  # fmt: skip
    beside = beside_of(asked, asked.named[0], point)
    assert beside.pop("output").startswith("/o/")
    assert beside == {"name": "neighbour", **load, "runtime": "30d"}


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        (Point(4096, 1, "sync", 100, "random"), "randread"),
        (Point(4096, 1, "sync", 0, "random"), "randwrite"),
        (Point(4096, 1, "sync", 1, "random"), "randrw"),
        (Point(4096, 1, "sync", 100, "sequential"), "read"),
        (Point(4096, 1, "sync", 99, "sequential"), "rw"),
    ],
)
def test_reads_and_order_are_fio_s_rw(point: Point, kind: str) -> None:
    asked = scenario()
    run = run_of(asked, asked.named[0], point)
    assert (run["rw"], run["rwmixread"]) == (kind, str(point.read))


@pytest.mark.parametrize(
    ("point", "size", "region", "step"),
    [
        (Point(4096, 3, "sync", 100, "sequential"), 64 * MIB, 64 * MIB // 3 // 65536 * 65536, None),
        (Point(4096, 3, "sync", 100, "random"), 64 * MIB, 64 * MIB, 0),
        (Point(4096, 3, "async", 100, "sequential"), 64 * MIB, 64 * MIB, 0),
        (Point(4096, 1, "sync", 100, "sequential"), 64 * MIB + 5, 64 * MIB, None),
    ],
)
def test_threads_in_sequence_have_parts_of_their_own(
    point: Point, size: int, region: int, step: int | None
) -> None:
    run = run_of(scenario(size=size), sweep().named[0], point)
    assert int(run["size"]) == region
    assert int(run["offset_increment"]) == (region if step is None else step)


@pytest.mark.parametrize(("asked", "engine"), [("auto", "libaio"), ("io_uring", "io_uring")])
def test_the_engine_that_is_asked_for_sends_asynchronous_requests(asked: str, engine: str) -> None:
    of = scenario(async_engine=asked)
    assert run_of(of, of.named[0], RANDOM)["ioengine"] == engine
    assert run_of(of, of.named[0], SEQUENTIAL)["ioengine"] == "psync"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> str:
    """A path that is a block device, as far as anybody who looks can tell."""
    path = "/dev/of-a-test"
    monkeypatch.setattr(Path, "is_block_device", lambda of: str(of) == path)
    return path


def test_on_a_device_the_neighbour_works_behind_what_is_measured(device: str) -> None:
    asked = scenario()
    pool = Pool(name="fast", path=device, destroy=True)
    assert run_of(asked, pool, RANDOM)["offset"] == "0"
    assert beside_of(asked, pool, RANDOM)["offset"] == str(64 * MIB)
    assert beside_of(asked, asked.named[0], RANDOM)["offset"] == "0"


@pytest.mark.parametrize(
    ("direct", "memory", "flag", "dominant", "burning"),
    [(True, False, "1", "disk", 20e3), (None, False, "1", "disk", 20e3), (False, False, "0", "memory", 0.05),
     (True, True, "1", "memory", 0.05)],
)  # fmt: skip
def test_what_reaches_no_disk_is_bound_by_memory_and_burns_cpu_time(
    direct: bool | None, memory: bool, flag: str, dominant: str, burning: float
) -> None:
    asked = scenario()
    pool = asked.named[0].model_copy(update={"direct": direct, "memory": memory})
    assert run_of(asked, pool, RANDOM)["direct"] == flag
    workload = pair(asked, pool, RANDOM)[0].victim.instance.workload
    assert (workload.dominant, workload.neighbour.burning) == (dominant, burning)


def test_the_file_is_written_from_end_to_end_before_it_is_measured() -> None:
    asked = scenario(passes=3)
    (layout,) = pair(asked, asked.named[0], RANDOM)[0].victim.instance.commands(VALUES).prepare
    written = words(list(layout))
    assert written.pop("output").startswith("/w/")
    assert written == {
        "name": "prepare", "filename": "/w/data", "offset": "0", "size": str(64 * MIB), "rw": "write", "bs": "1M",
        "ioengine": "psync", "direct": "1", "end_fsync": "1", "loops": "3", "output-format": "json",
    }  # fmt: skip


def test_what_is_only_read_is_neither_written_nor_opened_for_it(device: str) -> None:
    asked = scenario()
    pool = Pool(name="fast", path=device)
    reads = Point(4096, 8, "sync", 100, "random")
    instance = pair(asked, pool, reads)[0].victim.instance
    assert instance.commands(VALUES).prepare in ((), [])
    assert "readonly" in run_of(asked, pool, reads) and "readonly" in beside_of(asked, pool, reads)
    assert "readonly" not in run_of(asked, asked.named[0], reads)
    with pytest.raises(ScenarioError, match="it would write to") as told:
        pair(asked, pool, RANDOM)
    assert "destroy" in told.value.hint


def test_a_point_is_three_cells_of_one_workload_of_the_pool() -> None:
    asked = scenario()
    pool = asked.named[0]
    alone, control, beside = trio(asked, pool, RANDOM)
    name = "fast random 70/30 4k x32 async"
    assert [c.id for c in (alone, control, beside)] == [
        f"{name}|{ALONE}",
        f"{name}|{CONTROL}",
        f"{name}|the same",
    ]
    assert [c.baseline for c in (alone, control, beside)] == ["", alone.id, alone.id]
    assert [c.control for c in (alone, control, beside)] == [False, True, False]
    assert [len(c.neighbours) for c in (alone, control, beside)] == [0, 0, 1]
    assert alone.victim == control.victim == beside.victim
    assert beside.factors == {
        "victim": name, "neighbour": "the same", "pool": "fast", "block_size": "4k", "depth": "32", "engine": "async",
        "read": "70", "pattern": "random",
    }  # fmt: skip
    assert {alone.victim.group, beside.neighbours[0].group} == {"fast"}
    assert pair(asked, pool, RANDOM) == (alone, beside)


def test_the_table_s_cells_are_of_every_pool_and_the_chosen_ones_of_those_named() -> None:
    asked = scenario()
    every = cells(asked)
    assert len(every) == 2 * 2 * 3
    assert {c.factors["pool"] for c in every} == {"fast", "slow"}
    assert {c.factors["block_size"] for c in every} == {"4k", "64k"}
    known = by_label(asked)
    label = "slow sequential writes 64k x8 sync"
    assert known[label] == (asked.named[1], SEQUENTIAL)
    assert [c.factors["victim"] for c in focused(asked, [label])] == [label] * 3
