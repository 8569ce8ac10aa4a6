"""What imported runs may say: levels of runs, and no ratio that the order in which they were made does not allow."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from contend.cli.common import load_report
from contend.document import Analysis
from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.store.directory import RunDirectory
from support import foreign_files as made


def imported(place: Path, *contents: Any) -> RunDirectory:
    paths = [made.write(place / "files" / f"{n:03d}", content) for n, content in enumerate(contents)]
    return write_run(read_files(paths), place / "runs", "")


def analysed(place: Path, *contents: Any) -> Analysis:
    return load_report(imported(place, *contents)).analysis


def estimates(analysis: Analysis) -> dict[str, tuple[int, str]]:
    assert analysis.result is not None
    return {
        f"{' '.join(level.factors.values())} {level.metric.name}": (
            level.level.estimate.n,
            level.level.estimate.verdict,
        )
        for level in analysis.result.levels
    }


def test_six_runs_give_an_interval_and_five_do_not(tmp_path: Path) -> None:
    five = analysed(tmp_path / "5", *(made.fio(1000.0 + n) for n in range(5)))
    assert estimates(five)["randread read_iops"] == (5, "too few")
    assert "an interval needs 6" in five.answer
    six = analysed(tmp_path / "6", *(made.fio(1000.0 + n) for n in range(6)))
    assert estimates(six)["randread read_iops"] == (6, "level")
    assert six.result is not None
    level = six.result.levels[0].level
    assert (level.estimate.value, level.estimate.low, level.estimate.high) == (1002.5, 1000.0, 1005.0)
    assert "[1 kIOPS, 1 kIOPS], the median of 6 runs" in six.answer


@pytest.mark.parametrize(
    ("content", "runs"),
    [
        (made.iperf3(), 1),  # ten intervals
        (made.jmeter([100] * 500), 1),
        (made.k6_table([100.0] * 500), 1),
        (made.pgbench(), 1),  # with -P
        (made.rally_old([10.0] * 64), 1),  # one storm
        (made.rally_report([[10.0] * 64] * 3), 3),
        (made.hyperfine({"ls": [1.0] * 10}), 10),  # processes of their own
    ],
)
def test_samples_inside_a_run_are_no_replicates(tmp_path: Path, content: Any, runs: int) -> None:
    analysis = analysed(tmp_path, content)
    assert {n for n, _ in estimates(analysis).values()} == {runs}


def test_commands_one_after_the_other_have_levels_and_no_ratio(tmp_path: Path) -> None:
    times = [1.0 + n / 1000 for n in range(10)]
    analysis = analysed(tmp_path, made.hyperfine({"A": times, "B": [2 * t for t in times]}))
    assert estimates(analysis) == {"A wall": (10, "level"), "B wall": (10, "level")}
    (cell,) = analysis.cells
    assert cell.estimate.verdict == "refused"
    assert math.isnan(cell.estimate.value)
    assert "block order" in cell.estimate.warnings[0]
    assert "contend ab" in cell.estimate.warnings[0]
    assert analysis.result is not None
    assert analysis.result.refused == cell.estimate.warnings


def turns(blocks: int, ratio: float, seed: int = 1) -> list[Any]:
    """fio at two block sizes in random order within blocks, a minute apart."""
    shuffled, files = random.Random(seed), []
    for block in range(blocks):
        pair = [("4k", 1000.0), ("8k", 1000.0 * ratio)]
        shuffled.shuffle(pair)
        for turn, (size, iops) in enumerate(pair):
            noise = 1 + 0.002 * shuffled.random()
            files.append(made.fio(iops * noise, at=made.NOON + 60 * (2 * block + turn), bs=size))
    shuffled.shuffle(files)  # the order of the files says nothing: the stamps do
    return files


def test_stamps_that_take_turns_allow_a_ratio(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, *turns(10, 1.5))
    (cell,) = [c for c in analysis.cells if c.metric.name == "read_iops"]
    ratio = cell.estimate.value if cell.baseline.estimate.value < 1100 else 1 / cell.estimate.value
    assert ratio == pytest.approx(1.5, rel=0.01)
    assert cell.estimate.n == 10
    assert cell.estimate.verdict in ("higher", "lower")
    assert not cell.estimate.warnings
    assert analysis.result is not None
    assert analysis.result.refused == ()
    better = "is better than bs=4k: it has 1.500× the read_iops"
    assert better in analysis.answer or "is worse than bs=8k: it has 0.667× the" in analysis.answer
    assert any("differ in bs" in note for note in analysis.result.notes)


def test_turns_that_were_never_randomised_are_told(tmp_path: Path) -> None:
    files = [made.fio(1000.0 + n, at=made.NOON + 60 * n, bs="4k" if n % 2 == 0 else "8k") for n in range(20)]
    (cell,) = [c for c in analysed(tmp_path, *files).cells if c.metric.name == "read_iops"]
    assert any("never randomised" in warning for warning in cell.estimate.warnings)


def test_stamps_in_block_order_allow_no_ratio(tmp_path: Path) -> None:
    files = [made.fio(1000.0 + n, at=made.NOON + 60 * n, bs="4k" if n < 10 else "8k") for n in range(20)]
    analysis = analysed(tmp_path, *files)
    assert {c.estimate.verdict for c in analysis.cells} == {"refused"}
    assert "did not take turns" in analysis.cells[0].estimate.warnings[0]


def test_runs_at_the_same_time_are_neighbours(tmp_path: Path) -> None:
    files = [made.fio(1000.0 + n, at=made.NOON + 5 * n, bs="4k" if n % 2 == 0 else "8k") for n in range(20)]
    analysis = analysed(tmp_path, *files)
    assert {c.estimate.verdict for c in analysis.cells} == {"refused"}
    assert "overlapped in time" in analysis.cells[0].estimate.warnings[0]


def test_other_settings_without_stamps_are_cells_without_a_ratio(tmp_path: Path) -> None:
    files = [made.pgbench(1000.0 + n, clients=4 if n < 6 else 8) for n in range(12)]
    analysis = analysed(tmp_path, *files)
    told = estimates(analysis)
    assert told["TPC-B (sort of) number of clients=4 tps"] == (6, "level")
    assert told["TPC-B (sort of) number of clients=8 tps"] == (6, "level")
    assert "does not say when" in analysis.cells[0].estimate.warnings[0]
    assert analysis.result is not None
    assert "differ in number of clients (4, 8)" in analysis.result.notes[-1]
    assert "number of clients" not in analysis.result.settings


def test_labels_of_one_file_are_never_compared(tmp_path: Path) -> None:
    """They ran in one test, beside or after each other."""
    both = made.jmeter([10] * 20, label="login") + made.jmeter([20] * 20, label="pay").split("\n", 1)[1]
    more = made.jmeter([11] * 20, label="login") + made.jmeter([21] * 20, label="pay").split("\n", 1)[1]
    analysis = analysed(tmp_path, both, more)
    assert analysis.cells == ()
    assert {"login throughput", "pay throughput"} <= estimates(analysis).keys()


def test_closed_loops_are_labelled(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, made.jmeter([10] * 20))
    assert analysis.result is not None
    loops = {level.metric.name: level.metric.loop for level in analysis.result.levels}
    assert loops["elapsed_p99"] == "closed"
    assert loops["error_share"] == ""


def test_the_run_says_where_it_came_from(tmp_path: Path) -> None:
    run = imported(tmp_path, made.fio(1.0), made.fio(2.0))
    told = run.read_json("environment.json")
    assert told["imported"]["format"] == "fio"
    assert told["imported"]["version"] == "fio-3.33"
    files = told["imported"]["files"]
    assert [Path(name).name for name in files] == ["000", "001"]
    assert all(len(digest.removeprefix("sha256:")) == 64 for digest in files.values())
    assert {p.name for p in run.path.iterdir()} == {
        "scenario.yaml", "environment.json", "plan.json", "trials.ndjson", "ledger.ndjson",
    }  # fmt: skip
    assert [row["file"] for row in run.rows()] == list(files)
    assert run.read_json("plan.json")["command"].startswith("contend import ")


def test_analysing_again_changes_nothing(tmp_path: Path) -> None:
    run = imported(tmp_path, *turns(7, 1.2))
    report = load_report(run)
    again = load_report(RunDirectory.open(run.path))
    assert report.analysis.to_json() == again.analysis.to_json()
