"""The host's time series on its way to disk."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

from contend.errors import BadInput, HostFailed
from contend.probes.base import Probe, Scope
from contend.probes.host import HostProbe


def test_drained_files_hold_every_sample_once(tmp_path: Path) -> None:
    probe: Probe = HostProbe(interval_ms=5)
    assert isinstance(probe, HostProbe)
    probe.start(Scope())
    written = []
    for index in range(1, 4):
        time.sleep(0.03)
        written += probe.drain_to(tmp_path / "it's", index)
    rest = probe.stop()
    assert sorted(p.name for p in written if p.name.startswith("host")) == [
        f"host-000{i}.parquet" for i in (1, 2, 3)
    ]
    rows = duckdb.sql(
        f"SELECT t_ns FROM read_parquet({[str(p) for p in written if p.name.startswith('host')]!r})"
    )
    stored = [t for (t,) in rows.fetchall()]
    times = sorted([*stored, *(int(t) for t in rest["host"]["t_ns"])])
    assert len(times) == probe.cost().samples == len(set(times))
    assert probe.cost().cpu_ns > 0 and probe.cost().errors == 0
    assert not list((tmp_path / "it's").glob("*.partial"))


def test_names_are_written_as_names(tmp_path: Path) -> None:
    probe = HostProbe(interval_ms=5)
    probe.start(Scope())
    time.sleep(0.02)
    (net,) = [p for p in probe.drain_to(tmp_path, 1) if p.name == "net-0001.parquet"]
    probe.stop()
    names = {n for (n,) in duckdb.read_parquet(str(net)).project("interface").fetchall()}
    assert names == {p.name for p in Path("/sys/class/net").iterdir() if (p / "statistics").exists()}


def test_columns_are_unsigned_nanoseconds() -> None:
    probe = HostProbe(interval_ms=5)
    probe.start(Scope())
    tables = probe.stop()
    cpu = tables["cpu"]
    assert cpu["user_ns"].dtype == np.dtype("<u8")
    now = time.monotonic_ns()
    assert now - 10**9 < int(cpu["t_ns"][-1]) <= now


def test_a_disk_that_refuses_is_an_error(tmp_path: Path) -> None:
    probe = HostProbe(interval_ms=5)
    probe.start(Scope())
    (tmp_path / "file").touch()
    with pytest.raises(HostFailed, match="cannot write"):
        probe.drain_to(tmp_path / "file" / "series", 1)
    probe.stop()


def test_bad_values_name_themselves() -> None:
    with pytest.raises(BadInput, match=r"0\.5 ms"):
        HostProbe(interval_ms=0.5).start(Scope())
    with pytest.raises(HostFailed, match="1023"):
        HostProbe(interval_ms=5).start(Scope(cpus=(1023,)))


def test_before_the_start_there_is_nothing(tmp_path: Path) -> None:
    probe = HostProbe()
    assert probe.drain_to(tmp_path, 1) == () and probe.stop() == {} and probe.cost().samples == 0
