"""`contend hunt` on programs that ran: one with known faults, one with none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from contend.cli.hunt_ import command
from contend.contention.hunt_document import HuntDocument
from contend.errors import BadInput
from contend.text.shape import schema
from support.answers import data_in
from support.planted_quota import group_of
from support.prerequisites import need
from support.traced_program import traced

FAULTY = """
    import queue, threading, time
    from contend import trace

    def update(*values):
        with trace.span("rpc call update", kind="remote", arguments=trace.digest(*values)): time.sleep(0.006)

    class Tracker:
        def __init__(self): self.lock, self.cache = threading.Lock(), threading.Lock()
        def claim(self, instance):
            with trace.span("claim"), self.lock:
                for value in (1, 1, 1, 2): update(instance, value)
        def look(self):
            with trace.span("look"), self.cache: time.sleep(0.002)

    class Writers:
        def __init__(self, count):
            self.inbox = [queue.Queue() for _ in range(count)]
            for number, mine in enumerate(self.inbox):
                threading.Thread(target=self.work, args=(mine,), name=f"writer-{number}", daemon=True).start()
        def work(self, mine):
            while True:
                done = mine.get()
                with trace.span("write"): time.sleep(0.004)
                done.set()
        def write(self):
            done = threading.Event()
            self.inbox[0].put(done)  # as a hash of one host would have it
            with trace.span("written"): done.wait()

    tracker, writers = Tracker(), Writers(3)

    def boot():
        with trace.job("boot"), trace.span("boot"):
            tracker.claim(threading.current_thread().name); tracker.look(); writers.write()

    threads = [threading.Thread(target=boot, name=f"boot-{number}") for number in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
QUIET = """
    import threading, time
    from contend import trace
    lock = threading.Lock()
    def boot():
        with trace.job("boot"), trace.span("boot"):
            time.sleep(0.05)
            with lock: pass
            with trace.span("rpc call update", kind="remote", arguments=trace.digest(threading.get_ident())):
                time.sleep(0.05)
    threads = [threading.Thread(target=boot, name=f"boot-{number}") for number in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def hunted(place: Path, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [str(place), "--json", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = data_in(result.stdout)
    jsonschema.validate(document, schema(HuntDocument))
    return document


def test_the_lock_across_the_call_comes_first_then_the_pool_and_what_says_nothing_new(tmp_path: Path) -> None:
    traced(tmp_path, FAULTY, "--no-gil", "--no-gc")
    told = hunted(tmp_path / "t")
    assert told["jobs"]["n"] == 10 and told["alibi"] is None and "--sample" in told["no_alibi"]
    first, *others = told["findings"]
    assert (first["kind"], first["resource"]) == ("lock-across-call", "Tracker.lock")
    assert "rpc call update" in first["sentence"] and first["share"] > 0.4
    assert first["verify"] == f"contend whatif {tmp_path / 't'} --coalesce 'rpc call update=4'"
    assert any("select * from slice where ts = " in row["where"] for row in first["evidence"])
    again = next(finding for finding in others if finding["kind"] == "no-op-call")
    assert again["resource"] == "rpc call update" and again["share"] > 0.2
    assert (
        "20 of 40 calls rpc call update had arguments that were sent before, 20 of them" in again["sentence"]
    )
    assert "Tracker.cache" not in [finding["resource"] for finding in told["findings"][:2]]
    # Every ns of the jobs is somewhere; blame adds up to what was waited for.
    spent = sum(row["ns"] for row in told["time"])
    waited = sum(
        row["ns"] for row in told["time"] if (row["kind"], row["resource"]) == ("lock", "Tracker.lock")
    )
    blamed = sum(row["ns"] for row in told["blame"] if row["lock"] == "Tracker.lock")
    assert abs(waited / blamed - 1) < 0.01 and spent > waited
    page = (tmp_path / "t" / "hunt.html").read_text()
    assert "Tracker.lock" in page and "https://" not in page.split("<script")[0]
    seen = CliRunner().invoke(command, [str(tmp_path / "t"), "--top", "1"], catch_exceptions=False)
    assert " 1 lock-across-call Tracker.lock" in seen.stdout and "→ Let Tracker.lock go before" in seen.stdout


def test_a_program_without_contention_has_no_finding(tmp_path: Path) -> None:
    traced(tmp_path, QUIET)
    told = hunted(tmp_path / "t")
    assert not told["findings"], told["findings"]
    seen = CliRunner().invoke(command, [str(tmp_path / "t")], catch_exceptions=False)
    assert "Nothing found. Looked at: 4 jobs;" in seen.stdout


def test_what_is_no_trace_is_told(tmp_path: Path) -> None:
    def refused(*arguments: str) -> Result:
        return CliRunner().invoke(command, list(arguments))

    for source, words in ((tmp_path / "none", "there is no"), (tmp_path, "neither a trace nor a run")):
        error = refused(str(source)).exception
        assert isinstance(error, BadInput) and words in error.message and error.hint


@pytest.mark.alone
def test_a_program_under_a_quota_waits_for_the_quota_and_not_for_a_neighbour(tmp_path: Path) -> None:
    """Three tenths of a CPU for a thread that wants one: of each second it is held back for up to seven tenths."""
    need(os.geteuid() == 0 and Path("/sys/fs/cgroup").is_dir(), "root, and control groups")
    (tmp_path / "spin.py").write_text(
        "import time\nfrom contend import trace\n"
        "def spin(seconds):\n"
        "    until = time.thread_time() + seconds\n"
        "    while time.thread_time() < until: pass\n"
        "for _ in range(4):\n"
        "    with trace.span('job'): spin(0.15)\n"
    )
    line = [
        sys.executable,
        "-m",
        "contend",
        "trace",
        "--cpu-times",
        "--run-delay",
        "-o",
        str(tmp_path / "trace"),
    ]
    line += ["--", sys.executable, str(tmp_path / "spin.py")]
    with group_of(0.3) as group:

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        subprocess.run(line, check=True, capture_output=True, timeout=120, preexec_fn=enter)
    said = CliRunner().invoke(command, [str(tmp_path / "trace"), "--job", "job", "--json"])
    assert said.exit_code == 0, said.output
    told = data_in(said.stdout)
    jsonschema.validate(told, schema(HuntDocument))
    found = {finding["kind"]: finding for finding in told["findings"]}
    assert told["findings"][0]["kind"] == "throttled", told["findings"]
    held = found["throttled"]
    assert held["share"] > 0.4
    assert f"the CPU quota of 0.3 CPUs in {group}" in held["sentence"]
    assert found.get("cpu", {"share": 0.0})["share"] < 0.2
