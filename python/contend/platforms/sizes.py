"""Sizes of a platform: CPUs and memory, freely or by the names of instance types.

The types are those of Ghatrehsamani et al., "The Art of CPU-Pinning" (ICPP 2020), table 1: 4 GB a core, read as GiB,
which is how clouds count memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from contend.units import parse_size_bytes

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class PlatformSize:
    """CPUs (a fraction is a share of one CPU's time) and memory in bytes, None: not capped. `name`: of the type.

    >>> PlatformSize(0.5).label, PlatformSize(2, 8 << 30).label, PlatformSize(2, 8 << 30, "Large").label
    ('0.5 CPU', '2 CPUs 8 GiB', 'Large (2 CPUs 8 GiB)')
    """

    cpus: float
    memory_bytes: int | None = None
    name: str = ""

    @property
    def whole_cpus(self) -> int:
        """The number of CPUs it needs at least.

        >>> PlatformSize(0.5).whole_cpus, PlatformSize(2).whole_cpus, PlatformSize(2.5).whole_cpus
        (1, 2, 3)
        """
        return math.ceil(self.cpus)

    @property
    def label(self) -> str:
        """The size as tables show it."""
        text = cpus_label(self.cpus) + (f" {self.memory_bytes / _GIB:.4g} GiB" if self.memory_bytes else "")
        return f"{self.name} ({text})" if self.name else text

    @property
    def text(self) -> str:
        """The size as a scenario has it: `parse_platform_size` reads it back.

        >>> PlatformSize(0.5).text, PlatformSize(2, 8 << 30).text, INSTANCE_TYPES["Large"].text
        ('0.5', '2/8589934592', 'Large')
        """
        return self.name or f"{self.cpus:g}" + (f"/{self.memory_bytes}" if self.memory_bytes else "")


def cpus_label(cpus: float) -> str:
    """Write a number of CPUs with its unit.

    >>> cpus_label(0.5), cpus_label(1), cpus_label(2.5)
    ('0.5 CPU', '1 CPU', '2.5 CPUs')
    """
    return f"{cpus:g} CPU{'s' if cpus > 1 else ''}"


def of_host(cpus: int | str, by: str) -> str:
    """Write the host's CPUs behind a size. by: how the host came to have so many: whole, offline or confined.

    >>> of_host(2, "whole"), of_host(1, "offline"), of_host(1, "confined")
    ('of 2', 'of 1', 'of 1 confined')
    """
    return f"of {host_words(cpus, by)}"


def host_words(cpus: int | str, by: str) -> str:
    """Write the host's number of CPUs, and `confined` where affinity, not hotplug, made the host smaller.

    >>> host_words(2, "whole"), host_words(1, "confined")
    ('2', '1 confined')
    """
    return f"{cpus}{' confined' if by == 'confined' else ''}"


def sized(factors: Mapping[str, str]) -> str:
    """Write a cell's size, with the host's CPUs where a study varies those.

    >>> sized({"size": "1 CPU"}), sized({"size": "1 CPU", "host": "2", "host_by": "whole"})
    ('1 CPU', '1 CPU of 2')
    """
    size = factors["size"]
    return f"{size} {of_host(factors['host'], factors['host_by'])}" if "host" in factors else size


INSTANCE_TYPES: Mapping[str, PlatformSize] = {
    name: PlatformSize(cores, 4 * cores * _GIB, name)
    for name, cores in (
        ("Large", 2), ("xLarge", 4), ("2xLarge", 8), ("4xLarge", 16), ("8xLarge", 32), ("16xLarge", 64),
    )
}  # fmt: skip


def parse_platform_size(value: object) -> PlatformSize:
    """A size from a scenario: CPUs, an instance type's name, CPUs/memory, or a mapping. Raises ValueError.

    >>> parse_platform_size(0.5), parse_platform_size("2/8GB").memory_bytes, parse_platform_size("xlarge").cpus
    (PlatformSize(cpus=0.5, memory_bytes=None, name=''), 8589934592, 4)
    >>> parse_platform_size({"cpus": 2, "memory": "512MiB"}).label
    '2 CPUs 0.5 GiB'
    """
    if isinstance(value, PlatformSize):
        return value
    if isinstance(value, Mapping):
        if "cpus" not in value or not set(value) <= {"cpus", "memory"}:
            raise ValueError("a size is {cpus: 2, memory: 8GB}, a number of CPUs, 2/8GB, or an instance type")
        memory = value.get("memory")
        return _checked(value["cpus"], None if memory is None else parse_size_bytes(memory))
    text = str(value).strip()
    for name, size in INSTANCE_TYPES.items():
        if text.lower() == name.lower():
            return size
    number, slash, memory = text.partition("/")
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", number.strip()):
        types = ", ".join(INSTANCE_TYPES)
        raise ValueError(f"'{value}' is no size: a number of CPUs, CPUs/memory like 2/8GB, or one of {types}")
    return _checked(number, parse_size_bytes(memory.strip()) if slash else None)


def _checked(cpus: object, memory_bytes: int | None) -> PlatformSize:
    try:
        number = float(str(cpus))
    except ValueError as error:
        raise ValueError(f"'{cpus}' is no number of CPUs") from error
    if not 0.05 <= number <= 4096:
        raise ValueError(f"{number:g} CPUs: a size is from 0.05 to 4096 CPUs")
    return PlatformSize(int(number) if number == int(number) else number, memory_bytes)
