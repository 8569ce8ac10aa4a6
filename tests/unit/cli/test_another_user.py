"""Runs that root has made, read by a user who may not read all of them: one clear error, or all but that."""

from __future__ import annotations

import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.cli.common import write_report
from contend.imports.read import read_files
from contend.imports.write import write_run
from support import foreign_files as made
from support import nobody
from support.answers import data_in


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Runs of root: `private` as they are made, `open` for all to read, `closed` for nobody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # pytest's own is closed to others
        home = Path(place)
        home.chmod(0o755)
        for name in ("private", "open", "closed"):
            times = {"ls": [1.0 + (len(name) + n) / 100 for n in range(8)]}
            run = write_run(
                read_files([made.write(home / f"{name}.json", made.hyperfine(times))]), home / "runs", name
            )
            write_report(run)
            run.path.rename(home / "runs" / name)
        for file in (home / "runs" / "open").iterdir():
            file.chmod(0o644)
        (home / "runs" / "closed").chmod(0o700)
        yield home


@pytest.mark.parametrize(
    ("words", "code", "file"),
    [
        (["report", "runs/private"], 2, "scenario.yaml"),
        (["report", "runs/open"], 1, "findings.json"),
        (["report", "runs/closed"], 2, "plan.json"),
        (["sql", "runs/closed", "select 1"], 2, "plan.json"),
        (["export", "runs/private", "--to", "csv"], 2, "scenario.yaml"),
        (["export", "runs/closed", "--to", "csv"], 2, "plan.json"),
        (["compare", "runs/open", "runs/closed"], 2, "plan.json"),
        (["advise", "runs/private"], 2, "scenario.yaml"),
        (["stats", "runs/closed/x.csv"], 2, "Permission denied"),
        (["import", "runs/closed/x.json"], 2, "Permission denied"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_may_not_be_read_is_one_error(home: Path, words: list[str], code: int, file: str) -> None:
    told = nobody.contend(home, *words)
    errors = [line for line in told.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, told
    assert file in errors[0]
    assert "Permission denied" in errors[0]
    assert "  hint: " in told.stderr
    assert "space" not in told.stderr
    assert told.returncode == code, told
    assert "Traceback" not in told.stderr
    assert "mistake in contend" not in told.stderr


def test_what_may_be_read_is_shown_beside_what_may_not(home: Path) -> None:
    """A run that is closed stands beside those that are compared, and is passed over."""
    for words in (
        ["compare", "runs/open", "runs/open"],
        ["sql", "runs/private", "select count(*) from trials"],
    ):
        told = nobody.contend(home, *words)
        assert told.returncode == 0, told
        assert "error: " not in told.stderr
    told = nobody.contend(home, "export", "runs/open", "--to", "csv", "-o", "own/open.csv")
    assert told.returncode == 0, told


def test_serve_says_what_it_may_not_read_and_shows_the_rest(home: Path) -> None:
    words = nobody.command(home, "serve", "--runs", "runs", "--listen", "127.0.0.1:0", "--json")
    with subprocess.Popen(
        words,
        cwd=home,
        env=nobody.environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line, server.stderr and server.stderr.read()
            with urllib.request.urlopen(data_in(line)["url"], timeout=60) as answer:
                page = answer.read().decode()
        finally:
            server.terminate()
            server.communicate(timeout=60)
    for name in ("open", "private", "closed"):
        assert name in page
    assert "Permission denied" in page
    assert "environment.json" in page
    assert server.returncode in (0, 130, 143, -15)
