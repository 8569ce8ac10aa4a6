"""Cells of a storage sweep: each point on each pool alone, beside its neighbour, and again in blocks for intervals."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from contend.errors import ScenarioError
from contend.studies.cell import ALONE, CONTROL, Cell, CellWorkload, cell_workload
from contend.studies.storage import cloud_cells as storage_cloud
from contend.studies.storage import fio_words
from contend.studies.storage.fio_words import LOAD
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.points import Point, full, neighbours_point, table
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Neighbour, Scalar, Workload

SAME = "the same"
BURNING = 20e3  # bytes a second: a disk of spinning platters under small requests does ten times that


def cells(scenario: Storage) -> tuple[Cell, ...]:
    """Cells of the table, which are measured whatever the screening finds."""
    return tuple(
        cell
        for pool in scenario.named
        for point in table(scenario, pool)
        for cell in trio(scenario, pool, point)
    )


def pair(scenario: Storage, pool: Pool, point: Point) -> tuple[Cell, Cell]:
    """Two cells of a point: alone, and beside the neighbour."""
    alone, _, beside = trio(scenario, pool, point)
    return alone, beside


def trio(scenario: Storage, pool: Pool, point: Point) -> tuple[Cell, Cell, Cell]:
    """Three cells of a point: alone, alone again as the control, and beside the neighbour."""
    victim, neighbour = _measured_workload(scenario, pool, point), _neighbour(scenario, pool, point)
    name = victim.label
    beside = SAME if scenario.neighbour is None else neighbour.label

    def cell(by: str, neighbours: tuple[CellWorkload, ...] = (), *, control: bool = False) -> Cell:
        cloud = {"cloud": scenario.cloud} if scenario.cloud else {}
        factors = {"victim": name, "neighbour": by, "pool": pool.name, **point.factors, **cloud}
        baseline = "" if by == ALONE else f"{name}|{ALONE}"
        return Cell(f"{name}|{by}", victim, neighbours, factors, baseline, control)

    return cell(ALONE), cell(CONTROL, control=True), cell(beside, (neighbour,))


def by_label(scenario: Storage) -> Mapping[str, tuple[Pool, Point]]:
    """Pool and point of every victim, by the name that its cells have."""
    return {
        f"{pool.name} {point.label}": (pool, point)
        for pool in scenario.named
        for point in (*full(scenario, pool), *table(scenario, pool))
    }


def focused(scenario: Storage, labels: Iterable[str]) -> tuple[Cell, ...]:
    """The cells of these victims, with their controls."""
    known = by_label(scenario)
    return tuple(cell for label in labels for cell in trio(scenario, *known[label]))


def _measured_workload(scenario: Storage, pool: Pool, point: Point) -> CellWorkload:
    instance = resolve(_made(scenario, pool), _parameters(scenario, pool, point, first=True))
    return CellWorkload(f"{pool.name} {point.label}", instance, group=pool.name)


def _neighbour(scenario: Storage, pool: Pool, point: Point) -> CellWorkload:
    ref = scenario.neighbour
    if ref is not None and ref.workload != "fio":
        return cell_workload(ref)
    beside = neighbours_point(scenario, point)
    if pool.read_only and beside.read != 100:
        raise ScenarioError(
            f"neighbour: it would write to {pool.path}, which is only read",
            hint="neighbour={fio: {read: 100}}; or `destroy: true` with the pool's name, which destroys what is on it",
        )
    instance = resolve(_made(scenario, pool), _parameters(scenario, pool, beside, first=False))
    return CellWorkload(f"{pool.name} {beside.label}", instance, group=pool.name)


def _parameters(scenario: Storage, pool: Pool, point: Point, *, first: bool) -> dict[str, Scalar]:
    several = point.engine == "sync"
    jobs = point.depth if several else 1
    # Threads that go through a file in sequence each have a part of it, or all would read the same blocks at once.
    apart = several and point.pattern == "sequential"
    region = scenario.size // jobs // 2**16 * 2**16 if apart else scenario.size
    random = point.pattern == "random"
    kind = {100: "read", 0: "write"}.get(point.read, "rw")
    return {
        "kind": f"rand{kind}" if random else kind,
        "read": point.read,
        "block": str(point.block),
        "depth": 1 if several else point.depth,
        "jobs": jobs,
        "engine": "psync" if several else _async(scenario),
        "region": str(region),
        "step": str(region if apart else 0),
        "offset": str(scenario.size if pool.device and not first else 0),
        **(storage_cloud.parameters(scenario, pool, first=first) if scenario.cloud else {}),
    }


def _async(scenario: Storage) -> str:
    return "libaio" if scenario.async_engine == "auto" else scenario.async_engine


def _made(scenario: Storage, pool: Pool) -> Workload:
    if scenario.cloud:
        return storage_cloud.workload(pool, scenario.size, scenario.passes, BURNING)
    return _workload(pool, pool.read_only, scenario.size, scenario.passes)


@functools.lru_cache(maxsize=32)  # hundreds of points have one
def _workload(pool: Pool, read_only: bool, size: int, passes: int) -> Workload:
    """The catalogue's fio, on a pool's file or device, which is linked as {work}/data."""
    fio = load_workload("fio")
    direct = pool.direct is not False
    file = "{work}/data"
    layout = f"{fio_words.layout(file, size, passes, direct)} --output={{work}}/prepare.json"
    trial = fio_words.trial(file, direct, read_only=read_only)
    neighbour = fio_words.neighbour(file, direct, read_only=read_only)
    reaches = pool.direct is not False and not pool.memory
    return Workload(
        name="fio",
        title=f"{fio.title}, on {pool.name}",
        about=fio.about,
        install=fio.install,
        parameters=dict(LOAD),
        prepare=() if read_only else (layout,),
        run=(f"{trial} --output={{out}}/fio.json",),
        neighbour=Neighbour(
            run=f"{neighbour} --output={{out}}/neighbour.txt",
            burning=BURNING if reaches else 0.05,
        ),
        metrics=fio.metrics,
        # What the page cache answers never reaches a disk: such a neighbour shows by its CPU time.
        dominant="disk" if reaches else "memory",
        trial=fio.trial,
        origin=fio.origin,
    )  # fmt: skip
