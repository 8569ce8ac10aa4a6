"""Checks that a guest got what was requested, by what it and the kernel say."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from contend.errors import HostFailed
from contend.platforms import bandwidth
from contend.platforms.base import HostSpec, Limit

_MIB = 1 << 20


def affinity(thread: int) -> set[int]:
    """CPUs that a thread may run on; empty when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        return os.sched_getaffinity(thread)
    return set()


def check_cpus(got: Mapping[str, object], spec: HostSpec, vcpus: int, threads: int) -> None:
    """Check number and CPUs of the virtual CPUs. got: what the host has honoured. Raises HostFailed."""
    if got["vcpus"] != vcpus or threads != vcpus:
        raise HostFailed(f"the guest has {got['vcpus']} CPUs instead of {vcpus}", hint="contend doctor")
    if spec.cpu_list is not None and got["cpus"] != sorted(spec.cpu_list)[:vcpus]:
        raise HostFailed(
            f"the guest's CPUs run on {got['cpus']} instead of {sorted(spec.cpu_list)}",
            hint="contend doctor",
        )


def check_container(got: Mapping[str, object], limit: Limit, inside: Mapping[str, str]) -> None:
    """Check quota and memory of the container. inside: files of its group. Raises HostFailed."""
    memory = limit.memory_bytes and limit.memory_bytes // 4096 * 4096
    if (got["quota_cpus"], got["memory_limit"]) != (bandwidth.given_cpus(limit), memory):
        raise HostFailed(
            f"the container has {got['quota_cpus']} CPUs and {got['memory_limit']} bytes",
            hint="contend doctor",
        )
    if why := bandwidth.wrong(inside, limit):
        raise HostFailed(f"the container has {why}", hint="contend doctor")


def check_memory(inside: int, outside: int, wanted: int) -> None:
    """Check the memory size, bytes. inside: what the guest says, whose kernel keeps some for itself; outside: what QEMU
    says. Raises HostFailed."""
    if outside != wanted or not 0.6 * wanted - 64 * _MIB < inside <= wanted:
        raise HostFailed(f"the guest has {inside} bytes instead of {wanted}", hint="contend doctor")
