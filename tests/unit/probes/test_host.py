"""The host's counters, as contend-probe hands them out."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from contend.errors import BadInput, HostFailed
from contend.probes.client import ProbeProcess


def host(interval_ms: float = 5, **more: object) -> ProbeProcess:
    return ProbeProcess({"interval_ms": interval_ms, "host": True, **more})


def test_drains_hold_every_sample_once() -> None:
    probe = host()
    times: list[int] = []
    for _ in range(3):
        time.sleep(0.03)
        times += (int(t) for t in probe.drain().tables["host"]["t_ns"])
    last = probe.stop()
    times += (int(t) for t in last.tables["host"]["t_ns"])
    assert times == sorted(times)
    assert len(times) == last.cost.samples == len(set(times))
    assert last.cost.cpu_ns > 0 and last.cost.errors == 0


def test_names_are_names() -> None:
    names = set(host().stop().tables["net"]["interface"])
    assert names == {p.name for p in Path("/sys/class/net").iterdir() if (p / "statistics").exists()}


def test_columns_are_unsigned_nanoseconds() -> None:
    cpu = host().stop().tables["cpu"]
    assert cpu["user_ns"].dtype == np.dtype("<u8")
    now = time.monotonic_ns()
    assert now - 10**9 < int(cpu["t_ns"][-1]) <= now


def test_bad_values_name_themselves() -> None:
    with pytest.raises(BadInput, match=r"0\.5 ms"):
        host(interval_ms=0.5)
    with pytest.raises(HostFailed, match="1023"):
        host(cpus=(1023,))
