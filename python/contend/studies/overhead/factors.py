"""Factors of an overhead study, as a scenario has them: platforms, sizes, how a size is given."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from contend.errors import BadInput
from contend.platforms.bandwidth import MAX_PERIOD_US, MIN_PERIOD_US, period_text
from contend.platforms.sizes import PlatformSize, parse_platform_size
from contend.scenario.settings import one_or_many
from contend.scenario.yaml_file import field
from contend.units import parse_duration_ns


def parse_period_us(value: object) -> int:
    """The period of a CPU quota, in µs. Raises BadInput.

    >>> parse_period_us("10ms"), parse_period_us("1s")
    (10000, 1000000)
    """
    us = _whole_us(value)
    if not MIN_PERIOD_US <= us <= MAX_PERIOD_US:
        raise BadInput(
            f"a period of {value} is not from 1ms to 1s",
            hint="the kernel takes no other; write it like 10ms (a bare number is seconds)",
        )
    return us


def parse_burst_us(value: object) -> int:
    """The burst of a CPU quota, in µs; 0 for none. Raises BadInput.

    >>> parse_burst_us("5ms"), parse_burst_us(0)
    (5000, 0)
    """
    us = _whole_us(value)
    if us > 10 * MAX_PERIOD_US:
        raise BadInput(
            f"a burst of {value} is above 10s",
            hint="at most the quota of a period; write it like 5ms (a bare number is seconds)",
        )
    return us


def _whole_us(value: object) -> int:
    ns = parse_duration_ns(value if isinstance(value, str | int | float) else str(value))
    if ns % 1000:
        raise BadInput(f"{value} is no whole number of µs", hint="the kernel counts periods and bursts in µs")
    return ns // 1000


_LIST = BeforeValidator(one_or_many, json_schema_input_type=str | list[str])
PlatformKinds = Annotated[
    tuple[Literal["container", "vm", "container-in-vm"], ...], Field(min_length=1), _LIST
]
Provisionings = Annotated[tuple[Literal["vanilla", "pinned"], ...], Field(min_length=1), _LIST]
Placements = Annotated[tuple[Literal["packed", "spread"], ...], Field(min_length=1), _LIST]
Hosts = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    BeforeValidator(one_or_many, json_schema_input_type=int | list[int]),
]
HostsBy = Literal["auto", "offline", "confined"]
Labels = Annotated[tuple[str, ...], _LIST]
_DURATIONS = BeforeValidator(one_or_many, json_schema_input_type=float | str | list[float | str])
_IN_US = PlainSerializer(period_text, return_type=str)
_Period = Annotated[int, BeforeValidator(field(parse_period_us), json_schema_input_type=float | str), _IN_US]
_Burst = Annotated[int, BeforeValidator(field(parse_burst_us), json_schema_input_type=float | str), _IN_US]
Periods = Annotated[tuple[_Period, ...], Field(min_length=1), _DURATIONS]
Bursts = Annotated[tuple[_Burst, ...], Field(min_length=1), _DURATIONS]
PlatformSizes = Annotated[
    tuple[
        Annotated[
            PlatformSize,
            BeforeValidator(parse_platform_size, json_schema_input_type=float | str | dict[str, Any]),
            PlainSerializer(lambda size: size.text, return_type=str),
        ],
        ...,
    ],
    BeforeValidator(one_or_many, json_schema_input_type=float | str | list[float | str | dict[str, Any]]),
]
