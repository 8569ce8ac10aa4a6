"""`contend export` of traces: what is taken for one, where it goes, and what is said of what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from contend import _native
from contend.cli.export_ import command
from contend.errors import BadInput, HostFailed
from contend.report.trace_export import export_traces
from contend.store.traces import is_trace, notes
from support import ctrace_files as c
from support.ctrace_files import Made, event


def small(pid: int = 5) -> Made:
    made = Made(pid)
    made.track(1, c.THREAD, "main", tid=pid)
    name = made.string("work")
    made.events(1, [event(10, c.BEGIN, name), event(30, c.END, name)])
    made.end(40)
    return made


def test_a_file_and_a_directory_of_them_are_traces(tmp_path: Path) -> None:
    assert not is_trace(tmp_path)
    assert not is_trace(tmp_path / "none.ctrace")
    path = small().save(tmp_path)
    assert is_trace(path)
    assert is_trace(tmp_path)


@pytest.mark.parametrize(("form", "name"), [("perfetto", "export.perfetto-trace"), ("chrome", "export.json")])
def test_it_is_written_beside_the_trace(tmp_path: Path, form: str, name: str) -> None:
    path = small().save(tmp_path)
    for source in (path, tmp_path):
        done = CliRunner().invoke(command, [str(source), "--to", form], standalone_mode=False)
        assert done.exception is None
        assert done.stdout.strip().endswith(name)
        assert done.stderr == ""
        assert (tmp_path / name).stat().st_size > 50
        (tmp_path / name).unlink()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    made = small()
    made.dropped(1, 1, 31, 32)
    made.save(tmp_path)
    torn = tmp_path / "6-77.ctrace"
    torn.write_bytes(small(6).bytes()[:-1])
    (tmp_path / "7-77.ctrace").write_bytes(b"")
    done = CliRunner().invoke(command, [str(tmp_path), "--to", "perfetto"], standalone_mode=False)
    said = done.stderr.splitlines()
    assert said == [
        "note: 1 event was not recorded: the ring was full",
        "note: 23 bytes at the ends of files are torn",
        "note: 1 process did not close its file: it ends with its last spill",
        f"note: '{tmp_path}/7-77.ctrace' is too short for a trace file",
    ]


def test_another_form_is_refused(tmp_path: Path) -> None:
    small().save(tmp_path)
    done = CliRunner().invoke(command, [str(tmp_path), "--to", "csv"], standalone_mode=False)
    assert isinstance(done.exception, BadInput)
    with pytest.raises(BadInput, match="'svg' is no form"):
        _native.ctrace_export([str(tmp_path)], "svg", str(tmp_path / "x"))


def test_a_failure_leaves_nothing_behind_and_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    broken = tmp_path / "a.ctrace"
    broken.write_bytes(b"x" * 100)
    with pytest.raises(BadInput, match="is no trace file"):
        export_traces([broken], "perfetto", target)
    with pytest.raises(BadInput, match="is no trace"):
        export_traces([tmp_path / "none"], "perfetto", target)
    small().save(tmp_path)
    (tmp_path / "a.ctrace").unlink()
    with pytest.raises(HostFailed):
        export_traces([tmp_path], "chrome", Path("/proc/none/out"))
    assert target.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["5-77.ctrace", "out"]


def test_a_full_disk_is_said_and_nothing_half_is_left(tmp_path: Path, full_disk: Path) -> None:
    made = small()
    name = made.string("again")
    for ring in range(20):
        made.events(ring, [event(at, c.BEGIN + at % 2, name) for at in range(8_000)])
    made.save(tmp_path)
    with pytest.raises(HostFailed, match="cannot write"):
        export_traces([tmp_path], "chrome", full_disk / "out.json")
    assert list(full_disk.iterdir()) == []


def test_every_count_has_its_words(tmp_path: Path) -> None:
    told = export_traces([small().save(tmp_path)], "perfetto", tmp_path / "out")
    counts = {k: 1 for k, v in told.items() if isinstance(v, int)} | {"passed_over": ["x"]}
    assert len(notes(counts)) == len(counts) - len({"events", "processes", "tracks", "bytes"})
