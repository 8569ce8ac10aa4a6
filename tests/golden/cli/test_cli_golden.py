"""The help of every verb and the words of common mistakes, as they are printed.

    CONTEND_GOLDEN=write pytest tests/golden/cli      writes the files anew; read the difference before committing

Read them as somebody who has never heard of contend.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contend.cli import VERBS
from support import quick_start
from support.quick_start import CONTEND

HERE = Path(__file__).parent

# What a newcomer gets wrong, and what is said. None of them makes anything.
MISTAKES = (
    "",
    "rnu",
    "run",
    "run nosy-neighbour",
    "run noisy-neighbour --bugdet 5m",
    "run noisy-neighbour --budget soon",
    "run noisy-neighbour --set victims=ffmpg",
    "run noisy-neighbour --set victims.ffmpeg.lenght=9",
    "run noisy-neighbour --set victims.ffmpeg.threads=lots",
    "run noisy-neighbour --set placement=same-cup",
    "run noisy-neighbour --set measure.level=95",
    "run noisy-neighbour --set measure.target=-2%",
    "run noisy-neighbour --set placement",
    "run mine.yaml",
    "run --resume",
    "run --resume .",
    "ab",
    "ab -- true",
    "ab -- true --vs",
    "ab -- frobnicate --vs true",
    "ab --metric speed=9 -- true --vs true",
    "ab --rev main -- true",
    "report",
    "report .",
    "advise",
    "advise .",
    "run interference-forecast --set injectors.cpu=ffmpeg",
    "run interference-forecast --set intensities=[50]",
    "context",
    "context .",
    "context runs/rpc --calls none",
    "serve --runs absent",
    "serve --runs . --listen 0.0.0.0:8330",
    "serve --runs . --listen 8330",
    "sql . nonsense",
    "stats measurements.csv",
    "import",
    "import results.json",
    "import results.json --as foi",
    "validate",
    "list workload",
    "destroy",
)


def environment(cwd: Path) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80", "XDG_CONFIG_HOME": str(cwd), "TERM": "dumb"}


def agree(name: str, text: str) -> None:
    path = HERE / name
    if os.environ.get("CONTEND_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; CONTEND_GOLDEN=write renews it"


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help(verb: str, tmp_path: Path) -> None:
    words = [CONTEND, *verb.split(), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 108, "examples may be long, nothing else"
    agree(f"help{'-' if verb else ''}{verb}.txt", done.stdout)


def test_the_words_of_common_mistakes(tmp_path: Path) -> None:
    text = ""
    for line in MISTAKES:
        done = quick_start.run(line.split(), cwd=tmp_path, env=environment(tmp_path), timeout=60)
        assert done.returncode == 2, line
        assert done.stdout == "", line
        said = done.stderr[done.stderr.index("error: ") :]
        text += f"$ contend {line}".rstrip() + f"\n{said}\n"
    assert list(tmp_path.iterdir()) == []
    agree("mistakes.txt", text)


def test_help_loads_nothing_heavy() -> None:
    """`contend --help` must be quick: by what it imports, since a time depends on the machine."""
    code = (
        "import sys; sys.argv = ['contend', '--help']\n"
        "from contend.cli import run\n"
        "assert run() == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    heavy = {"numpy", "duckdb", "altair", "rich", "pydantic", "yaml", "jinja2", "vl_convert", "jsonpath"}
    assert "click" in loaded
    assert not loaded & heavy
