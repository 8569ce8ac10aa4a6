"""Shapes of files of a run directory, so that what reads them need not ask again. As rows are: see `rows`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from contend.store.rows import UTC, Count, Finite, Host, Name, Nanoseconds, Text, errors_in, wrong


class ClockReading(TypedDict):
    offset_ns: Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]
    bound_ns: Nanoseconds


class ClockDrift(TypedDict):
    ppm: Finite
    bound_ppm: Finite


class HostClock(TypedDict):
    start: ClockReading
    drift: ClockDrift | None


class HostFacts(TypedDict):
    state: Name
    why: Text
    failures: Count
    losses: Count
    clock: HostClock | None
    start_late_ns: NotRequired[Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)] | None]


class HostsFile(TypedDict):
    """hosts.json of a fleet."""

    hosts: dict[Host, HostFacts]


class CpuFacts(TypedDict):
    cpu: Count
    core: Count
    package: Count
    node: Count
    cache: Count


class Wired(TypedDict):
    """The CPUs that share caches, cores and nodes."""

    cpus: NotRequired[list[CpuFacts]]


class HostKnown(TypedDict):
    """A fleet's record of a host."""

    memory_gib: NotRequired[Finite | None]


class PoolFacts(TypedDict):
    """A storage pool."""

    device: Name


class ImportedFacts(TypedDict):
    """A run that another tool measured."""

    version: NotRequired[Text]
    files: NotRequired[dict[Name, Name]]
    notes: NotRequired[list[Text]]


class EnvironmentFile(TypedDict):
    """environment.json: what readers use of it. Every key may be missing."""

    cpus: NotRequired[Annotated[int, Field(gt=0, lt=1 << 20)]]
    cpu: NotRequired[Name | None]
    os: NotRequired[Name | None]
    memory_gib: NotRequired[Finite | None]
    skipped: NotRequired[list[Text]]
    tools: NotRequired[dict[Name, Any]]
    links_mbit_per_s: NotRequired[dict[Name, Finite]]
    topology: NotRequired[Wired | None]
    hosts: NotRequired[dict[Name, HostKnown]]
    pools: NotRequired[dict[Name, PoolFacts]]
    revisions: NotRequired[dict[Name, Name]]
    imported: NotRequired[ImportedFacts]
    kernel: NotRequired[Name | None]
    contend: NotRequired[Name | None]
    machine: NotRequired[Name | None]
    virtualised: NotRequired[Name | bool | None]
    cgroup: NotRequired[Name | None]


class InTracesFile(TypedDict):
    """rpc-in-traces.json, of this version."""

    schema_version: Literal[1]
    storms_ns: list[list[int]]
    ends: list[Finite]
    first: list[Finite]
    timed: bool
    path: list[Finite] | None
    whole: bool
    jobs: Text
    why: Text


Seconds = Annotated[float, Field(allow_inf_nan=False, ge=0)]
Counts = dict[Name, Finite]
Window = Annotated[list[Nanoseconds], Field(min_length=2, max_length=2)]


class StormServer(TypedDict):
    due_s: Finite | None
    active_s: list[Finite] | None
    active_at_s: NotRequired[Finite | None]


class StormCounted(TypedDict):
    polls: Count
    quiet_ns: Window
    storm_ns: Window
    polled_ns: Window
    per_boot: dict[Name, Annotated[list[Finite], Field(min_length=1)]]
    per_poll: Counts
    background_per_s: Counts


class StormServing(TypedDict):
    answered: Count
    at_once: Count
    timed_out: Count
    median_s: NotRequired[Finite | None]
    p90_s: NotRequired[Finite | None]
    max_s: NotRequired[Finite | None]
    after_active_s: NotRequired[Finite | None]
    guest_s: NotRequired[Finite | None]
    width_s: NotRequired[Finite | None]


class StormStamps(TypedDict):
    heard: Count
    inside: Count
    error_s: Finite
    largest_error_s: Finite


class StormFile(TypedDict):
    """outputs/TRIAL/storm.json."""

    n: Annotated[int, Field(gt=0, lt=1 << 31)]
    served: Count
    failed: Count
    problems: Counts
    counts: Counts
    disagree: Count
    rate: NotRequired[Finite]
    median_s: Seconds
    p90_s: Seconds
    makespan_s: Seconds
    min_s: Seconds
    max_s: Seconds
    accepted_s: Seconds
    running_s: NotRequired[Seconds | None]
    delete_median_s: Seconds
    delete_makespan_s: Seconds
    width_s: Seconds
    client_cpu_s: Seconds
    asking_share: Seconds
    phases_s: Counts
    cpu_s: Counts
    counted: NotRequired[StormCounted | None]
    serving: NotRequired[StormServing | None]
    stamps: NotRequired[StormStamps | None]
    awaited: NotRequired[Name]
    servers: list[StormServer]


class GrowthCall(TypedDict):
    median_s: NotRequired[Seconds | None]


class GrowthVisit(TypedDict):
    mode: Name
    way: Name
    made: Count
    population: Count
    at_s: Finite
    control_s: Seconds | None
    calls: dict[Name, GrowthCall]
    flooded_per_s: NotRequired[Finite | None]


class GrowthFile(TypedDict):
    """outputs/TRIAL/growth.json."""

    kind: Name
    reached: Count
    left_out: Text
    modes_left_out: dict[Name, Text]
    stopped: Text
    problems: Counts
    requests: Counts
    visits: list[GrowthVisit]


class ProbeCosts(TypedDict):
    cpu_ns: Nanoseconds
    samples: Nanoseconds
    bpf_ns: Nanoseconds
    late_max_ns: NotRequired[Nanoseconds]
    dropped: Nanoseconds
    errors: Nanoseconds
    last_error: Text


class CommandEnd(TypedDict):
    status: int
    user_ns: Nanoseconds
    system_ns: Nanoseconds


class SampleFile(TypedDict):
    """sample.json. What stands only in one that was ended well may be missing."""

    interval_ns: Annotated[int, Field(gt=0, lt=1 << 63)]
    began_ns: Nanoseconds
    began_utc: Annotated[str, Field(pattern=UTC)]
    command: list[Text]
    line: NotRequired[Text]
    sched: NotRequired[Name]
    stacks: NotRequired[bool]
    pid: NotRequired[Annotated[int, Field(ge=0, lt=1 << 63)] | None]
    sources: NotRequired[dict[Name, Name]]
    notes: NotRequired[list[Text]]
    ended_ns: NotRequired[Nanoseconds]
    stopped: NotRequired[Text]
    failed: NotRequired[Text]
    exit: NotRequired[CommandEnd | None]
    cost: NotRequired[ProbeCosts | None]
    own_cpu_ns: NotRequired[Nanoseconds]


class WatchFile(TypedDict):
    """recording.json."""

    kind: Literal["blame", "correlation"]
    by: Literal["cgroup", "process"]
    interval_ns: Annotated[int, Field(gt=0, lt=1 << 63)]
    source: Text
    note: Text
    began_ns: Nanoseconds
    line: NotRequired[Text]
    scope: NotRequired[Text]
    began: NotRequired[Name]
    asked_by: NotRequired[Name]
    threshold: NotRequired[Finite | None]
    names: NotRequired[dict[Name, Text]]
    machines: NotRequired[list[Text]]
    cost: NotRequired[ProbeCosts]
    loading_ns: NotRequired[Nanoseconds]


def sound_environment(environment: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Part an environment.json: what fits, and the keys of the rest with what is wrong there: nothing depends on them.

    >>> sound_environment({"cpus": "two", "kernel": "6.1"})
    ({'kernel': '6.1'}, [('cpus', 'input should be a valid integer')])
    """
    bad = {str(at[0]): what for at, what in reversed(errors_in(EnvironmentFile, environment)) if at}
    return {key: value for key, value in environment.items() if key not in bad}, [*bad.items()][::-1]


def wrong_storm(document: Any) -> str:
    """Say what is wrong with a storm.json."""
    return wrong(StormFile, document)


def wrong_growth(document: Any) -> str:
    """Say what is wrong with a growth.json."""
    return wrong(GrowthFile, document)
