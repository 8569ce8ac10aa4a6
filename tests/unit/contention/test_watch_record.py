"""A watch that was recorded says from its rows what it said while it went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.contention import watch_record
from contend.contention.watch import Watched
from contend.contention.watch_record import WatchRecord, read_watched
from contend.errors import BadInput, HostFailed
from contend.report.watch_document import document
from contend.store.directory import WATCH_FILE, RunDirectory
from support import blame_rows
from support.blame_rows import S
from support.made_watches import recorded


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
