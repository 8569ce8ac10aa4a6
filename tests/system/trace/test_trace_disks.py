"""Disks that fill and directories that go away: the recording ends, the program goes on."""

from __future__ import annotations

from pathlib import Path

from support.ctrace_events import BEGIN, read_all, run

FILLS = """
import time
trace.start(DIRECTORY)
@trace.traced(name="f")
def f(): pass
for _ in range(400_000): f()
time.sleep(0.6)
f()
status = trace.stop()
assert status.failure and not status.recording, status
print("went on")
"""


def test_a_full_disk_ends_the_recording_only(full_disk: Path) -> None:
    done = run(FILLS, full_disk)
    [told] = read_all(full_disk)
    assert done.stdout == "went on\n" and not told.torn and told.of(BEGIN)
    [warning] = done.stderr.splitlines()
    assert warning.startswith("contend.trace: recording stopped, the program goes on: ")
    assert "No space left on device" in warning and str(full_disk) in warning


def test_a_limit_on_file_sizes_ends_the_recording_only(tmp_path: Path) -> None:
    resource_limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({1 << 20}, {1 << 20}))\n"
    done = run(resource_limit + FILLS, tmp_path)
    [told] = read_all(tmp_path)
    assert done.stdout == "went on\n" and not told.torn and "File too large" in done.stderr


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("trace.start(DIRECTORY + '/file/t')", tmp_path, check=False)
    assert done.returncode == 1 and "HostFailed: write a trace into" in done.stderr


def test_a_directory_that_vanishes_ends_the_recording_only(tmp_path: Path) -> None:
    done = run(
        """
        import os, shutil, time
        @trace.traced
        def f(): pass
        trace.start(DIRECTORY); f(); trace.flush()
        shutil.rmtree(DIRECTORY)
        for _ in range(10): f(); time.sleep(0.1)
        status = trace.stop()
        assert status.failure and not status.recording, status
        if os.fork() == 0: f(); os._exit(0)
        assert os.wait()[1] == 0
        trace.start(DIRECTORY); f()
        assert trace.stop().failure is None
        """,
        tmp_path / "t",
    )
    [warning] = done.stderr.splitlines()
    assert "recording stopped, the program goes on" in warning and "was removed" in warning
    [told] = read_all(tmp_path / "t")
    assert told.ended and len(told.spans()) == 1
