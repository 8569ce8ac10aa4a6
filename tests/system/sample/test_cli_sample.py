"""`contend sample` at the real command line: the command is untouched, and how it ended is the answer, whatever
becomes of the recording."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contend.probes.client import probe_check
from support import nobody
from support.command_line import CONTEND, Home, check_files, wait_for
from support.prerequisites import need

SPIN = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
BURN = "import time\nwhile time.process_time() < 0.5: pass"


def the_sample(home: Home) -> Path:
    (found,) = home.runs.glob("sample-*")
    return found


def told(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "sample.json").read_text(encoding="utf-8"))
    return found


def recording(home: Home) -> Path | None:
    """The directory, once its command runs."""
    return next((path.parent for path in home.runs.glob("sample-*/sample.json")), None)


def the_probe(contend_pid: int) -> int:
    """The contend-probe that a contend has started."""
    children = Path(f"/proc/{contend_pid}/task/{contend_pid}/children").read_text(encoding="ascii").split()
    (found,) = (int(p) for p in children if Path(f"/proc/{p}/comm").read_text().startswith("contend-probe"))
    return found


# The command


def test_the_command_keeps_its_streams_and_its_exit_code(contend: Home) -> None:
    said = contend(
        "sample", "-i", "50ms", "--", "sh", "-c", "cat; echo loud >&2; sleep 0.3; exit 3",
        stdin=subprocess.PIPE, timeout=60,
    )  # fmt: skip
    assert said.code == 3
    assert said.out == ""
    assert "loud\n" in said.err
    assert "Top consumers" in said.err
    run = the_sample(contend)
    check_files(run)
    assert told(run)["exit"]["status"] == 3
    assert {p.name for p in run.iterdir()} == {
        "environment.json", "sample.json", "series", "summary.json", "report.html",
    }  # fmt: skip


def test_its_input_is_its_own(contend: Home) -> None:
    with contend.start("sample", "-i", "50ms", "-q", "--", "cat", stdin=subprocess.PIPE) as process:
        out, err = process.communicate("what I say\n", timeout=25)
    assert (process.returncode, out) == (0, "what I say\n"), err


def test_a_signal_that_ends_the_command_is_told_as_the_shell_does(contend: Home) -> None:
    assert contend("sample", "-i", "50ms", "--", "sh", "-c", "kill -SEGV $$").code == 128 + signal.SIGSEGV


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_to_contend_reaches_the_command(contend: Home, number: signal.Signals) -> None:
    script = f"trap 'echo got it; exit 9' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    with contend.start("sample", "-i", "50ms", "--", "sh", "-c", script) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=25)
        except subprocess.TimeoutExpired:
            process.kill()  # and with it its command, rather than wait for both for ever
            raise
    assert (process.returncode, out) == (9, "got it\n"), err
    check_files(the_sample(contend))


def test_what_it_ignores_it_may_ignore_under_us_too(contend: Home) -> None:
    """As under nohup: what is ignored when contend starts stays so."""

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with contend.start(
        "sample", "-i", "50ms", "--", "sh", "-c", "echo ready; sleep 0.5", preexec_fn=ignore
    ) as p:
        p.stdout.readline()
        p.send_signal(signal.SIGHUP)
        p.communicate(timeout=25)
    assert p.returncode == 0


def test_a_broken_pipe_ends_the_command_as_without_us(contend: Home) -> None:
    """Python ignores SIGPIPE; a program started by it must not."""
    line = f"{CONTEND} sample -q -i 50ms -- sh -c 'trap - PIPE; yes; echo $? >&2' | head -1"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=contend.path,
        env=contend.environment(),
        timeout=60,
    )
    assert "write error" not in done.stderr


def test_mistakes_are_said_before_anything_is_made(contend: Home) -> None:
    contend("sample", "-i", "1ms", "--", "true").error(2, "10 ms")
    contend("sample", "-i", "soon", "--", "true").error(2, "soon")
    contend("sample", "--for", "0.5s").error(2, "--for")
    contend("sample", "--off-cpu-stacks", "--", "true").error(2, "needs --sched")
    contend("sample", "--", "frobnicate").error(2, "frobnicate")
    (contend.path / "noexec").write_text("no program")
    (contend.path / "noexec").chmod(0o755)
    contend("sample", "--", "./noexec").error(2, "noexec")
    contend("sample", "-o", ".", "--", "true").error(2, "not empty")
    assert contend.run_directories() == []


# Without a command


def test_for_a_time_without_a_command(contend: Home) -> None:
    said = contend("sample", "-i", "100ms", "--for", "1s", "--json").fine()
    summary = said.json()
    assert summary["recording"]["stopped"] == "the time was over"
    assert 0.8 < (summary["end_ns"] - summary["begin_ns"]) / 1e9 < 20
    assert summary["samples"] >= 3
    assert "\x1b" not in said.err
    assert json.loads((the_sample(contend) / "summary.json").read_text()) == summary


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_in_order(contend: Home, number: signal.Signals) -> None:
    with contend.start("sample", "-i", "50ms") as process:
        wait_for(lambda: recording(contend), "recording")
        time.sleep(0.3)
        process.send_signal(number)
        process.send_signal(number)  # a second one asks for nothing more
        out, err = process.communicate(timeout=25)
    assert process.returncode == 0, err
    assert "Top consumers" in out
    assert told(the_sample(contend))["stopped"] == "interrupted"
    check_files(the_sample(contend))


def test_a_longer_command_goes_on_when_the_time_is_over(contend: Home) -> None:
    said = contend("sample", "-i", "50ms", "--for", "200ms", "--", "sh", "-c", "sleep 1; echo end; exit 5")
    assert (said.code, said.out) == (5, "end\n")
    run = told(the_sample(contend))
    assert run["stopped"] == "the time was over"
    assert run["exit"]["wall_ns"] >= 10**9


def test_on_a_terminal_ctrl_c_reaches_the_command_once(contend: Home) -> None:
    """The terminal sends it to both; passed on as well, it would come twice."""
    script = (
        "trap 'echo got' INT; echo ready; n=0; while [ $n -lt 20 ]; do sleep 0.05; n=$((n+1)); done; exit 6"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(contend.path)
        os.execve(
            CONTEND, [CONTEND, "sample", "-q", "-i", "50ms", "--", "sh", "-c", script], contend.environment()
        )
    seen = bytearray()

    def read() -> None:
        try:
            while data := os.read(terminal, 4096):
                seen.extend(data)
        except OSError:  # the other side of the terminal is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    wait_for(lambda: b"ready" in seen, "ready command")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    reader.join(10)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 6, seen.decode(errors="replace")
    assert seen.count(b"got\r\n") == 1


def test_without_a_command_a_terminal_gets_one_line_that_is_redrawn(contend: Home) -> None:
    leader, follower = pty.openpty()
    with contend.start("sample", "-i", "100ms", "--for", "2500ms", stderr=follower) as process:
        os.close(follower)
        out, _ = process.communicate(timeout=25)
    seen = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert "Top consumers" in out
    assert re.search(r"\r\x1b\[2K \d s  CPU \d\.\d\d/\d+ .* probe \d", seen), seen
    assert "\n" not in seen


# What goes wrong


def test_the_command_outlives_the_probe(contend: Home) -> None:
    with contend.start("sample", "-i", "50ms", "--", "sh", "-c", "sleep 2; echo end; exit 4") as process:
        wait_for(lambda: recording(contend), "recording")
        time.sleep(0.5)
        os.kill(the_probe(process.pid), signal.SIGKILL)
        out, err = process.communicate(timeout=25)
    assert (process.returncode, out) == (4, "end\n")
    assert err.count("warning:") == 1, err
    assert "signal 9" in err
    run = the_sample(contend)
    check_files(run)
    assert "signal 9" in str(told(run)["failed"])
    assert "incomplete" in contend("report", str(run)).fine().out


def test_the_command_outlives_a_full_disk(contend: Home, full_disk: Path) -> None:
    filler = full_disk / "filler"
    script = (
        f"sleep 0.5; dd if=/dev/zero of={filler} bs=64k 2>/dev/null; sleep 1; rm {filler}; echo end; exit 4"
    )
    said = contend("sample", "-i", "10ms", "-o", str(full_disk / "out"), "--", "sh", "-c", script)
    assert (said.code, said.out) == (4, "end\n"), said
    assert "Traceback" not in said.err
    assert said.err.count("warning:") >= 1, said
    assert "No space left" in said.err


def test_killed_outright_it_can_still_be_read(contend: Home) -> None:
    with contend.start("sample", "-i", "50ms", "--", "sh", "-c", "echo $$; exec sleep 30") as process:
        command = int(process.stdout.readline())
        wait_for(lambda: recording(contend), "recording")
        probe = the_probe(process.pid)
        process.kill()
        process.wait()
        os.kill(command, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{probe}").exists(), "end of the probe")
    run = the_sample(contend)
    said = contend("report", str(run)).fine()
    assert "contend was ended before the recording was" in said.out
    contend("destroy", str(run)).fine()


@contextmanager
def as_nobody(*words: str) -> Iterator[tuple[Home, subprocess.CompletedProcess[str]]]:
    """What became of `contend sample` of a user without any rights."""
    need(os.geteuid() == 0 and shutil.which("setpriv"), "only root can become somebody else (setpriv)")
    # Not below pytest's directory: another pytest that begins closes that to everybody else.
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name))
        for path in (home.path, *home.path.rglob("*")):
            os.chown(path, 65534, 65534)
        rights = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]
        done = subprocess.run(
            [*nobody.laid_open(home.path), *rights, CONTEND, "sample", *words],
            capture_output=True, text=True, cwd=home.path, timeout=60,
            env=home.environment(HOME=name),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield home, done


def test_without_root_it_records_what_it_may_and_says_what_is_missing() -> None:
    with as_nobody("-i", "100ms", "--", "sh", "-c", SPIN) as (home, done):
        assert "note:" in done.stderr, done.stderr
        assert " sh" in done.stderr.partition("Top consumers")[2]
        check_files(the_sample(home))


def test_without_bpf_it_is_said_that_there_are_no_stacks() -> None:
    words = ("-i", "50ms", "-o", "out", "--sched", "process", "--off-cpu-stacks", "--", "sleep", "0.3")
    with as_nobody(*words) as (home, done):
        said = "o off-CPU stacks: they need BPF"
        assert said in " ".join(done.stderr.split()), done.stderr
        page = (home.path / "out" / "report.html").read_text(encoding="utf-8")
        assert said in page


# The recording


def test_what_a_process_burned_is_in_the_series(contend: Home) -> None:
    burner = contend.path / "made-burner"
    burner.symlink_to(sys.executable)  # a name of its own: other tests run Python too
    contend("sample", "-i", "50ms", "-o", "out", "--", str(burner), "-S", "-c", BURN).fine()
    query = "select sum(user_ns + system_ns) as used from process_use where name = 'made-burner'"
    used = contend("sql", "out", "--json", query).fine().json()[0]["used"]
    ended = told(contend.path / "out")["exit"]
    spent = ended["user_ns"] + ended["system_ns"]
    # From /proc the last interval of a process that ends is lost; the other sources have it.
    assert 0.8 * spent <= used <= 1.02 * spent


def test_where_a_command_slept_is_in_its_stacks(contend: Home) -> None:
    need(probe_check()["no_bpf"] is None, "BPF")
    sleeper = contend.path / "made-sleeper"
    sleeper.symlink_to(sys.executable)
    said = contend(
        "sample", "-i", "50ms", "-o", "out", "--sched", "process", "--off-cpu-stacks", "--",
        str(sleeper), "-S", "-c", "import time\nfor _ in range(20): time.sleep(0.02)",
    ).fine()  # fmt: skip
    assert re.search(r"Longest off the CPU.*\n.*made-sleeper ×\d+\n.*nanosleep", said.err), said.err
    contend("export", "out", "--to", "folded").fine()
    lines = (contend.path / "out" / "export.folded").read_text(encoding="utf-8").splitlines()
    slept = [int(x.rpartition(" ")[2]) for x in lines if x.startswith("made-sleeper;") and "nanosleep" in x]
    assert 20 * 20_000 <= sum(slept) <= told(contend.path / "out")["exit"]["wall_ns"] / 1000
    assert "sched_stack" in contend("sql", "out", "--json", "show tables").fine().out


def test_every_column_is_documented_and_every_verb_reads_it(contend: Home) -> None:
    from contend.probes.columns import TABLES

    contend("sample", "-i", "50ms", "-o", "out", "--", "sleep", "0.5").fine()
    for table in sorted({p.name.split("-")[0] for p in (contend.path / "out" / "series").iterdir()}):
        columns = contend("sql", "out", "--json", f"describe {table}").fine().json()
        assert {c["column_name"] for c in columns} <= TABLES[table][1].keys(), table
    for form in ("csv", "parquet", "openmetrics", "perfetto", "chrome"):
        target = contend("export", "out", "--to", form).fine().out.strip()
        assert (contend.path / target).exists()
    contend("export", "out", "--to", "junit").error(2, "junit")
    contend("compare", "out", "out").error(2, "no trials")
    contend("run", "--resume", "out").error(2, "no trials")
    assert "contend sample -i 50ms -- sleep 0.5" in contend("list", "runs", "--runs", ".").fine().out
    contend("destroy", "out").fine()
