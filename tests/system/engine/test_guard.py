"""The guard: a run that costs others more than was allowed ends within seconds, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.command_line import Home, check_files, rows, wait_for

LONG = """\
study: interference
victims: [tiny]
neighbours: [burner]
placement: same-cpu
guard: {run_delay: 40%, stall: null, ramp: [50%], step: 1s}
measure: {target: null, blocks: 2000, pilot: 1, seed: 7}
"""


@contextmanager
def bystander(cpu: int) -> Iterator[int]:
    """A process of somebody else that wants all of a CPU."""
    command = ["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.alone
def test_it_ends_where_others_wait_for_a_cpu(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "long.yaml").write_text(LONG, encoding="utf-8")
    last = max(os.sched_getaffinity(0))
    with bystander(last) as pid:
        said = home("run", "long.yaml").fine(4)
    assert "stopped by the guard: others waited for a CPU" in said.err and f"sh (pid {pid}) most" in said.err
    run = home.the_run()
    check_files(run)
    assert len(rows(run)) < 2000 * 3
    assert "guard: others waited" in home("report", str(run), "--json").fine().json()["design"]["stopped"]
    home.nothing_left()


def test_others_that_may_be_kept_waiting_do_not_end_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "short.yaml").write_text(LONG.replace("2000", "6").replace("40%", "100%"), encoding="utf-8")
    with bystander(max(os.sched_getaffinity(0))):
        said = home("run", "short.yaml").fine()
    assert "guard" not in said.err and "neighbours begin at a part of their strength" in said.err + said.out
    home.nothing_left()


class _Service(ThreadingHTTPServer):
    daemon_threads = True
    slow = threading.Event()
    asked = 0


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Service)
        self.server.asked += 1
        if self.server.slow.is_set():
            time.sleep(1.0)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def service() -> Iterator[_Service]:
    with _Service(("127.0.0.1", 0), _Answer) as server:
        server.slow = threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_it_ends_where_their_service_answers_too_late(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with service() as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        guard = f"guard: {{run_delay: null, stall: null, ramp: [], probe: '{url}', every: 200ms, slower_than: 800ms}}"
        text = "\n".join(guard if line.startswith("guard") else line for line in LONG.splitlines())
        (tmp_path / "long.yaml").write_text(text, encoding="utf-8")
        with home.start("run", "long.yaml") as process:
            try:
                wait_for(lambda: server.asked > 5 and any(map(rows, home.run_directories())), "trial")
                server.slow.set()
                _, err = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 4, err
        assert f"stopped by the guard: {url} did not answer in time" in err and "Traceback" not in err
        home.nothing_left()
        # It is as slow before there is any load: that is not the run's doing, and nothing is made.
        before = home.run_directories()
        home("run", "long.yaml").error(2, "does not answer in time before there is any load", "slower_than")
        assert home.run_directories() == before
    home.nothing_left()


def test_a_dry_run_says_what_is_put_where(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "long.yaml").write_text(LONG, encoding="utf-8")
    said = home("run", "long.yaml", "--dry-run").fine()
    assert "load: burner (cpu), in at most 2000 trials of about" in said.out
    assert "guard: the run ends if, for 2 s, others wait for a CPU more than 40 %" in said.out
    assert "neighbours begin at 50 %" in said.out
    wrong = home("run", "long.yaml", "--set", "guard.probe=localhost:80", "--dry-run")
    wrong.error(2, "guard.probe", "no web address")
