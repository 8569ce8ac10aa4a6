"""What docs/guides/workloads.md tells the reader to write, done."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from contend.workloads.instance import resolve
from contend.workloads.load import load, names
from contend.workloads.metrics import read_metrics
from contend.workloads.placeholders import PLACEHOLDERS

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "workloads.md"


def test_the_example_is_found_runs_and_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "contend" / "workloads"
    own.mkdir(parents=True)
    example = re.search(r"```yaml\n# \S+/(compress\.yaml)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert example
    (own / example[1]).write_text(example[2])
    assert "compress" in names()
    instance = resolve(load("compress"), {"lines": 20000})
    commands = instance.commands({"work": tmp_path, "out": tmp_path, "seconds": 1, "cpus": 1, "seed": 1})
    for argv in commands.prepare:
        subprocess.run(argv, check=True, timeout=30)
    done = subprocess.run(commands.run[0], check=True, timeout=30, capture_output=True)
    (tmp_path / "err").write_bytes(done.stderr)
    builtins = {"wall": 0.5}
    readings = read_metrics(instance.workload, tmp_path, [tmp_path / "out"], [tmp_path / "err"], builtins)
    assert readings[0].value == 0.5
    assert 30 < readings[1].value < 100


def test_every_placeholder_of_a_command_is_explained() -> None:
    text = GUIDE.read_text()
    assert [name for name in PLACEHOLDERS if f"{{{name}}}" not in text] == []
