"""`contend watch` on this host: the kernel's own figures, planted culprits, and the command as a user types it."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.contention.watch import Watch
from contend.interrupts import Interrupts
from contend.probes.client import ProbeProcess
from contend.report.watch_document import WatchDocument
from contend.text.shape import schema
from support import planted
from support.answers import data_in
from support.command_line import CONTEND, Home, wait_for
from support.prerequisites import need, need_blame

# Loads of most weight take a CPU from whoever runs beside them.
pytestmark = pytest.mark.alone
BURN = "while True: pass"
NAP = "import time\nwhile True:\n sum(range(3000)); time.sleep(0.001)"


@pytest.fixture(autouse=True)
def _blame() -> None:
    """Without BPF there is nothing to test but the weaker watch, whose test does not use it."""
    need_blame()


def weigh(pid: int) -> None:
    """With most weight, what else wants its CPU gets little; where sessions are autogroups (sched(7)), as a session."""
    os.setpriority(os.PRIO_PROCESS, pid, -20)
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text("-20")


@contextmanager
def running(*programs: str, cpu: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """On one CPU, and there before others of this host, when a CPU is named."""
    started = []
    try:
        for program in programs:
            started.append(
                subprocess.Popen([sys.executable, "-c", program], start_new_session=cpu is not None)
            )
            if cpu is not None:
                os.sched_setaffinity(started[-1].pid, {cpu})
                weigh(started[-1].pid)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def scheduled(pid: int) -> tuple[int, int]:
    """CPU time and run delay, ns, of all threads that live."""
    figures = [
        tuple(map(int, (task / "schedstat").read_text(encoding="ascii").split()))
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(f[0] for f in figures), sum(f[1] for f in figures)


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"


def sums(table: Any, *keys: str) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    cpu = table["resource"] == "cpu"
    columns = [table[key][cpu].tolist() for key in (*keys, "wait_ns")]
    for *key, ns in zip(*columns, strict=True):
        found[tuple(key)] += ns
    return found


def test_rows_sum_to_the_waits_and_these_are_the_kernels_own_run_delay() -> None:
    probe = ProbeProcess({"interval_ms": 300, "blame": {"by": "process", "disk": True}})
    with running(BURN, BURN, BURN, NAP, NAP) as processes:
        time.sleep(2)
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        # Then it waits no more: its figures stand still.
        wait_for(lambda: all(stopped(process.pid) for process in processes), "stop")
        kernel = {process.pid: scheduled(process.pid) for process in processes}
        tables = probe.stop().tables
    rows, totals = sums(tables["blame"], "victim"), sums(tables["blame_total"], "victim")
    assert rows == totals
    by_pid: Counter[int] = Counter()
    for (victim,), ns in totals.items():
        by_pid[int(victim.rpartition(":")[2])] += ns
    for pid, (_, delay) in kernel.items():
        assert delay > 10_000_000, "it waited at all"
        assert by_pid[pid] == pytest.approx(delay, rel=0.01)


def test_a_burner_is_charged_with_the_time_it_ran_while_its_victim_wanted_the_cpu() -> None:
    """Both always want the same CPU: whenever the burner runs, the victim waits, and the other way round."""
    cpu = sorted(os.sched_getaffinity(0))[-1]
    with planted.workers(2) as made:
        for number in (0, 1):
            made.order(number, cpu, 1.0, 0.5)
        time.sleep(0.2)

        def ran() -> list[int]:
            return [scheduled(process.pid)[0] for process in made.processes]

        earlier = ran()
        probe = ProbeProcess({"interval_ms": 200, "blame": {"by": "cgroup"}})
        before = ran()
        time.sleep(2)
        after = ran()
        for process in made.processes:  # a wait is charged when it ends
            process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: all(stopped(process.pid) for process in made.processes), "stop")
            pairs = sums(probe.stop().tables["blame"], "victim", "culprit")
            later = ran()
        finally:
            for process in made.processes:
                process.send_signal(signal.SIGCONT)
        for victim, culprit in ((0, 1), (1, 0)):
            charged = pairs[made.name(victim), made.name(culprit)]
            least, most = after[culprit] - before[culprit], later[culprit] - earlier[culprit]
            assert 0.95 * least <= charged <= 1.05 * most


READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 65536)
while True:
    for at in range(0, 8 << 20, 65536):
        os.preadv(fd, [page], at)
"""


def in_queue_ms() -> int:
    """Time of all requests of all disks, from start to end (kernel: Documentation/admin-guide/iostats.rst)."""
    rows = [line.split() for line in Path("/proc/diskstats").read_text(encoding="ascii").splitlines()]
    whole = [row for row in rows if Path("/sys/block", row[2]).exists()]
    return sum(int(row[n]) for row in whole for n in (6, 10, 17, 19) if n < len(row))


@pytest.mark.alone  # the kernel counts requests of others that merge as one
def test_waits_and_service_of_disk_requests_sum_to_the_time_they_took(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(os.urandom(8 << 20))
    os.sync()
    try:
        os.close(os.open(data, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        need(False, "a file system with direct I/O for the tests' files")
    earlier = in_queue_ms()
    probe = ProbeProcess({"interval_ms": 200, "blame": {"by": "process", "disk": True}})
    before = in_queue_ms()
    readers = [subprocess.Popen([sys.executable, "-c", READER, data]) for _ in range(3)]
    try:
        time.sleep(2)
        deadline = time.monotonic() + 30  # of a busy host
        while in_queue_ms() - before <= 400 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    took_ms = in_queue_ms() - before
    tables = probe.stop().tables
    # What others read and wrote while the probe began and ended may be in or not; the kernel counts it when it is done.
    os.sync()
    around_ms = in_queue_ms() - earlier
    disk = tables["blame_total"]["resource"] == "disk"
    told_ns = sum(int(tables["blame_total"][c][disk].sum()) for c in ("wait_ns", "used_ns"))
    need(took_ms > 200, "a disk that the kernel keeps statistics of, below the tests' files")
    assert 0.9 * took_ms <= told_ns / 1e6 <= 1.1 * around_ms
    names = [f":{reader.pid}" for reader in readers]
    pairs = zip(*(tables["blame"][c].tolist() for c in ("resource", "victim", "culprit")), strict=True)
    met = {(v, c) for r, v, c in pairs if r == "disk" and v != c}
    assert any(v.endswith(names[0]) and c.endswith(names[1]) for v, c in met)


def test_a_planted_culprit_is_named_first_among_twenty_groups() -> None:
    """Three draws of the campaign in tests/accept."""
    with planted.workers() as made:
        draws = [planted.draw(made, random.Random(seed)) for seed in (1, 2, 3)]
    assert sum(draw.right for draw in draws) >= 2, draws


def test_the_command_accuses_with_exit_4_and_tells_machines_and_scrapers(contend: Home) -> None:
    metrics = contend.path / "watch.prom"
    with running(BURN, BURN, cpu=sorted(os.sched_getaffinity(0))[0]) as (victim, burner):
        asked = ["watch", str(victim.pid), "--by", "process", "--for", "3s", "-i", "200ms", "--alert", "20%"]
        said = contend(*asked, "--json", "--openmetrics", metrics, "-o", contend.path / "seen")
    document = said.fine(4).json()
    jsonschema.validate(document, schema(WatchDocument))
    assert document["alert"]["verdict"] == "crossed"
    [row] = document["resources"]["cpu"]["victims"]
    charged = {c["name"].rpartition(":")[2]: c["wait_ns"] for c in row["culprits"]}
    assert charged[str(burner.pid)] > 0.1 * row["wait_ns"]
    assert f'victim="{row["name"]}"' in metrics.read_text(encoding="utf-8")
    assert "<h1" in (contend.path / "seen/report.html").read_text(encoding="utf-8")
    again = contend("report", "seen", "--json").fine().json()
    assert again == document, "the rows say what was said"
    query = f"select sum(wait_ns)::BIGINT ns from blame where resource = 'cpu' and victim = '{row['name']}'"
    assert contend("sql", "seen", "--json", query).fine().json() == [{"ns": row["wait_ns"]}]
    contend("watch", str(os.getpid()), "-o", contend.path / "seen").error(2, "not empty")
    contend("export", "seen", "--to", "csv").fine()
    assert (contend.path / "seen/export/blame.csv").read_text(encoding="utf-8").startswith("t_ns,resource,")
    contend("export", "seen", "--to", "openmetrics").error(2, "watch")
    contend("compare", "seen", "seen").error(2, "contend watch")
    assert "--alert" in contend("list", "runs", "--runs", ".").fine().out
    assert [p.name for p in contend.path.iterdir() if p.name.startswith(".watch.prom")] == []


def test_ctrl_c_ends_with_the_summary(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [CONTEND, "watch", "-i", "100ms"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "the probe itself used" in out
    assert "Traceback" not in err


def test_without_bpf_it_says_correlation_and_gives_no_verdict(contend: Home) -> None:
    with running(BURN, BURN, cpu=sorted(os.sched_getaffinity(0))[0]) as (victim, _):
        asked = ["watch", str(victim.pid), "--by", "process", "--for", "2s", "-i", "200ms", "--no-bpf"]
        document = contend(*asked, "--alert", "5%", "--json").no_traceback()
    assert document.code == 5, document
    assert document.json()["kind"] == "correlation"
    assert "correlation" in document.json()["note"]


def test_killed_outright_it_can_still_be_read(contend: Home) -> None:
    """What was not written yet is lost, and what the watch cost; that it was killed is said."""
    with contend.start("watch", "-i", "100ms", "-o", "seen", "--json") as process:
        for _ in range(3):
            process.stderr.readline()
        process.kill()
        process.wait()
    said = contend("report", "seen").fine()
    assert "contend was ended before the watch was" in " ".join(said.out.split())
    assert (contend.path / "seen/report.html").exists()


def test_a_full_disk_ends_the_recording_and_not_the_watch(contend: Home, full_disk: Path) -> None:
    place = full_disk / "seen"
    with contend.start("watch", "-i", "100ms", "--for", "3s", "-o", str(place), "--json") as process:
        process.stderr.readline()
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={full_disk / 'filler'}", "bs=64k"],
            stderr=subprocess.DEVNULL,
            check=False,
        )
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the recording ends here" in err
    assert "No space left" in err
    assert "Traceback" not in err
    assert data_in(out)["kind"] == "blame", "the answer comes all the same"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["-i", "1ms"], "too short"),
        (["--for", "0.1s"], "shorter than one interval"),
        (["--alert", "120%"], "not between"),
    ],
)
def test_bad_values_are_said_before_anything_starts(contend: Home, words: list[str], what: str) -> None:
    contend("watch", *words).error(2, what)


def test_a_watch_ends_by_itself_and_its_periods_follow_each_other() -> None:
    watch = Watch("process", 100_000_000)
    with Interrupts() as interrupts:
        periods = list(watch.periods(interrupts, 0.5))
    watch.stop()
    assert periods
    assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(periods))
