"""Series on their way to disk: every row once, bounded memory, few files, whatever interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from contend.errors import HostFailed
from contend.probes.base import Coded
from contend.probes.series import MERGE_FILES, SeriesWriter
from contend.store.series import covered_files, pattern, series_files

S = 1_000_000_000


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def utc(self) -> str:
        return "2026-01-01T00:00:00.000+00:00"

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)


def rows(first: int, count: int) -> dict[str, Coded]:
    """`count` samples of two disks from second `first` on."""
    times = np.repeat(np.arange(first, first + count, dtype="u8") * S, 2)
    names = {"device": ["vdb", "vda"]}
    which = np.tile(np.array([0, 1], "u8"), count)
    return {"disk": Coded({"t_ns": times, "device": which, "reads": np.arange(2 * count, dtype="u8")}, names)}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def writer(tmp_path: Path, clock: ManualClock) -> Iterator[SeriesWriter]:
    writer = SeriesWriter(tmp_path / "it's [1] of *", clock=clock)
    yield writer
    writer.close()


def stored(directory: Path) -> list[tuple[int, str]]:
    files = [pattern(path) for path in series_files(directory)["disk"]]
    return duckdb.read_parquet(files).project("t_ns // 1000000000, device").fetchall()


def test_a_batch_is_written_when_it_is_old_or_large(tmp_path: Path, clock: ManualClock) -> None:
    writer = SeriesWriter(tmp_path, clock=clock, batch_values=100, batch_age_s=60)
    writer.add(rows(0, 2))
    clock.sleep(59)
    writer.add(rows(2, 2))
    assert not list(tmp_path.iterdir())
    clock.sleep(1)
    writer.add({})
    assert [path.name for path in tmp_path.iterdir()] == ["disk-0000.parquet"]
    writer.add(rows(4, 17))  # 102 values
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk-0000.parquet", "disk-0001.parquet"]
    assert writer.held_values == 0
    writer.close()


def test_while_something_is_measured_only_too_much_is_written(tmp_path: Path, clock: ManualClock) -> None:
    writer = SeriesWriter(tmp_path, clock=clock, batch_values=100, batch_age_s=60)
    writer.add(rows(0, 60), later=True)  # 360 values
    clock.sleep(600)
    writer.add(rows(60, 1), later=True)
    assert not list(tmp_path.iterdir())
    writer.add(rows(61, 6), later=True)  # 402
    assert [path.name for path in tmp_path.iterdir()] == ["disk-0000.parquet"]
    writer.add(rows(67, 1), later=True)
    clock.sleep(60)
    writer.add({})
    assert len(list(tmp_path.iterdir())) == 2
    writer.close()


def test_rows_are_sorted_by_device_and_time_and_names_are_names(writer: SeriesWriter) -> None:
    writer.add(rows(0, 2))
    writer.add(rows(2, 1))
    writer.flush()
    assert stored(writer.directory) == [(t, d) for d in ("vdb", "vda") for t in (0, 1, 2)]


def test_numbers_can_be_subtracted(writer: SeriesWriter) -> None:
    """Unsigned columns would make `reads - lag(reads)` an error in DuckDB as soon as it is negative."""
    writer.add(rows(0, 2))
    writer.flush()
    (path,) = series_files(writer.directory)["disk"]
    assert duckdb.read_parquet(str(path)).aggregate("min(reads - 3)").fetchall() == [(-3,)]


def test_two_days_keep_memory_and_files_few_and_lose_nothing(
    writer: SeriesWriter, clock: ManualClock
) -> None:
    """A sample every two seconds, drained every ten, as of a clock that jumps: it takes a moment of real time."""
    most = files = 0
    for second in range(0, 2 * 86_400, 60):
        for part in range(0, 60, 20):
            writer.add(rows((second + part) // 2, 10))
            clock.sleep(20)
        most = max(most, writer.held_values)
        files = max(files, len(list(writer.directory.glob("*"))))
    assert most <= 4 * 10 * 2 * 3, "two minutes of rows at most"
    assert files < MERGE_FILES + 2 * 86_400 / 60 / MERGE_FILES + 2
    writer.close()
    assert sorted(stored(writer.directory)) == [(t, d) for t in range(86_400) for d in ("vda", "vdb")]
    assert [path.name for path in writer.directory.iterdir()] == ["disk-0000-2159.parquet"]


def test_numbers_go_on_after_those_of_an_earlier_run(tmp_path: Path) -> None:
    for first in (0, 2):
        writer = SeriesWriter(tmp_path)
        writer.add(rows(first, 1))
        writer.flush()
        writer.add(rows(first + 1, 1))
        writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "disk-0000-0001.parquet",
        "disk-0002-0003.parquet",
    ]
    assert sorted(stored(tmp_path)) == [(t, d) for t in range(4) for d in ("vda", "vdb")]


def test_what_a_kill_in_a_merge_leaves_is_read_once_and_removed(tmp_path: Path) -> None:
    for name in ("disk-0000", "disk-0001", "disk-0000-0001", "disk-0002", "disk-0002-0003", "cpu-0001"):
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1PAR1PAR1")
    (tmp_path / "disk-0004.partial").touch()
    names = {table: [path.name for path in files] for table, files in series_files(tmp_path).items()}
    assert names == {
        "cpu": ["cpu-0001.parquet"],
        "disk": ["disk-0000-0001.parquet", "disk-0002-0003.parquet"],
    }
    assert {path.stem for path in covered_files(tmp_path)} == {"disk-0000", "disk-0001", "disk-0002"}


def test_a_place_that_refuses_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = SeriesWriter(tmp_path / "file" / "series")
    writer.add(rows(0, 1))
    with pytest.raises(HostFailed, match="cannot write"):
        writer.flush()
    writer.close()


def test_a_full_disk_keeps_what_is_whole(full_disk: Path) -> None:
    writer = SeriesWriter(full_disk / "series")
    writer.add(rows(0, 10))
    writer.flush()
    (full_disk / "rest").write_bytes(bytes((1 << 20) - 16384 - (full_disk / "series").stat().st_size))
    noise = np.random.default_rng(1).integers(0, 1 << 60, 20_000, dtype="u8")
    writer.add({"disk": Coded({"t_ns": noise, "device": noise % 2, "reads": noise}, {"device": ["a", "b"]})})
    with pytest.raises(HostFailed, match="No space left on device"):
        writer.close()
    assert [path.name for path in (full_disk / "series").iterdir()] == ["disk-0000.parquet"]
