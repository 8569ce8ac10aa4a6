"""Imported runs in the terminal, as people see them. `CONTEND_GOLDEN=write pytest tests/golden` writes the files anew."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contend.cli.common import load_report
from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.report.terminal import render
from support import foreign_files as made

HERE = Path(__file__).parent


def commands() -> Sequence[Any]:
    times = [0.512, 0.498, 0.505, 0.509, 0.501, 0.499, 0.507, 0.503]
    codes: dict[str, list[int | None]] = {"gzip -9 -k -c bash": [0, 0, 0, 0, 0, 0, 1, 0]}
    return [
        made.hyperfine({"gzip -6 -k -c bash": times, "gzip -9 -k -c bash": [1.4 * t for t in times]}, codes)
    ]


def storms() -> Sequence[Any]:
    return [made.rally_report([[10.0, 12.0, 14.0, 16.0 + n] for n in range(7)])]


def turns() -> Sequence[Any]:
    shuffled, files = random.Random(3), []
    for block in range(8):
        pair = [("4k", 86_000.0), ("8k", 61_000.0)]
        shuffled.shuffle(pair)
        files += [
            made.fio(iops * (1 + 0.01 * shuffled.random()), at=made.NOON + 60 * (2 * block + turn), bs=size)
            for turn, (size, iops) in enumerate(pair)
        ]
    return sorted(files, key=lambda f: str(f["jobs"][0]["job options"]["bs"]))


CASES: dict[str, Callable[[], Sequence[Any]]] = {"commands": commands, "storms": storms, "turns": turns}


@pytest.mark.parametrize("name", CASES)
def test_imported_report(name: str, tmp_path: Path) -> None:
    paths = [made.write(tmp_path / f"{name}-{n:02d}", content) for n, content in enumerate(CASES[name]())]
    run = write_run(read_files(paths), tmp_path / "runs", "")
    report = replace(load_report(run), run_dir=f"runs/{name}-20260101-120000")
    text = render(report, width=80, verbose=name == "storms")
    golden = HERE / f"imported-{name}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
