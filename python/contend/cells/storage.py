"""Cells of a storage sweep: each point on each pool alone, beside its neighbour, and where intervals are asked for again."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from contend.cells.base import ALONE, CONTROL, Cell, Party, party
from contend.studies import Pool, Storage
from contend.sweep.points import Point, full, neighbours_point, table
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Neighbour, Parameter, Scalar, Workload

SAME = "the same"
BURNING = 20e3  # bytes a second: a disk of spinning platters under small requests does ten times that


def cells(scenario: Storage) -> tuple[Cell, ...]:
    """Those of the table, which are measured whatever the screening says."""
    return tuple(
        cell
        for pool in scenario.named
        for point in table(scenario, pool)
        for cell in trio(scenario, pool, point)
    )


def pair(scenario: Storage, pool: Pool, point: Point) -> tuple[Cell, Cell]:
    """Alone, and beside the neighbour."""
    alone, _, beside = trio(scenario, pool, point)
    return alone, beside


def trio(scenario: Storage, pool: Pool, point: Point) -> tuple[Cell, Cell, Cell]:
    """Alone, alone again as the control, and beside the neighbour."""
    victim, neighbour = _party(scenario, pool, point), _neighbour(scenario, pool, point)
    name = victim.label
    beside = SAME if scenario.neighbour is None else neighbour.label

    def cell(by: str, parties: tuple[Party, ...] = (), *, control: bool = False) -> Cell:
        factors = {"victim": name, "neighbour": by, "pool": pool.name, **point.factors}
        baseline = "" if by == ALONE else f"{name}|{ALONE}"
        return Cell(f"{name}|{by}", victim, parties, factors, baseline, control)

    return cell(ALONE), cell(CONTROL, control=True), cell(beside, (neighbour,))


def by_label(scenario: Storage) -> Mapping[str, tuple[Pool, Point]]:
    """Every point of every pool by the victim's name that its cells have."""
    return {
        f"{pool.name} {point.label}": (pool, point)
        for pool in scenario.named
        for point in (*full(scenario, pool), *table(scenario, pool))
    }


def focused(scenario: Storage, labels: Iterable[str]) -> tuple[Cell, ...]:
    """The cells of these victims, with their controls."""
    known = by_label(scenario)
    return tuple(cell for label in labels for cell in trio(scenario, *known[label]))


def _party(scenario: Storage, pool: Pool, point: Point) -> Party:
    instance = resolve(_made(scenario, pool), _parameters(scenario, pool, point, first=True))
    return Party(f"{pool.name} {point.label}", instance, group=pool.name)


def _neighbour(scenario: Storage, pool: Pool, point: Point) -> Party:
    ref = scenario.neighbour
    if ref is not None and ref.workload != "fio":
        return party(ref)
    beside = neighbours_point(scenario, point)
    if pool.read_only and beside.read != 100:
        from contend.errors import ScenarioError

        raise ScenarioError(
            f"neighbour: it would write to {pool.path}, which is only read",
            hint="neighbour={fio: {read: 100}}; or `destroy: true` with the pool's name, which destroys what is on it",
        )
    instance = resolve(_made(scenario, pool), _parameters(scenario, pool, beside, first=False))
    return Party(f"{pool.name} {beside.label}", instance, group=pool.name)


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
    }


def _async(scenario: Storage) -> str:
    return "libaio" if scenario.async_engine == "auto" else scenario.async_engine


def _made(scenario: Storage, pool: Pool) -> Workload:
    return _workload(pool, pool.read_only, scenario.size, scenario.passes)


@functools.lru_cache(maxsize=32)  # hundreds of points have one
def _workload(pool: Pool, read_only: bool, size: int, passes: int) -> Workload:
    """The catalogue's fio, on a pool's file or device, which is linked as {work}/data."""
    fio = load_workload("fio")
    direct = 0 if pool.direct is False else 1
    layout = "" if read_only else (
        f"fio --name=prepare --filename={{work}}/data --offset={{offset}} --size={size} --rw=write --bs=1M"
        f" --ioengine=psync --direct={direct} --end_fsync=1 --loops={passes} --output-format=json"
        " --output={work}/prepare.json"
    )  # fmt: skip
    # --readonly, and a kind that only reads: fio then opens the device for reading.
    load = (
        "--thread --filename={work}/data --offset={offset} --offset_increment={step} --size={region} --numjobs={jobs}"
        " --group_reporting --rw={kind} --rwmixread={read} --bs={block} --iodepth={depth} --ioengine={engine}"
        f" --direct={direct} --norandommap --randseed={{seed}} --time_based --allow_file_create=0"
        + (" --readonly" if read_only else "")
    )
    reaches = pool.direct is not False and not pool.memory
    return Workload(
        name="fio",
        title=f"{fio.title}, on {pool.name}",
        about=fio.about,
        install=fio.install,
        parameters={
            "kind": Parameter(default="randrw", about="fio's rw"),
            "read": Parameter(default=100, min=0, max=100, unit="%"),
            "block": Parameter(default="4096", unit="B"),
            "depth": Parameter(default=1, min=1, max=1024, about="requests outstanding, of each thread"),
            "jobs": Parameter(default=1, min=1, max=1024, about="threads"),
            "engine": Parameter(default="psync"),
            "region": Parameter(default="0", unit="B", about="of the file, that one thread works on"),
            "step": Parameter(default="0", unit="B", about="from one thread's region to the next one's"),
            "offset": Parameter(default="0", unit="B"),
        },
        prepare=(layout,) if layout else (),
        run=(
            f"fio --name=trial {load} --runtime={{step_ms}}ms --unified_rw_reporting=1 --output-format=json"
            " --output={out}/fio.json",
        ),
        neighbour=Neighbour(
            run=f"fio --name=neighbour {load} --runtime=30d --output={{out}}/neighbour.txt",
            burning=BURNING if reaches else 0.05,
        ),
        metrics=fio.metrics,
        # What the page cache answers never reaches a disk: such a neighbour shows by its CPU time.
        dominant="disk" if reaches else "memory",
        trial=fio.trial,
        origin=fio.origin,
    )  # fmt: skip
