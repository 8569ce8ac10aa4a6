"""A recorder keeps what it has and says once what went wrong, whatever the probe does."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from contend.errors import HostFailed, ProbeEnded
from contend.probes import client
from contend.probes.client import ProbeProcess, record_all
from contend.probes.recorder import Recorder
from contend.probes.series import SeriesWriter
from contend.store.series import series_files

HOST = {"interval_ms": 5, "host": True}


def made_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A program in the probe's place that says these lines and then does the last word of the test's."""
    path = tmp_path / "contend-probe"
    path.write_text(f"#!{sys.executable} -S\nimport sys, time\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)
    monkeypatch.setenv("CONTEND_PROBE", str(path))


HELLO = """print('{"probe": "1", "clock": "", "sources": [], "notes": []}', flush=True)"""


def test_a_probe_that_dies_is_said_once_and_its_rows_so_far_are_kept(tmp_path: Path) -> None:
    recorder = Recorder(HOST, SeriesWriter(tmp_path))
    recorder.collect()
    os.kill(recorder.pid, signal.SIGKILL)
    with pytest.raises(ProbeEnded, match="signal 9"):
        recorder.collect()
    assert recorder.collect().coded == {}
    recorder.close()
    assert "host" in series_files(tmp_path)


def test_what_a_thread_of_ours_met_is_told_at_the_next_occasion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contend.probes.recorder.DRAIN_S", 0.01)
    recorder = Recorder(HOST, SeriesWriter(tmp_path))
    os.kill(recorder.pid, signal.SIGKILL)
    recorder.collect_in_background()
    assert recorder._thread is not None
    recorder._thread.join(20)
    with pytest.raises(ProbeEnded):
        recorder.collect()
    recorder.close()


def test_a_disk_that_refuses_ends_the_recording_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = Recorder(HOST, SeriesWriter(tmp_path / "file" / "series", batch_values=1))
    with pytest.raises(HostFailed, match="cannot write"):
        recorder.collect()
    assert recorder.collect().coded == {}
    recorder.close()


def test_a_probe_that_falls_silent_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for it may be waited for by a command."""
    monkeypatch.setattr(client, "SILENCE_S", 0.2)
    made_probe(tmp_path, monkeypatch, HELLO, "time.sleep(600)")
    probe = ProbeProcess(HOST)
    with pytest.raises(ProbeEnded, match="said nothing"):
        probe.drain()
    assert probe.stop().coded == {}
    assert not Path(f"/proc/{probe.pid}").exists()


def test_half_an_answer_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = '{"tables": [{"name": "cpu", "rows": 9, "columns": ["t_ns"], "names": []}], "cost": {}}'
    made_probe(
        tmp_path,
        monkeypatch,
        HELLO,
        "sys.stdin.readline()",
        f"print('{table}')",
        "print('short', flush=True)",
    )
    with pytest.raises(ProbeEnded, match="status 0"):
        ProbeProcess(HOST).drain()


def test_what_it_refuses_is_said_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = '{"error": "no", "hint": "yes", "bad_input": false}'
    made_probe(tmp_path, monkeypatch, f"print('{refusal}')")
    with pytest.raises(HostFailed, match="no") as caught:
        ProbeProcess(HOST)
    assert caught.value.hint == "yes"


def test_histograms_are_asked_for_only_when_they_are_wanted() -> None:
    assert "sched" not in record_all(100)
    assert record_all(100, sched="cgroup")["sched"] == {"by": "cgroup"}
    assert record_all(100, sched="process", stacks=True)["sched"] == {"by": "process", "stacks": True}
