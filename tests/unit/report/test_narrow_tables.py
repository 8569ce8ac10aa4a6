"""A table that is wider than the screen loses nothing: what cannot be folded stands as a record a row."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from contend.cli.common import load_report
from contend.contention.whatif.verification import Compared, Verification
from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.report import whatif_terminal
from contend.report.printer import FOLDED, Printer, fitted, titled_table
from contend.report.terminal import render
from contend.report.watch_terminal import summary
from support import blame_rows, foreign_files

FIGURES = ("1,234", "12.3 ms", "1.98 s", "45 %")
NAME = "a-very-long-name-of-a-lock-in-a-program/with/its/path.py:123"


def shown(what: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, force_terminal=False, legacy_windows=False).print(what)
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120])
def test_no_figure_is_lost_at_any_width(width: int) -> None:
    table = titled_table("Locks", "lock", "waits", "longest", "held", "share", "by", texts=("by",))
    table.add_row(NAME, *FIGURES, "another name 40 %")
    console = Console(width=width, file=io.StringIO())
    text = shown(fitted(table, console), width)
    assert all(len(line) <= width for line in text.splitlines())
    for word in (*FIGURES, "waits", "longest", "share", "Locks"):
        assert word in " ".join(text.split()), word
    assert "".join(text.split()).count("path.py:123") == 1 or width >= 60, "folded between columns"


def test_a_table_that_fits_stays_one() -> None:
    table = titled_table("", "lock", "waits")
    table.add_row("a" * 3 * FOLDED, "7")
    assert fitted(table, Console(width=40)) is table
    assert fitted(table, Console(width=20)) is not table


def test_columns_keep_their_figures_whole() -> None:
    out = io.StringIO()
    printer = Printer(Console(file=out, width=80, no_color=True, force_terminal=False))
    printer.columns(
        ("command", "mean", "95 % interval", "runs"), [(NAME + NAME, "1.23 s", "[1.20, 1.26] s", "10")]
    )
    text = out.getvalue()
    assert "1.23 s" in text and "[1.20, 1.26] s" in text and "runs" in text


@pytest.mark.parametrize("width", [40, 80])
def test_what_others_measured_is_shown_whole_whatever_it_is_called(width: int, tmp_path: Path) -> None:
    commands = {
        f"gzip -{n} -k -c /usr/share/dict/american-english --some-long-flag=yes": [0.5, 0.51] for n in (6, 9)
    }
    path = foreign_files.write(tmp_path / "commands", foreign_files.hyperfine(commands, {}))
    text = render(
        load_report(write_run(read_files([path]), tmp_path / "runs", "")), width=width, verbose=False
    )
    for word in ("505 ms", "too few runs", "level", "runs"):
        assert word in text, text
    assert all(
        len(line) <= width or str(tmp_path) in line or "contend ab" in line for line in text.splitlines()
    )


def test_a_watch_and_a_verified_prediction_fit_forty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    of = blame_rows.watched(blame_rows.steady())
    summary(blame_rows.report(of), Console(file=out, width=40, no_color=True, force_terminal=False))
    flat = " ".join(out.getvalue().split())
    assert "of its waits" in flat and "/web.service" in flat
    compared = (Compared("median_ns", 2 * 10**9, 18 * 10**8, 22 * 10**8, (21 * 10**8,)),)
    whatif_terminal.print_verification(Verification(("--workers 8",), ("after",), compared, True, None))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("inside", "measured 2.1 s", "error −4.8 %")), shown
