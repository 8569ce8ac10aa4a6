"""kill -9 at any moment, and Ctrl-C at several: nothing is left, nothing finished is lost or run again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Home, check_files, rows, wait_for
from support.kills import duration, fresh_seed, kill_and_recover, moments, whole_lines, write_scenario
from support.prerequisites import need

# `contend destroy --all` would take what another test's killed run has left.
pytestmark = pytest.mark.one_of("strays")


def test_killed_at_random_moments_it_loses_nothing(tmp_path: Path) -> None:
    """Four moments here; a hundred in tests/accept."""
    seed = fresh_seed()
    whole_s = duration(Home(tmp_path / "undisturbed"), "bare")
    for number, moment in enumerate(moments(seed, 4, whole_s)):
        life = kill_and_recover(Home(tmp_path / f"{number}"), "bare", moment)
        assert life.recovered, f"CONTEND_TEST_SEED={seed}: {life}"


# Ctrl-C

LONG = """\
study: interference
victims: [tiny]
neighbours: [burner]
measure: {target: null, blocks: 400, pilot: 1, seed: 7}
"""


def start(home: Home, **options: Any) -> Any:
    (home.path / "long.yaml").write_text(LONG, encoding="utf-8")
    return home.start("run", "long.yaml", **options)


def finished_block(home: Home) -> bool:
    """Whether a whole counted block is behind it."""
    return any(
        row["phase"] == "counted" and row["block"] >= 1 for run in home.run_directories() for row in rows(run)
    )


def ended(home: Home, process: Any) -> tuple[str, str]:
    """It ends soon, with exit code 3 and the way to go on, and leaves nothing."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "Traceback" not in out + err
    home.nothing_left()
    return out, err


def finish(home: Home) -> None:
    """Resume with what is left of a shorter plan's blocks: here the run is resumed for a moment, then ended."""
    run = home.the_run()
    before = whole_lines(run / "trials.ndjson")
    with home.start("run", "--resume", str(run)) as process:
        wait_for(lambda: len(whole_lines(run / "trials.ndjson")) > len(before) + 2, "resumed trial")
        process.send_signal(signal.SIGINT)
        ended(home, process)
    check_files(run)
    assert whole_lines(run / "trials.ndjson")[: len(before)] == before, "finished rows are never touched"
    finished = [row["trial"] for row in rows(run) if row["status"] == "ok"]
    assert len(finished) == len(set(finished)), "no finished trial is run again"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_an_interrupt_keeps_what_is_finished(contend: Home, number: signal.Signals) -> None:
    with start(contend) as process:
        wait_for(lambda: finished_block(contend), "finished block")
        process.send_signal(number)
        _, err = ended(contend, process)
    assert "incomplete: interrupted" in err
    assert "contend run --resume runs/long-" in err
    check_files(contend.the_run())
    assert (contend.the_run() / "report.html").exists()
    if number == signal.SIGINT:
        finish(contend)


def test_a_second_ctrl_c_does_not_stop_the_tear_down(contend: Home) -> None:
    with start(contend) as process:
        wait_for(lambda: finished_block(contend), "finished block")
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
            if process.poll() is not None:
                break
        process.communicate(timeout=60)
    contend.nothing_left()
    assert process.returncode == 3
    check_files(contend.the_run())


@pytest.mark.parametrize("name", ["container podman", "container runc", "network pair"])
def test_ctrl_c_of_a_terminal_meets_the_programs_too(contend: Home, name: str) -> None:
    """A terminal signals the whole foreground group: `podman` and `ip` die of it, and it is an interrupt still."""
    need(os.geteuid() == 0, "network namespaces and containers need root")
    need(shutil.which(name.split()[-1]) or name == "network pair", name)
    chance = random.Random(fresh_seed())
    with contend.start("run", write_scenario(contend, name)) as process:
        wait_for(lambda: list(contend.runs.glob("*/ledger.ndjson")), "ledger")
        time.sleep(chance.random() * 3)
        for _ in range(3):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(chance.random() * 0.1)
        _, err = process.communicate(timeout=60)
    contend.nothing_left()
    assert process.returncode == 3, err
    assert "Traceback" not in err


def test_ctrl_c_while_preparing(contend: Home) -> None:
    contend.workload(
        "slowly",
        "name: slowly\nprepare: sleep 100\nrun: 'true'\n"
        "metrics: {wall: {builtin: wall, unit: s, better: lower}}\ndominant: cpu\ntrial: 100ms\n",
    )
    with contend.start("run", contend.scenario(victim="slowly")) as process:
        wait_for(lambda: list(contend.runs.glob("*/work/*/prepare-0.out")), "preparation")
        process.send_signal(signal.SIGINT)
        _, err = ended(contend, process)
    assert "contend run --resume" in err
    assert rows(contend.the_run()) == []


def test_ctrl_c_at_any_moment_of_the_start(contend: Home) -> None:
    """From the first instruction on: either nothing was made, or what was made is gone again."""
    for delay_ms in (50, 200, 300, 400, 600):
        with start(contend) as process:
            time.sleep(delay_ms / 1000)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        # Before Python has set its handler, Ctrl-C ends any Python program by the signal itself.
        assert process.returncode in (3, 1, -signal.SIGINT), process.returncode
        contend.nothing_left()
        for run in contend.run_directories():
            check_files(run)


def test_what_nohup_ignores_stays_ignored(contend: Home) -> None:
    path = contend.path / contend.scenario(blocks=2)
    process = contend.start("run", path.name, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    with process:
        wait_for(lambda: list(contend.runs.glob("*/work/trials")), "first trial")
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_destroy_leaves_nothing_of_a_killed_run(contend: Home) -> None:
    with start(contend, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: finished_block(contend), "finished block")
        process.kill()
        process.wait()
    run = contend.the_run()
    with (run / "trials.ndjson").open("a") as file:
        file.write('{"trial": 99, "half a li')  # as a crash in a write leaves it
    said = contend("destroy", str(run)).fine()
    assert "removed" in said.out
    contend.nothing_left()
    assert contend("sql", str(run), "select count(*) as n from trials", "--csv").fine().out.startswith("n\n")
    assert "nothing was left behind" in contend("destroy", str(run)).fine().out
    finish(contend)


def test_two_runs_at_once_do_not_meet(contend: Home) -> None:
    """The same scenario, started in the same second in two places: each removes its own things only."""
    scenario = contend.scenario(blocks=2)
    both = [contend.start("run", scenario, "--runs", place) for place in ("here", "there")]
    for process in both:
        with process:
            _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    ids = [path.name for place in ("here", "there") for path in (contend.path / place).iterdir()]
    assert len(set(ids)) == 2
    for place in ("here", "there"):
        (run,) = (contend.path / place).iterdir()
        check_files(run)
        assert all(row["status"] == "ok" for row in rows(run))


def test_a_run_that_is_destroyed_while_it_goes_on_ends_in_order(contend: Home) -> None:
    with start(contend) as process:
        wait_for(lambda: finished_block(contend), "finished block")
        run = contend.the_run()
        assert "removed" in contend("destroy", str(run), "--force").fine().out
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert err.count("error: ") == 1
    assert "contend run --resume" in err
    contend.nothing_left()
    finish(contend)


def test_a_run_directory_that_is_deleted_meanwhile(contend: Home) -> None:
    with start(contend) as process:
        wait_for(lambda: finished_block(contend), "finished block")
        groups = [p.name for p in Path("/sys/fs/cgroup").glob(f"**/contend.{contend.the_run().name}")]
        shutil.rmtree(contend.the_run(), ignore_errors=True)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert not [p for name in groups for p in Path("/sys/fs/cgroup").glob(f"**/{name}")]


LOADING = """
from contend.interrupts import Interrupts
from contend.engine.run import _load_engine
import time
with Interrupts() as interrupts:
    try:
        print("now", flush=True)
        _load_engine(interrupts)
        time.sleep(30)
    except KeyboardInterrupt:
        print("interrupted")
import duckdb
"""


def test_an_interrupt_amid_the_import_of_an_extension_is_one_all_the_same() -> None:
    """Where it met the import itself, one in twenty aborted the process, and two made an ImportError."""
    chance = random.Random(fresh_seed())
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", LOADING], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.random() * 0.1)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=30)
        assert (said, process.returncode) == ("interrupted\n", 0)
