"""What may be asked: the models of scenario files, one a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from contend import factors
from contend.platforms.base import PERIOD_US, Limit
from contend.settings import one_or_many, workload_list
from contend.units import parse_fraction, parse_size_bytes
from contend.workloads.spec import Duration, Metric, Scalar, Strict, Traced
from contend.yamlfile import field

Fraction = Annotated[float, BeforeValidator(field(parse_fraction), json_schema_input_type=float | str)]
Size = Annotated[int, BeforeValidator(field(parse_size_bytes), json_schema_input_type=int | str)]


def _or(schema: dict[str, Any], *short: dict[str, Any]) -> dict[str, Any]:
    """A model's JSON Schema, or one of its short forms."""
    return {"anyOf": [*short, schema]}


class LimitSpec(Strict):
    """Caps on one party, by cgroup controllers: the treatment that findings advise."""

    cpus: float | None = Field(None, gt=0)
    memory: Size | None = None
    iops: int | None = Field(None, gt=0)
    bytes_per_s: Size | None = None

    def value(self) -> Limit:
        return Limit(cpus=self.cpus, memory_bytes=self.memory, iops=self.iops, bytes_per_s=self.bytes_per_s)


class WorkloadRef(Strict):
    """A workload with parameters: `fio`, or `{fio: {pattern: randread, limit: {iops: 40000}}}`."""

    workload: str
    parameters: dict[str, Scalar] = {}
    limit: LimitSpec = LimitSpec()

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"workload": value}
        if isinstance(value, dict) and len(value) == 1 and "workload" not in value:
            ((name, parameters),) = value.items()
            if parameters is None:
                parameters = {}
            if not isinstance(parameters, dict):
                raise ValueError(f"the parameters of '{name}' must be a mapping, like {{block: 4k}}")
            rest = {k: v for k, v in parameters.items() if k != "limit"}
            short = {"workload": str(name), "parameters": rest}
            return short | ({"limit": parameters["limit"]} if "limit" in parameters else {})
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return _or(
            handler(core), {"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}
        )


Workloads = Annotated[
    tuple[WorkloadRef, ...],
    Field(min_length=1),
    BeforeValidator(workload_list, json_schema_input_type=tuple[WorkloadRef, ...] | dict[str, Any] | str),
]


GUESTS = ("vm", "container-in-vm")


class PlatformSpec(Strict):
    kind: Literal["bare", "container", "vm", "container-in-vm"] = "bare"
    engine: Literal["", "docker", "podman", "runc", "crun"] = ""
    image: str = ""
    cpus: float | None = Field(None, gt=0)
    memory: Size | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return _or(handler(core), {"type": "string", "enum": ["bare", "container", "vm", "container-in-vm"]})

    @model_validator(mode="after")
    def _baseline_is_untreated(self) -> PlatformSpec:
        if self.kind == "bare" and (self.cpus or self.memory or self.image or self.engine):
            raise ValueError("bare has no size, image or engine: a limited host is a container")
        if self.in_guest and self.engine:
            raise ValueError(f"`engine` is of containers of this host: a {self.kind} chooses none")
        return self

    @property
    def in_guest(self) -> bool:
        """Whether the victim brings nothing of this host along."""
        return self.kind in GUESTS


def _traced(value: Any) -> Any:
    """`true`, or which functions."""
    if isinstance(value, bool):
        return {} if value else None
    return {"include": value} if isinstance(value, str | list) else value


Traces = Annotated[
    Traced | None,
    BeforeValidator(_traced, json_schema_input_type=bool | str | list[str] | Traced),
]


class Measure(Strict):
    """How precisely, and for how long.

    target: wanted half-width of the interval; none: exactly `blocks` blocks. blocks: counted blocks before the
    first look, which then happens every `step` blocks up to `most`. budget: wall time of the whole run.
    """

    target: Fraction | None = 0.02
    blocks: int = Field(15, ge=1, le=10_000)
    step: int = Field(5, ge=1)
    most: int = Field(60, ge=1, le=10_000)
    budget: Duration | None = None
    level: Fraction = Field(0.95, gt=0.5, lt=1)
    seed: int | None = None
    design: Literal["auto", "pairs", "blocks of 8"] = "auto"
    # Rounds thrown away: warm-up, spikes, and the estimate of the time left. 0: none, and `auto` is pairs.
    pilot: int = Field(3, ge=0, le=50)
    trial: Duration | None = None  # length of a trial, where the workload can choose
    washout: Duration = (
        0  # least pause after a neighbour, for what it leaves behind: heat, burst credit, write debt
    )

    @property
    def planned_blocks(self) -> int:
        return self.blocks if self.target is None else max(self.blocks, self.most)


class _Scenario(Strict):
    schema_version: Literal[1] = 1
    title: str = ""
    about: str = ""
    measure: Measure = Measure()
    # Every counted trial's Python processes of the measured party are recorded as `contend trace` does, in
    # traces/TRIAL of the run; without patterns here, the functions that the workload's file names.
    trace: Traces = None
    origin: str = Field("", exclude=True)

    @model_validator(mode="after")
    def _traced_where_contend_is(self) -> _Scenario:
        platform: PlatformSpec | None = getattr(self, "platform", None)
        if self.trace is not None and platform is not None and platform.kind != "bare":
            raise ValueError(f"trace needs the bare platform: what records is not in the {platform.kind}")
        return self


class Interference(_Scenario):
    """Victims alone and beside each neighbour."""

    study: Literal["interference"]
    victims: Workloads
    neighbours: Workloads
    platform: PlatformSpec = PlatformSpec()
    placement: Literal["same-cpu", "own-cores", "same-host"] = "same-cpu"
    directions: Literal["one", "both"] = "one"


class Variant(Strict):
    """One side of a comparison: a command, what to do before each of its trials, and its surroundings.

    Or, where a workload is compared with itself, its parameters on this side.
    """

    name: str
    command: str = ""
    parameters: dict[str, Scalar] = {}
    prepare: str = ""  # before every trial of this variant, outside the measured window
    env: dict[str, str] = {}
    directory: str = ""  # where it runs; a directory of the run when empty
    rev: str = (
        ""  # a git revision of the repository at `directory`: cloned for the run, built once by `build`
    )
    build: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Variant:
        if self.rev and not self.directory:
            raise ValueError("a variant with `rev` needs `directory`, the git repository")
        if self.build and not self.rev:
            raise ValueError("`build` goes with `rev`")
        return self


class Compare(_Scenario):
    """Two or more commands, or settings of one workload, interleaved in one run; the first is the baseline.

    parameters: of the workload, on every side that does not say otherwise.
    """

    study: Literal["compare"]
    workload: str = ""
    parameters: dict[str, Scalar] = {}
    variants: tuple[Variant, ...] = Field(min_length=2)
    metrics: dict[str, Metric] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = 3600 * 10**9

    @model_validator(mode="before")
    @classmethod
    def _cloud_of_the_workload(cls, value: Any) -> Any:
        """`cloud`, which --cloud sets, is a parameter of workloads that speak to one."""
        if (
            not isinstance(value, dict)
            or "cloud" not in value
            or not isinstance(value.get("parameters", {}), dict)
        ):
            return value
        rest = {k: v for k, v in value.items() if k != "cloud"}
        return rest | {"parameters": {**value.get("parameters", {}), "cloud": value["cloud"]}}

    @model_validator(mode="after")
    def _distinct(self) -> Compare:
        names = [v.name for v in self.variants]
        if len(set(names)) != len(names):
            raise ValueError("two variants have the same name")
        return self

    @model_validator(mode="after")
    def _commands_or_a_workload(self) -> Compare:
        for variant in self.variants:
            if not self.workload and not variant.command:
                raise ValueError(f"variant '{variant.name}' needs a `command`")
            own = {"command", "prepare", "env", "directory", "rev", "build"} & variant.model_fields_set
            if self.workload and own:
                raise ValueError(f"variant '{variant.name}': `{min(own)}` is the workload's to say")
            if not self.workload and variant.parameters:
                raise ValueError(f"variant '{variant.name}' has `parameters`, but there is no `workload`")
        if self.parameters and not self.workload:
            raise ValueError("`parameters` are a workload's: name one")
        if self.metrics and self.workload:
            raise ValueError("`metrics` are the workload's own")
        return self


Sizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1000)], ...],
    Field(min_length=1),
    BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
]
Names = Annotated[
    tuple[str, ...], Field(min_length=1), BeforeValidator(one_or_many, json_schema_input_type=str | list[str])
]


LOCAL = "local"


class Storm(_Scenario):
    """Batches of several sizes: how long each takes, and by how much another job stretches it.

    n: sizes; network: of the servers, none, auto (the cloud's choice), or a network's name; both make cells. The
    smallest, on the first network, is the baseline and the control. cloud: a name in clouds.yaml, or `local`: containers
    or virtual machines of this host.
    """

    study: Literal["storm"]
    workload: str = "boot-storm"
    cloud: str = ""
    n: Sizes = (1, 5, 10, 20)
    network: Names = ("none",)
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = 900 * 10**9

    @model_validator(mode="after")
    def _of_clouds(self) -> Storm:
        if self.platform.kind != "bare":
            raise ValueError("a storm is sent from this host as it is: platform is bare")
        taken = {"n", "network", "cloud"} & set(self.parameters)
        if taken:
            raise ValueError(f"`{min(taken)}` is a key of its own here, not one of `parameters`")
        return self

    @property
    def local(self) -> bool:
        """Whether its machines are made on this host."""
        return self.cloud == LOCAL

    @property
    def storm_workload(self) -> str:
        """The workload that makes one storm."""
        return "boot-storm-local" if self.local and self.workload == "boot-storm" else self.workload


class Growth(_Scenario):
    """Entities of each kind, more and more: what that does to the calls about them.

    kinds: a cell each; modes: what goes on beside the calls; slo: of a typical call; measure.blocks: passes over each
    kind; measure.budget: shared by them, where no `within` of one is among the parameters.
    """

    study: Literal["growth"]
    workload: str = "control-plane-growth"
    cloud: str = ""
    kinds: Names = ("network", "subnet", "port", "router", "volume", "server", "image", "user")
    modes: Annotated[
        tuple[Literal["quiet", "mixed", "neighbour"], ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ] = ("quiet",)
    slo: Duration = 10**9
    parameters: dict[str, Scalar] = {}
    platform: PlatformSpec = PlatformSpec()
    timeout: Duration = 7200 * 10**9

    @model_validator(mode="after")
    def _of_clouds(self) -> Growth:
        if self.platform.kind != "bare":
            raise ValueError("calls are sent from this host as it is: platform is bare")
        taken = {"kind", "modes", "cloud"} & set(self.parameters)
        if taken:
            raise ValueError(f"`{min(taken)}` is a key of its own here, not one of `parameters`")
        if "quiet" not in self.modes:
            raise ValueError("`modes` needs quiet: the others are compared with it")
        if self.measure.target is not None:
            raise ValueError(
                "growth has no target: `measure.target` is null, `measure.blocks` says how many passes"
            )
        return self


class Overhead(_Scenario):
    """Applications on platforms of several sizes, against the bare host.

    apps: workloads; app: a command of the user's in their place, run in `directory`. provisioning: vanilla gives the
    size by a quota over all CPUs, pinned by a set of CPUs. periods, bursts: of the quota of vanilla, each a cell.
    placements: which CPUs a pinned set gets, close together or apart, each a cell. sizes: CPUs, CPUs/memory, instance
    types; none: a quarter, half and all of the host. hosts: sizes of the host itself, in CPUs, its own always among them;
    hosts_by: the smaller ones by CPUs taken offline, or, where that is not allowed, confined to so many. without: places
    left out, by name, like `container pinned 1 CPU`; those that this host does not give are added. threads: what workloads
    are told of CPUs (`{cpus}`), the size, or what they would see by themselves. histograms: of the scheduler,
    by BPF, where that works here.
    """

    study: Literal["overhead"]
    apps: tuple[WorkloadRef, ...] = Field((), validate_default=False)
    app: str = ""
    directory: str = ""
    platforms: factors.PlatformKinds = ("container",)
    provisioning: factors.Provisionings = ("vanilla", "pinned")
    periods: factors.Periods = (PERIOD_US,)
    bursts: factors.Bursts = (0,)
    placements: factors.Placements = ("packed",)
    sizes: factors.PlatformSizes = ()
    hosts: factors.Hosts = ()
    hosts_by: factors.HostsBy = "auto"
    without: factors.Labels = ()
    threads: Literal["size", "automatic"] = "size"
    engine: Literal["", "docker", "podman", "runc", "crun"] = ""
    image: str = ""
    histograms: bool = True
    timeout: Duration = 600 * 10**9

    @model_validator(mode="before")
    @classmethod
    def _apps(cls, value: Any) -> Any:
        if isinstance(value, dict) and "apps" in value:
            return {**value, "apps": workload_list(value["apps"])}
        return value

    @model_validator(mode="after")
    def _something_to_run(self) -> Overhead:
        if not self.app and not self.apps:
            raise ValueError("name `apps`, workloads of the catalogue, or an `app`, a command of yours")
        if self.directory and not self.app:
            raise ValueError("`directory` is where `app` runs: there is none")
        if any(ref.limit.value() for ref in self.apps):
            raise ValueError("a limit of an app would be a second treatment: `sizes` says what it gets")
        if self.trace is not None:
            raise ValueError("an overhead is measured without traces: what records is not in a container")
        return self


Scenario = Interference | Compare | Storm | Growth | Overhead
STUDIES: Mapping[str, type[Scenario]] = {
    "interference": Interference,
    "compare": Compare,
    "storm": Storm,
    "growth": Growth,
    "overhead": Overhead,
}


def platform_of(scenario: Scenario) -> PlatformSpec:
    """What victims run on that the plan gives no place of their own, and how platforms of a kind are made."""
    if isinstance(scenario, Overhead):
        return PlatformSpec.model_construct(kind="bare", engine=scenario.engine, image=scenario.image)
    return scenario.platform
