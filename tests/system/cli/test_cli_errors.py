"""Every mistake is said well: the right exit code, one error, one hint, no traceback, and nothing left behind.

Each test uses its own home; the `contend` fixture proves after each that nothing of it is on the host.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import nobody
from support.answers import data_in
from support.command_line import CONTEND, Home, Said, check_files, rows, wait_for
from support.prerequisites import need

NOTHING_MADE = "a mistake that is found before anything is made leaves no run directory"


# What was asked is wrong: exit 2, and nothing is made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # The commonest ones, with their exact words: tests/golden/cli.
        (["run", "noisy-neighbour", "--set", "measure.blcks=3"], ["blcks", "'blocks'"]),
        (["run", "noisy-neighbour", "--seed", "abc"], ["'abc'", "contend run --help"]),
        (["run", "--resume", "runs/gone"], ["'runs/gone'"]),
        (["run", "noisy-neighbour", "--resume", "."], ["--resume", "SCENARIO"]),
        (["run", "--resume", ".", "--dry-run"], ["it takes no --dry-run", "leave that out"]),
        (["run", "--resume", ".", "--rate", "9", "--keep-output"], ["it takes no --rate or --keep-output"]),
        (["run", "--resume", ".", "--", "true"], ["it takes no -- COMMAND"]),
        (["report", "runs/gone"], ["'runs/gone'"]),
        (["compare", "a", "b"], ["'a'"]),
        (["destroy", "gone"], ["'gone'"]),
        (["validate", "nosy-neighbour"], ["did you mean 'noisy-neighbour'?"]),
        (["validate", "./gone.yaml"], ["gone.yaml"]),
        (["stats", "."], ["directory"]),
        (["ab", "--", "--vs", "true"], ["empty"]),
        (["ab", "--", "true", "--vs", "true", "--vs"], ["empty"]),
        (["ab", "--target", "tiny", "--", "true", "--vs", "true"], ["tiny"]),
        (["ab", "--name", "x", "--", "true", "--vs", "true"], ["names"]),
        (["ab", "--", "echo 'open", "--vs", "true"], ["quot"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_on_the_command_line(contend: Home, words: list[str], said: list[str]) -> None:
    result = contend(*words).error(2, *said)
    assert result.out == ""
    assert contend.run_directories() == [], NOTHING_MADE


def test_a_scenario_that_is_no_scenario(contend: Home) -> None:
    (contend.path / "folder").mkdir()
    (contend.path / "empty.yaml").touch()
    (contend.path / "garbage.yaml").write_bytes(os.urandom(1_000_000))
    (contend.path / "list.yaml").write_text("- 1\n- 2\n")
    (contend.path / "deep.yaml").write_text("[" * 5000)
    (contend.path / "tabs.yaml").write_text("study: interference\n\tvictims: ffmpeg\n")
    os.mkfifo(contend.path / "fifo.yaml")
    for name, word in (
        ("folder", "directory"),
        ("empty.yaml", "study"),
        ("garbage.yaml", "garbage.yaml"),
        ("list.yaml", "list.yaml"),
        ("deep.yaml", "deep.yaml"),
        ("tabs.yaml", "line 2"),
        ("fifo.yaml", "regular file"),
        ("/bin/true", "is a program, not a scenario"),
        ("/dev/zero", "regular file"),
    ):
        contend("run", name, timeout=30).error(2, word)
    assert contend.run_directories() == [], NOTHING_MADE


def test_wrong_csv_files(contend: Home) -> None:
    for name, text, word in (
        ("columns.csv", "a,b\n1,2\n", "columns.csv, line 1"),
        ("empty.csv", "", "empty.csv"),
        ("text.csv", "block,cell,value\n1,a,fast\n1,b,2\n", "line 2"),
        ("infinite.csv", "block,cell,value\n1,a,inf\n1,b,2\n", "line 2"),
        ("alone.csv", "block,cell,value\n1,a,1\n2,a,2\n", "alone.csv"),
        ("binary.csv", "\0\0\0", "binary.csv"),
    ):
        (contend.path / name).write_text(text)
        contend("stats", name).error(2, word)
    header = "block,cell,value\n"
    (contend.path / "few.csv").write_text(header + "1,a,1\n1,b,2\n2,a,1\n2,b,2\n")
    contend("stats", "few.csv").error(5, "no interval")


def test_a_missing_tool_is_found_before_anything_is_made(contend: Home) -> None:
    python = str(Path(sys.executable).parent)
    result = contend("run", "noisy-neighbour", env={"PATH": python}).error(
        2, "ffmpeg", "apt-get install ffmpeg"
    )
    assert "--skip-missing" in result.err
    assert contend.run_directories() == [], NOTHING_MADE


# A tool goes wrong: exit 1, its own last words, nothing left

METRICS = "metrics: {wall: {builtin: wall, unit: s, better: lower}}\ndominant: cpu\ntrial: 100ms\n"
RATE = (
    "metrics: {rate: {from: stdout, pattern: 'rate: (\\S+)', unit: 1/s, better: higher}}\n"
    "dominant: cpu\ntrial: 100ms\n"
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("exits", "run: sh -c 'echo it broke >&2; exit 3'\n" + METRICS, ["exit status 3", "it broke"]),
        ("crashes", "run: sh -c 'kill -SEGV $$'\n" + METRICS, ["signal 11"]),
        ("garbled", "run: echo the rate is fine\n" + RATE, ["rate", "matches nothing"]),
        ("nan", "run: 'echo \"rate: nan\"'\n" + RATE, ["rate", "nan"]),
        ("silent", "run: 'true'\n" + RATE, ["rate"]),
        ("absent", "run: frobnicate --fast\n" + METRICS, ["frobnicate", "contend doctor"]),
        (
            "unprepared",
            "prepare: sh -c 'echo no room >&2; exit 7'\nrun: 'true'\n" + METRICS,
            ["7", "no room"],
        ),
        (
            "unready",
            "serve: {run: sleep 100, ready: {tcp: \"{port}\", timeout: 300ms}}\nrun: 'true'\n" + METRICS,
            ["did not serve within 0.3 s"],
        ),
        (
            "unserving",
            "serve: {run: sh -c 'echo no config >&2; exit 1', ready: {tcp: \"{port}\"}}\nrun: 'true'\n"
            + METRICS,
            ["ended before it served", "no config"],
        ),
    ],
)
def test_a_tool_that_fails(contend: Home, name: str, text: str, said: list[str]) -> None:
    contend.workload(name, f"name: {name}\n{text}")
    result = contend("run", contend.scenario(victim=name), "--json").error(1, *said)
    assert result.out == "", "no half document on stdout"
    run = contend.the_run()
    check_files(run)
    assert all(row["status"] == "failed" for row in rows(run))
    assert str(run) in result.err, "the error says where the run is"


@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        # Long enough to be proven to burn, and gone before the victim is done.
        ("dies", "timeout 1 sh -c 'while :; do :; done'", ["dies ended while the victim ran"]),
        ("leaves", "sh -c 'echo out of memory >&2; exit 9'", ["leaves", "out of memory"]),
        ("sleeps", "sleep 1000", ["does not burn", "burning"]),
    ],
)
def test_a_neighbour_that_is_none(contend: Home, name: str, command: str, said: list[str]) -> None:
    contend.workload(
        name, f"name: {name}\nrun: 'true'\nneighbour: {{run: \"{command}\", burning: 0.05}}\n{METRICS}"
    )
    contend.workload("slow", "name: slow\nrun: sleep 1.5\n" + METRICS)
    victim = "slow" if name == "dies" else "tiny"
    contend("run", contend.scenario(victim=victim, neighbour=name, blocks=1)).error(1, *said)
    assert any(row["status"] == "ok" for row in rows(contend.the_run())), "the trials alone are kept"


def test_a_neighbour_burns_by_its_client_too(contend: Home) -> None:
    serve = '{run: "python3 -m http.server --bind 127.0.0.1 {port}", ready: {tcp: "{port}"}}'
    busy = "{run: \"sh -c 'while :; do :; done'\", burning: 0.1}"
    contend.workload("asks", f"name: asks\nserve: {serve}\nrun: 'true'\nneighbour: {busy}\n{METRICS}")
    contend("run", contend.scenario(neighbour="asks", blocks=1)).fine()
    beside = [row for row in rows(contend.the_run()) if row["neighbours"]]
    assert beside and all(row["neighbours"][0]["during"] > 0.1 for row in beside)


@pytest.mark.parametrize("step", [100_000, 0])
def test_a_neighbour_elsewhere_burns_as_it_counts(contend: Home, step: int) -> None:
    count = f"n=0; while :; do n=$((n+{step})); echo $n >{{out}}/new; mv {{out}}/new {{out}}/moved; sleep 0.05; done"
    neighbour = f"{{run: \"sh -c '{count}'\", burning: 20000, counter: moved}}"
    metrics = METRICS.replace("dominant: cpu", "dominant: disk")
    contend.workload("far", f"name: far\nrun: 'true'\nneighbour: {neighbour}\n{metrics}")
    contend.workload("slow", "name: slow\nrun: sleep 0.5\n" + METRICS)
    said = contend("run", contend.scenario(victim="slow", neighbour="far", blocks=1))
    beside = [row for row in rows(contend.the_run()) if row["neighbours"]]
    if step:
        said.fine()
        (neighbours,) = [row["neighbours"] for row in beside]
        assert 2e5 < neighbours[0]["during"] < 2e6 + step and neighbours[0]["unit"] == "B/s"
    else:
        said.error(1, "far does not burn")
        assert beside == []


def test_commands_of_ab_that_fail_or_never_end(contend: Home) -> None:
    few = ("--blocks", "2", "--target", "none")
    contend("ab", *few, "--", "false", "--vs", "true").error(1, "exit status 1: false")
    never = contend("ab", *few, "--timeout", "300ms", "--", "sleep 1000", "--vs", "true")
    never.error(1, "did not end within 0.3 s", "--timeout")
    spoken = contend("ab", *few, "--prepare", "echo no >&2; exit 4", "--", "true", "--vs", "true")
    spoken.error(1, "exit status 4", "it said: no")


# The data cannot say: exit 0 for a run with some interval, 3 without any, 5 for whoever wants a verdict


@pytest.mark.parametrize("budget", ["0s", "1s"])
def test_a_budget_that_is_too_small_is_said_honestly(contend: Home, budget: str) -> None:
    result = contend("run", contend.scenario(blocks=6), "--budget", budget, "--json").no_traceback()
    result.error(2, "too short for an answer", "--budget")
    assert not contend.run_directories()
    words = ("run", contend.scenario(blocks=6), "--budget", budget, "--dry-run")
    contend(*words).error(2, "too short for an answer")
    assert contend(*words, "--json").error(2, "too short for an answer").out == ""


def test_a_budget_that_a_command_overran_is_said_honestly(contend: Home) -> None:
    result = contend("ab", "--budget", "6s", "--json", "--", "sleep 2", "--vs", "true").no_traceback()
    assert result.code == 3
    assert "the budget has no room for an answer: preparing took" in result.err
    assert "hint: contend run --resume" in result.err
    analysis = result.json()
    assert "too few" in analysis["answer"]
    assert analysis["design"]["stopped"] == "budget spent"
    assert contend("report", str(contend.the_run())).fine().out
    # The first trials tell how long a block takes, and so which budget would do.
    assert re.search(r"--resume \S+ --budget \d+[sm]", result.err)


def test_comparing_what_cannot_be_compared(contend: Home, shared_run: tuple[Home, Path]) -> None:
    _, first = shared_run
    contend("run", contend.scenario(blocks=1)).fine()
    second = contend.the_run()
    undecided = contend("compare", str(first), str(second), "--fail-above", "5%")
    undecided.error(5, "undecided")
    contend("ab", "--blocks", "1", "--target", "none", "--", "true", "--vs", "true").fine()
    other = next(path for path in contend.run_directories() if path != second)
    contend("compare", str(first), str(other)).error(2)
    contend("compare", str(first), str(second), "--fail-above", "much").error(2, "much")


def test_wrong_sql(shared_run: tuple[Home, Path]) -> None:
    home, run = shared_run
    home("sql", str(run), "selct 1").error(2, "selct", "tables: trials")
    home("sql", str(run), "select nope from trials").error(2, "nope")
    home("export", str(run), "--to", "pdf").error(2, "'pdf'")
    home("export", str(run), "--to", "csv", "-o", "/proc/nope.csv").error(1)


# Resuming what cannot be resumed


@pytest.mark.one_of("strays")
def test_a_run_in_use_is_left_alone(contend: Home) -> None:
    contend.workload("slow", "name: slow\nrun: sleep 30\n" + METRICS)
    with contend.start("run", contend.scenario(victim="slow")) as process:
        wait_for(lambda: list(contend.runs.glob("*/work/trials")), "first trial")
        run = str(contend.the_run())
        contend("run", "--resume", run).error(1, "in use")
        contend("destroy", run).error(1, "alive", "--force")
        spared = contend("destroy", "--all").fine()
        assert "still running" in spared.out
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 3


def test_a_run_whose_plan_has_changed_is_not_resumed(contend: Home) -> None:
    contend("run", contend.scenario()).fine()
    run = contend.the_run()
    text = (run / "scenario.yaml").read_text()
    (run / "scenario.yaml").write_text(text.replace("burner", "tiny"))
    before = (run / "trials.ndjson").read_bytes()
    contend("run", "--resume", str(run)).error(2, "can not be made again", "start a new run")
    assert (run / "trials.ndjson").read_bytes() == before


# The surroundings are poor


def fill(place: Path) -> None:
    """Leave no byte."""
    with (place / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass


def test_a_full_disk(contend: Home, full_disk: Path) -> None:
    runs = full_disk / "runs"
    with contend.start("run", contend.scenario(blocks=400), "--runs", str(runs)) as process:
        wait_for(lambda: any(len(rows(run)) > 3 for run in runs.glob("*")), "four trials")
        fill(full_disk)
        out, err = process.communicate(timeout=120)
    Said(process.returncode, out, err).error(1, "No space left on device", "free some space")
    (run,) = runs.iterdir()
    check_files(run)
    assert len(rows(run)) > 3
    contend.nothing_left()
    shutil.rmtree(run)
    (full_disk / "filler").unlink()
    never_began = contend("run", contend.scenario(blocks=9000), "--runs", str(runs))
    never_began.error(1, "No space left on device", "--runs DIR")
    assert list(runs.iterdir()) == []


@pytest.mark.needs(Path("/dev/full").exists(), "no /dev/full")
def test_an_output_that_is_full(contend: Home) -> None:
    with Path("/dev/full").open("w") as full:
        contend("list", stdout=full).error(1, "No space left on device")
        contend("list", "--json", stdout=full).error(1, "No space left on device")


def test_a_place_for_runs_that_cannot_be_written(contend: Home) -> None:
    (contend.path / "file").touch()
    contend("run", contend.scenario(), "--runs", "file").error(2, "file")
    contend("run", contend.scenario(), "--runs", "/proc/runs").error(1, "/proc/runs", "--runs DIR")
    contend("run", contend.scenario(), "--runs", "/sys/kernel/runs").error(1, "/sys/kernel/runs")


@pytest.fixture
def nobodys() -> Iterator[Home]:
    """Not below pytest's directory: another pytest that begins closes that to everybody else."""
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name))
        yield home
        home.nothing_left()


def _as_nobody(contend: Home) -> tuple[list[str], dict[str, str | None]]:
    need(os.geteuid() == 0 and shutil.which("setpriv"), "becoming another user needs root and setpriv")
    for path in (contend.path, *contend.path.rglob("*")):
        os.chown(path, 65534, 65534)
    who = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    return [*nobody.laid_open(contend.path), *who, CONTEND], {"HOME": str(contend.path)}


def _run_as_nobody(contend: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    words, changes = _as_nobody(contend)
    env = contend.environment(**changes)
    return subprocess.run([*words, *arguments], env=env, capture_output=True, text=True, cwd=contend.path)


def test_without_root_it_works_by_affinity_and_says_so(nobodys: Home) -> None:
    done = _run_as_nobody(nobodys, "run", nobodys.scenario(blocks=1), "--json")
    assert done.returncode == 0, done.stderr
    data_in(done.stdout)
    run = nobodys.the_run()
    check_files(run)
    mechanisms = {row["honoured"]["mechanism"] for row in rows(run)}
    assert mechanisms <= {"affinity only", "systemd user scope", "cgroup v2"}, mechanisms
    if not os.access("/sys/fs/cgroup/cgroup.procs", os.W_OK):
        assert mechanisms == {"affinity only"}
    ledger = (run / "ledger.ndjson").read_text()
    assert '"root": false' in (run / "environment.json").read_text()
    assert '"platform"' in ledger


def test_without_root_what_needs_it_is_refused_first(nobodys: Home) -> None:
    done = _run_as_nobody(nobodys, "run", "noisy-neighbour", "--set", "victims=iperf3", "--skip-missing")
    assert done.returncode == 2, done.stderr
    assert "root" in done.stderr
    assert nobodys.run_directories() == [], NOTHING_MADE


def test_an_unreadable_file(nobodys: Home) -> None:
    name = nobodys.scenario()
    (nobodys.path / name).chmod(0)
    words, changes = _as_nobody(nobodys)
    os.chown(nobodys.path / name, 0, 0)
    env = nobodys.environment(**changes)
    done = subprocess.run([*words, "run", name], env=env, capture_output=True, text=True, cwd=nobodys.path)
    assert done.returncode == 2, done.stderr
    assert "Permission denied" in done.stderr
    assert done.stderr.count("error:") == 1


# Streams


def test_a_reader_that_goes_away(contend: Home, shared_run: tuple[Home, Path]) -> None:
    home, run = shared_run
    line = f"{CONTEND} sql {run} 'select * from range(20000)' | head -1; {CONTEND} list | head -1"
    line += f"; {CONTEND} report {run} | true"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=home.environment())
    assert done.returncode == 0
    assert done.stderr == ""
    words = ["bash", "-o", "pipefail", "-c", f"{CONTEND} list workloads | head -1"]
    assert subprocess.run(words, capture_output=True, env=home.environment()).returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>&1 | head -0"])
def test_closed_streams_do_not_end_a_run(contend: Home, closed: str) -> None:
    line = f"{CONTEND} run {contend.scenario(blocks=1)} {closed}"
    done = subprocess.run(
        line, shell=True, capture_output=True, text=True, cwd=contend.path, env=contend.environment()
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 0, done
    run = contend.the_run()
    check_files(run)
    assert (run / "report.html").exists()


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "xx_YY", "TERM": "dumb"},
    ],
    ids=["ascii", "C", "unknown and dumb"],
)
def test_unusual_locales_and_terminals(contend: Home, env: dict[str, str | None]) -> None:
    path = contend.path / contend.scenario(blocks=1)
    path.write_text(path.read_text() + "title: Größe – 大きさ ≥ 1 µs?\n", encoding="utf-8")
    contend("run", path.name, "--runs", "runs", env=env).fine()
    run = contend.the_run()
    check_files(run)
    contend("list", "scenarios", env=env).fine()
    contend("run", "größer", env=env).error(2)
