"""A watch that was recorded says from its rows what it said while it went on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contend.contention import watch_record
from contend.contention.blame import OWN_QUOTA
from contend.contention.watch import Watched
from contend.contention.watch_record import WatchRecord, read_watched
from contend.errors import BadInput, HostFailed
from contend.report.watch_document import document
from contend.store.directory import WATCH_FILE, RunDirectory
from support import blame_rows
from support.blame_rows import S
from support.made_watches import coded, recorded


def test_what_is_read_is_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ticks are read at a time."""
    run, watched = recorded(tmp_path / "run", 12)
    said = document(blame_rows.report(watched)).to_json()
    assert said["length_ns"] == 12 * S - S // 2
    for ticks in (1, 5, 256):
        monkeypatch.setattr(watch_record, "TICKS", ticks)
        found = read_watched(run)
        assert document(blame_rows.report(found)).to_json() == said
        assert (found.cost, found.loading_ns, found.note) == (watched.cost, 3, "a note")
        assert found.blame.apart == watched.blame.apart


def use(t_ns: int, pid: int, cgroup: str, threads: int, cpu_ns: int, delay_ns: int) -> dict[str, object]:
    return {
        "t_ns": t_ns, "pid": pid, "name": f"p{pid}", "cgroup": cgroup, "threads": threads, "user_ns": cpu_ns,
        "system_ns": 0, "run_delay_ns": delay_ns, "voluntary": 1, "involuntary": 2,
    }  # fmt: skip


def of_rows(rows: list[dict[str, object]]) -> dict[str, np.ndarray]:
    def kind(value: object) -> object:
        return object if isinstance(value, str) else np.uint64

    return {key: np.array([row[key] for row in rows], dtype=kind(rows[0][key])) for key in rows[0]}


def test_a_correlation_that_is_read_again_blames_the_quota_as_it_did(tmp_path: Path) -> None:
    """With the CPUs of the host that was watched."""
    run = RunDirectory(tmp_path)
    watched = Watched("correlation", "cgroup", S, "procfs", "no BPF", cpus=64)
    record = WatchRecord(run, {"line": "contend watch --no-bpf", "scope": ""}, pytest.fail)
    record.begin(watched)
    for tick in range(1, 13):
        t = tick * S
        # 32 threads that want a CPU each, held on all of them for a quarter of the second.
        tables = {
            "process_use": of_rows([use(t, 1, "/a", 32, 20 * S, 12 * S), use(t, 2, "/b", 1, S, 0)]),
            "cgroup_use": of_rows([{"t_ns": t, "cgroup": "/a", "throttled_ns": 8 * S}]),
        }
        record.keep({name: coded(table) for name, table in tables.items()})
        list(watched.take(tables))
    record.close(watched)
    assert dict(watched.blame.culprits("cpu", "/a"))[OWN_QUOTA] == 12 * 8 * S
    first, again = (document(blame_rows.report(of)).to_json() for of in (watched, read_watched(run)))
    assert again == first


def test_a_machine_keeps_its_name_and_nobody_new_is_asked(tmp_path: Path) -> None:
    run, _ = recorded(tmp_path / "run", 2)
    namer = read_watched(run).namer
    assert (namer("qemu-system-x86:7"), namer("qemu-system-x86:1")) == ("web:7", "qemu-system-x86:1")


def test_a_watch_that_was_killed_has_no_cost_and_one_without_rows_no_victims(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    WatchRecord(run, {}, pytest.fail).begin(Watched("blame", "process", S, "BPF"))
    found = read_watched(run)
    assert (found.cost.samples, found.blame.whole) == (0, None)
    run.write_json(WATCH_FILE, {"schema_version": 1})
    with pytest.raises(BadInput, match="kind"):
        read_watched(run)


def test_a_disk_that_takes_nothing_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    record = WatchRecord(RunDirectory(tmp_path), {}, said.append)

    def full(*_: object) -> None:
        raise HostFailed("no space", hint="free some")

    assert record._writer is not None
    monkeypatch.setattr(record._writer, "add", full)
    for _ in range(2):
        record.keep({})
    record.close(Watched("blame", "process", S, "BPF"))
    assert said == ["warning: the recording ends here: no space\n  hint: free some"]
