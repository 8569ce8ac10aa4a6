"""Scenarios of every study: workloads, the platform, how precisely to measure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from contend.platforms.base import Limit
from contend.scenario.settings import one_or_many, workload_list
from contend.scenario.yaml_file import field
from contend.stats.estimate import MATTERS
from contend.studies.guard import Fraction, Guarded
from contend.text.command import command_name
from contend.units import parse_size_bytes
from contend.workloads.spec import Duration, Metric, Scalar, Strict, Traced

Size = Annotated[int, BeforeValidator(field(parse_size_bytes), json_schema_input_type=int | str)]


def _or(schema: dict[str, Any], *short: dict[str, Any]) -> dict[str, Any]:
    """A model's JSON Schema, or one of its short forms."""
    return {"anyOf": [*short, schema]}


COMMAND = "command"
"""The key of a command of the user's, where the name of a workload would be."""
MOST_CPUS = 100_000  # of one party: far beyond any host, and still a quota that a cgroup can be given
MOST_WORKLOADS = 200  # in one list; two of them make 40,000 cells


class LimitSpec(Strict):
    """Caps on one workload, by cgroup controllers: the treatment that findings advise."""

    cpus: float | None = Field(None, gt=0, le=MOST_CPUS)
    memory: Size | None = None
    iops: int | None = Field(None, gt=0, le=10**12)
    bytes_per_s: Size | None = None

    def value(self) -> Limit:
        return Limit(cpus=self.cpus, memory_bytes=self.memory, iops=self.iops, bytes_per_s=self.bytes_per_s)


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a text
    except OSError:
        return ""


class OwnCommand(Strict):
    """A command of the user's, where there is no workload file for it.

    run: the command line, split as a shell would, and run without one. name: in tables; the program's where it is empty.
    directory: where it runs; that in which contend was started, where the file does not say. metrics: as in a workload
    file; its wall and CPU time where there are none. timeout: the longest that a trial of it may take.
    """

    run: str
    name: str = Field("", pattern=r"^([a-z][a-z0-9-]*)?$")
    directory: str = ""
    metrics: dict[str, Metric] = {}
    timeout: Duration = Field(3600 * 10**9, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        value = {"run": value} if isinstance(value, str) else value
        # Written down with the rest: the run may be gone on with from elsewhere.
        return {"directory": _here(), **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _splits(self) -> OwnCommand:
        try:
            words = shlex.split(self.run)
        except ValueError as error:
            raise ValueError(f"'{self.run}' cannot be split into arguments: {error}") from error
        if not words:
            raise ValueError("a command is empty")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return _or(handler(core), {"type": "string"})


class WorkloadRef(Strict):
    """A workload with parameters: `fio`, or `{fio: {pattern: randread, limit: {iops: 40000}}}`; or a command of the user's:
    `{command: ./render --fast}`, or `{command: {run: ./render --fast, name: fast, limit: {cpus: 1}}}`."""

    workload: str
    parameters: dict[str, Scalar] = {}
    limit: LimitSpec = LimitSpec()
    command: OwnCommand | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"workload": value}
        if isinstance(value, dict) and len(value) == 1 and "workload" not in value:
            ((name, parameters),) = value.items()
            if name == COMMAND:
                return _own(parameters)
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


def _own(command: Any) -> Any:
    """A reference to a command, by its name."""
    if not isinstance(command, dict):
        return {"workload": command_name(str(command)), "command": command}
    rest = {key: value for key, value in command.items() if key != "limit"}
    name = rest.get("name") or command_name(str(rest.get("run", "")))
    limit = {"limit": command["limit"]} if "limit" in command else {}
    return {"workload": str(name), "command": rest, **limit}


Workloads = Annotated[
    tuple[WorkloadRef, ...],
    Field(min_length=1, max_length=MOST_WORKLOADS),
    BeforeValidator(workload_list, json_schema_input_type=tuple[WorkloadRef, ...] | dict[str, Any] | str),
]


GUESTS = ("vm", "container-in-vm")
_LIBVIRTS = r"qemu(\+unix)?:///\S+"  # of this host: a guest's sockets are files


def _hypervisor(value: str) -> str:
    if value not in ("qemu", "libvirt") and not re.fullmatch(_LIBVIRTS, value):
        raise ValueError(
            f"'{value}' starts no guests of this host: qemu, libvirt, or a URI of libvirt's like qemu:///system"
        )
    return value


Hypervisor = Annotated[
    str,
    AfterValidator(_hypervisor),
    WithJsonSchema({"type": "string", "pattern": f"^(qemu|libvirt|{_LIBVIRTS})$"}),
]


class PlatformSpec(Strict):
    kind: Literal["bare", "container", "vm", "container-in-vm"] = "bare"
    engine: Literal["", "docker", "podman", "runc", "crun"] = ""
    image: str = ""
    hypervisor: Hypervisor = "qemu"
    cpus: float | None = Field(None, gt=0, le=MOST_CPUS)
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
        if not self.in_guest and self.hypervisor != "qemu":
            raise ValueError(f"`hypervisor` is of virtual machines: a {self.kind} has none")
        if self.in_guest and self.engine:
            raise ValueError(f"`engine` is of containers of this host: a {self.kind} chooses none")
        return self

    @property
    def in_guest(self) -> bool:
        """True if the platform is a guest, which uses no file or program of this host."""
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
    """The precision and the length of the measurement.

    target: wanted half-width of the interval; none: exactly `blocks` blocks. blocks: counted blocks before the
    first look, which then happens every `step` blocks up to `most`. budget: wall time of the whole run. matters: a
    relative change up to which something counts as unaffected, where its interval shows that it is no larger.
    """

    target: Fraction | None = 0.02
    blocks: int = Field(15, ge=1, le=10_000)
    step: int = Field(5, ge=1, le=10_000)
    most: int = Field(60, ge=1, le=10_000)
    budget: Duration | None = None
    level: Fraction = Field(0.95, gt=0.5, lt=1)
    matters: Fraction = Field(MATTERS, gt=0, lt=1)
    seed: int | None = Field(None, ge=0, lt=2**63)
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


class Scenario(Strict):
    """Keys of a scenario file that every study has."""

    schema_version: Literal[1] = 1
    study: str
    title: str = ""
    about: str = ""
    measure: Measure = Measure()
    # Every counted trial's Python processes of the measured party are recorded as `contend trace` does, in
    # traces/TRIAL of the run; without patterns here, the functions that the workload's file names.
    trace: Traces = None
    # What the run may cost others here; `true` for the limits of its own.
    guard: Guarded = None
    origin: str = Field("", exclude=True)

    @model_validator(mode="after")
    def _names_tell_commands_apart(self) -> Scenario:
        seen: dict[str, OwnCommand] = {}
        for ref in _references(self):
            if ref.command is not None and seen.setdefault(ref.workload, ref.command) != ref.command:
                raise ValueError(f"two commands are called '{ref.workload}': give one of them another `name`")
        return self

    @model_validator(mode="after")
    def _traced_where_contend_is(self) -> Scenario:
        kind = self.made_on.kind
        if self.trace is not None and kind != "bare":
            raise ValueError(f"trace needs the bare platform: what records is not in the {kind}")
        return self

    @property
    def made_on(self) -> PlatformSpec:
        """The platform of victims for which the plan has none of their own, and how platforms of a kind are made."""
        platform: PlatformSpec = getattr(self, "platform", PlatformSpec())
        return platform

    @property
    def consented(self) -> tuple[str, ...]:
        """Who on this host may be held back, by a consent that the scenario holds."""
        return ()

    @property
    def own_commands(self) -> tuple[str, ...]:
        """Command lines of the user's that it runs."""
        lines = (ref.command.run for ref in _references(self) if ref.command is not None)
        return tuple(dict.fromkeys(lines))

    @property
    def fleet(self) -> HostsSpec | None:
        """The hosts that the scenario is for; None for this host."""
        return None


def _references(value: Any) -> Iterator[WorkloadRef]:
    """The workloads that a scenario names, at any depth of its lists."""
    if isinstance(value, WorkloadRef):
        yield value
    elif isinstance(value, Scenario):
        for name in type(value).model_fields:
            yield from _references(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _references(each)


class HostsSpec(Strict):
    """Hosts that each run the scenario on themselves: `[a, b]`, or with how they are held together.

    start: `together` begins every counted block at one moment on all of them. lost: how long a host that cannot be reached
    is waited for. behind: how many times as long as half of the hosts took the others may take.
    """

    names: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    ]
    start: Literal["free", "together"] = "free"
    lost: Duration = 120 * 10**9
    behind: float = Field(5.0, ge=1, le=1e6)

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"names": value} if isinstance(value, str | list | tuple) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return _or(
            handler(core), {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}
        )


class OnHosts(Scenario):
    """A study that several hosts can run, each for itself."""

    hosts: HostsSpec | None = None

    @property
    def fleet(self) -> HostsSpec | None:
        return self.hosts


Names = Annotated[
    tuple[str, ...], Field(min_length=1), BeforeValidator(one_or_many, json_schema_input_type=str | list[str])
]
