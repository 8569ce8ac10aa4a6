"""Figures in logs: of the lines that are written during a trial, wherever these come to lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contend.errors import BadInput, TrialFailed
from contend.workloads.generators import logged


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Something is done while a trial lasts."""

    def do(what: Callable[[], object]) -> None:
        monkeypatch.setattr(logged.time, "sleep", lambda _s: what())

    return do


Meanwhile = Callable[[Callable[[], object]], None]


def appended(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_whole_lines_of_the_trial_count(tmp_path: Path, meanwhile: Meanwhile) -> None:
    log = tmp_path / "log"
    log.write_text("took 1 ms\ntook 2")
    meanwhile(lambda: appended(log, "00 ms\ntook 10 ms\nother\ntook 30 ms\ntook 5"))
    assert logged.written(log, 1.0) == "took 10 ms\nother\ntook 30 ms"


def test_a_log_that_is_put_aside_is_read_on(tmp_path: Path, meanwhile: Meanwhile) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")

    def rotate() -> None:
        appended(log, "last of the old\n")
        log.rename(tmp_path / "log.1")
        log.write_text("first of the new\n")

    meanwhile(rotate)
    assert logged.written(log, 1.0) == "last of the old\nfirst of the new"


def test_a_log_that_is_cut_short_is_no_figure(tmp_path: Path, meanwhile: Meanwhile) -> None:
    log = tmp_path / "log"
    log.write_text("much that was before\n")
    meanwhile(lambda: log.write_text("a\n"))
    with pytest.raises(TrialFailed, match="cut short"):
        logged.written(log, 1.0)


def test_the_figure_is_written_where_a_trial_reads_it(
    tmp_path: Path, meanwhile: Meanwhile, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.touch()
    meanwhile(lambda: appended(log, "".join(f"took {n} ms\n" for n in range(1, 101))))

    def run(*words: str) -> int:
        return logged.main([*words, "--for", "1s", "--out", str(tmp_path)])

    assert run("time", str(log), r"took (\d+) ms", "--unit", "ms") == 0
    figures = json.loads((tmp_path / "logged.json").read_text())
    assert figures == pytest.approx({"mean": 0.0505, "p50": 0.0505, "p99": 0.09901})
    assert len(logged._matches("took took\nno\ntook", logged.compiled("took", groups=0))) == 2, "lines"
    assert run("count", str(log), "took") == 0
    assert json.loads((tmp_path / "logged.json").read_text())["rate"] > 0
    for words, code, error in (
        (("time", str(log), "took"), 2, "needs exactly one (group)"),
        (("time", str(log), "took ("), 2, "is no regular expression"),
        (("time", str(log), "gave (.*)"), 1, "no line matches"),
        (("time", str(log), "(took)"), 2, "no number"),
        (("time", str(log), "took 1( .)?00? ms"), 2, "no number"),
        (("count", str(tmp_path / "none"), "took"), 2, "cannot be read"),
    ):
        assert run(*words) == code
        assert error in capsys.readouterr().err
    with pytest.raises(BadInput):
        logged.compiled("(a)(b)", groups=1)
