"""The host's time series in memory."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from contend.errors import BadInput, HostFailed
from contend.probes.base import Probe, Scope
from contend.probes.host import HostProbe


def test_drains_hold_every_sample_once() -> None:
    probe: Probe = HostProbe(interval_ms=5)
    assert isinstance(probe, HostProbe)
    probe.start(Scope())
    times: list[int] = []
    for _ in range(3):
        time.sleep(0.03)
        times += (int(t) for t in probe.drain()["host"]["t_ns"])
    times += (int(t) for t in probe.stop()["host"]["t_ns"])
    assert times == sorted(times)
    assert len(times) == probe.cost().samples == len(set(times))
    assert probe.cost().cpu_ns > 0 and probe.cost().errors == 0


def test_names_are_names() -> None:
    probe = HostProbe(interval_ms=5)
    probe.start(Scope())
    names = set(probe.stop()["net"]["interface"])
    assert names == {p.name for p in Path("/sys/class/net").iterdir() if (p / "statistics").exists()}


def test_columns_are_unsigned_nanoseconds() -> None:
    probe = HostProbe(interval_ms=5)
    probe.start(Scope())
    tables = probe.stop()
    cpu = tables["cpu"]
    assert cpu["user_ns"].dtype == np.dtype("<u8")
    now = time.monotonic_ns()
    assert now - 10**9 < int(cpu["t_ns"][-1]) <= now


def test_bad_values_name_themselves() -> None:
    with pytest.raises(BadInput, match=r"0\.5 ms"):
        HostProbe(interval_ms=0.5).start(Scope())
    with pytest.raises(HostFailed, match="1023"):
        HostProbe(interval_ms=5).start(Scope(cpus=(1023,)))


def test_before_the_start_there_is_nothing() -> None:
    probe = HostProbe()
    assert probe.drain() == {} and probe.stop() == {} and probe.cost().samples == 0
