"""Shapes of rows of a run directory, so that what reads them need not ask again; those of its files are in `file_shapes`.

Checked once, where they are read. Keys that no reader relies on may be there or not, and hold anything: a run of an
earlier or a later contend is read for what it shares with this one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from contend.store.damage import Row

Nanoseconds = Annotated[int, Field(ge=0, lt=1 << 63)]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=4096)]
Text = Annotated[str, Field(max_length=1 << 20)]
UTC = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise ValueError("it leads out of the run directory")
    return path


def _one_name(name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise ValueError("it is no name of a host")
    return name


Inside = Annotated[Name, AfterValidator(_inside)]
"""A path below the run directory."""
Host = Annotated[Name, AfterValidator(_one_name)]
"""The name of a host, and of its directory below hosts/."""


JUDGED: list[Any] = []
"""Stands for a row's evidence of the names and units that a whole row had before it, and of finite numbers."""


class Metric(TypedDict):
    name: Name
    value: Finite
    unit: Name
    better: Literal["lower", "higher"]
    loop: Name
    primary: bool


class Evidence(TypedDict):
    name: Name
    value: Finite
    unit: Name


class Neighbour(TypedDict):
    name: Name
    during: Finite
    unit: Name


class Honoured(TypedDict):
    cpus: NotRequired[list[Count] | None]
    groups: NotRequired[list[Name]]
    libvirt: NotRequired[Name | None]
    host: NotRequired[dict[str, Any] | None]


class HeldBack(TypedDict):
    """A quota that kept a party from CPU time."""

    group: Name
    whose: Name
    cpus: Finite | None
    throttled_s: Finite
    periods: Count


class Changed(TypedDict):
    """A limit that somebody else changed."""

    file: Name
    before: Name
    after: Name


class Treated(TypedDict):
    """Who on this host was held back while a trial ran, and the CPU time that each suspect had meanwhile."""

    held: list[Name]
    from_ns: Nanoseconds
    to_ns: Nanoseconds
    cpu_s: dict[Name, Finite]


class Overhead(TypedDict):
    """The time of a trial outside its window."""

    washout_ns: NotRequired[Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]]


class ClockOffset(TypedDict):
    offset_ns: NotRequired[Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)]]


class TrialRow(TypedDict):
    """A row of trials.ndjson."""

    trial: Count
    block: Annotated[int, Field(gt=-(1 << 31), lt=1 << 31)]
    phase: Name
    cell: Name
    factors: dict[Name, Name]
    status: Name
    metrics: list[Metric]
    error: NotRequired[Text]
    hint: NotRequired[Text]
    utc: NotRequired[Name | None]
    started_ns: NotRequired[Nanoseconds | None]
    ended_ns: NotRequired[Nanoseconds | None]
    evidence: list[Evidence]
    flags: list[Name]
    neighbours: NotRequired[list[Neighbour]]
    honoured: NotRequired[Honoured]
    quotas: NotRequired[list[HeldBack]]
    quotas_unknown: NotRequired[Text]
    limits_changed: NotRequired[list[Changed]]
    treated: NotRequired[Treated]
    overhead: NotRequired[Overhead]
    trace: NotRequired[Inside]
    host: NotRequired[Host]
    clock_offset: NotRequired[ClockOffset | None]


class EventRow(TypedDict):
    """A row of ledger.ndjson."""

    event: Name
    at_ns: NotRequired[Nanoseconds]
    utc: NotRequired[Name]
    kind: NotRequired[Name]
    name: NotRequired[Text]
    samples: NotRequired[Nanoseconds]
    cpu_ns: NotRequired[Nanoseconds]
    bpf_ns: NotRequired[Nanoseconds]
    rounds: NotRequired[Count]
    spiky: NotRequired[Finite | None]
    focus: NotRequired[dict[Name, Any] | None]
    stopped: NotRequired[Name]
    host: NotRequired[Any]
    part: NotRequired[Name]


class RunEnd(TypedDict):
    stopped: Name


class Preconditioned(TypedDict):
    file: Name
    written_bytes: Finite
    seconds: Finite


class Instances(TypedDict):
    """Where a sweep's instances were."""

    hosts: dict[Name, Name]
    emulated: bool
    backends: dict[Name, Name]
    apart: dict[Name, Name]


class HostPart(TypedDict):
    host: Host
    part: Name


_EVENTS: Mapping[str, Any] = {
    "run-end": RunEnd, "preconditioned": Preconditioned, "instances": Instances, "host-part": HostPart,
}  # fmt: skip
"""What some rows of a ledger hold besides, and readers rely on."""


@functools.cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def wrong(shape: Any, value: Any) -> str:
    """Say what keeps `value` from being of that shape, in a line; "" for nothing.

    >>> wrong(EventRow, {"event": "run-end", "at_ns": "soon"})
    'at_ns: input should be a valid integer'
    """
    return "; ".join(f"{'.'.join(map(str, at))}: {what}" for at, what in errors_in(shape, value)[:2])


def errors_in(shape: Any, value: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """List every location at which `value` is not of that shape, with the reason."""
    try:
        _adapter(shape).validate_python(value, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        return [
            (item["loc"], "it is missing" if item["type"] == "missing" else _lower(item["msg"]))
            for item in errors
        ]
    return []


def wrong_trial(row: Any) -> str:
    """Say what is wrong with a row of trials.ndjson."""
    if why := wrong(TrialRow, row):
        return why
    return "" if row["status"] == "ok" or "error" in row else "error: it is missing"


def wrong_event(row: Any) -> str:
    """Say what is wrong with a row of ledger.ndjson."""
    if why := wrong(EventRow, row):
        return why
    return wrong(more, row) if (more := _EVENTS.get(row["event"])) else ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def latest(rows: Iterable[Row]) -> list[Row]:
    """Keep one row a trial: a trial that failed and was run again on resuming counts once, as its last row."""
    return list({(r.get("host"), int(r["trial"])): r for r in rows}.values())
