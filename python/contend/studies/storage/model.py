"""Storage: fio over everything that a request can be, on pools, alone and with a neighbour on the same pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend.scenario.settings import one_or_many
from contend.studies.model import PlatformSpec, Scenario, Size, WorkloadRef
from contend.workloads.spec import Scalar, Strict

LEAST_SIZE = 16 * 2**20
OWN = "here"  # the name of the pool where the run's own directory is


def _many(value: Any) -> Any:
    return [value] if isinstance(value, dict) else one_or_many(value)


class Pool(Strict):
    """A pool of storage: a directory, or a block device. path: "" for the run's own directory.

    destroy: a block device may be written to, and is, from its beginning; without it, it is only read. direct: past the
    page cache; null: where the file system can. memory: the file system is in memory; found out, not asked. volume_type: on
    a cloud, whose volumes these are, in the place of a path; "" for every type that is for everybody.
    """

    name: str = Field("", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$|^$", max_length=40)
    path: str = ""
    destroy: bool = False
    direct: bool | None = None
    memory: bool = False
    volume_type: str = Field("", max_length=255)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _destroyed_by_name(self) -> Pool:
        if self.destroy and not (self.name and self.path):
            raise ValueError(
                "`destroy: true` needs the pool's `name` and `path`: no other is to be meant by it"
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core)]}

    @property
    def device(self) -> bool:
        """True if it is a block device."""
        return bool(self.path) and Path(self.path).is_block_device()

    @property
    def read_only(self) -> bool:
        return self.device and not self.destroy


class TalkTable(Strict):
    """The cells that are always measured with intervals: block sizes at one mix, pattern, depth and engine."""

    read: int = Field(70, ge=0, le=100)
    pattern: Literal["random", "sequential"] = "random"
    depth: int = Field(32, ge=1, le=1024)
    engine: Literal["sync", "async"] = "async"
    block_sizes: Annotated[
        tuple[Size, ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str | int]),
    ] = (4096, 16384, 32768, 65536)


class Storage(Scenario):
    """Pools under fio by block size, depth, engine, share of reads and pattern: a screening, then the cells that matter.

    engines: async keeps `depth` requests outstanding from one thread, sync from as many threads. size: of each file, of
    which a pool holds two; of a block device, twice that from its beginning. passes: how often a file is written whole
    before it is measured. neighbour: null is the same fio in a file of its own on the same pool; `{fio: {block: 64k}}` one
    that differs in that; another workload runs in the run's directory. points: of the screening, each run alone and beside
    on every pool; null: by the budget. focus: cells of each pool that the screening adds to the table's. cloud: a name in
    clouds.yaml, whose volume types are the pools: fio runs in two instances there, which have a volume of each; parameters:
    of these instances.
    """

    study: Literal["storage"]
    cloud: str = ""
    pools: Annotated[
        tuple[Pool, ...],
        Field(min_length=1, max_length=8),
        BeforeValidator(_many, json_schema_input_type=str | list[Pool]),
    ] = (Pool(),)
    block_sizes: Annotated[
        tuple[Size, ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str | int]),
    ] = (4096, 8192, 16384, 32768, 65536)
    depths: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1024)], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
    ] = (8, 16, 32, 64, 128)
    engines: Annotated[
        tuple[Literal["sync", "async"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("sync", "async")
    reads: Annotated[
        tuple[Annotated[int, Field(ge=0, le=100)], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
    ] = (0, 30, 70, 100)
    patterns: Annotated[
        tuple[Literal["random", "sequential"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("random", "sequential")
    async_engine: Literal["auto", "libaio", "io_uring"] = "auto"
    size: Size = 512 * 2**20
    passes: int = Field(1, ge=1, le=20)
    neighbour: WorkloadRef | None = None
    points: int | None = Field(None, ge=2, le=5000)
    focus: int = Field(4, ge=0, le=100)
    table: TalkTable = TalkTable()
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()

    @model_validator(mode="before")
    @classmethod
    def _of_a_cloud(cls, given: Any) -> Any:
        """Take a name on a cloud for a volume type."""
        if not isinstance(given, dict) or not given.get("cloud") or "pools" not in given:
            return given
        pools = _many(given["pools"])
        if not isinstance(pools, list | tuple):
            return given
        return {**given, "pools": [{"volume_type": p} if isinstance(p, str) else p for p in pools]}

    @model_validator(mode="after")
    def _whole(self) -> Storage:
        if self.platform.kind != "bare":
            raise ValueError("requests are sent from this host as it is: platform is bare")
        for size in (*self.block_sizes, *self.table.block_sizes):
            if size % 512 or not 512 <= size <= 2**24:
                raise ValueError(f"a block of {size} bytes: whole sectors of 512, at most 16M")
        largest = max(*self.block_sizes, *self.table.block_sizes)
        least = max(LEAST_SIZE, largest * max(*self.depths, self.table.depth))
        if self.size < least or self.size % 2**20:
            raise ValueError(f"size: whole MiB, at least {-(-least // 2**20)}M for these blocks and depths")
        for key in ("block_sizes", "depths", "engines", "reads", "patterns"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"`{key}` names a level twice")
        self._somewhere()
        names = [pool.name for pool in self.named]
        if len(set(names)) != len(names):
            raise ValueError(f"two pools are called '{max(names, key=names.count)}': give them a `name`")
        return self

    def _somewhere(self) -> None:
        """Pools are all of this host, or all of a cloud."""
        if not self.cloud:
            if any(pool.volume_type for pool in self.pools):
                raise ValueError("`volume_type` is a cloud's: name that with `cloud` (--cloud NAME)")
            if self.parameters:
                raise ValueError("`parameters` are of instances, which a `cloud` has (--cloud NAME)")
            return
        if any(pool.path or pool.destroy for pool in self.pools):
            raise ValueError("on a cloud a pool is a volume type, not a path: pools=[ssd,hdd]")
        if any(not pool.volume_type for pool in self.pools) and len(self.pools) > 1:
            raise ValueError("a pool of several on a cloud needs its `volume_type`")
        if taken := {"cloud", "disks", "role", "pool"} & set(self.parameters):
            raise ValueError(f"`{min(taken)}` is for the study to fill in, not one of `parameters`")
        if self.neighbour is not None and self.neighbour.workload != "fio":
            raise ValueError("on a cloud the neighbour is fio, in an instance of its own")

    @property
    def named(self) -> tuple[Pool, ...]:
        """The pools, each with a name: its own, or the last part of its path."""
        pools: list[Pool] = []
        for pool in self.pools:
            last = pool.volume_type or Path(pool.path).name
            name = pool.name or (_safe(last) if last or pool.path else OWN)
            pools.append(pool.model_copy(update={"name": name}))
        return tuple(pools)


def _safe(name: str) -> str:
    kept = "".join(c if (c.isalnum() and c.isascii()) or c in "_.-" else "-" for c in name)
    return kept.strip("-.")[:40] or "root"
