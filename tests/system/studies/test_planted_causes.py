"""What one program does to another is planted, and the finding has to say it: by name, and how much of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causes import planted
from support.command_line import Home
from support.turns import alone

BLOCKS = 6


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a service that nobody measures."""
    script = tmp_path / "service.py"
    script.write_text(planted.SERVICE.replace("FOLDER", str(tmp_path)), encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        yield int(service.stdout.readline())
        service.terminate()


def measured(kind: str, folder: Path, port: int, config: pytest.Config) -> dict[str, Any]:
    home = Home(folder / "home")
    home.path.mkdir(parents=True, exist_ok=True)
    victim, neighbour = (planted.write(folder, kind, role, port) for role in ("victim", "neighbour"))
    (home.path / "planted.yaml").write_text(
        planted.SCENARIO.format(
            victim=victim, neighbours=neighbour, placement=planted.placement(kind), blocks=BLOCKS, seed=11
        ),
        encoding="utf-8",
    )
    with alone(config):
        home("run", "planted.yaml", timeout=180).fine()
    analysis: dict[str, Any] = json.loads((home.the_run() / "findings.json").read_text())
    return analysis


@pytest.mark.parametrize("kind", ["file lock", "peers", "network send", "disk queue"])
def test_what_is_planted_is_named(kind: str, tmp_path: Path, port: int, pytestconfig: pytest.Config) -> None:
    (finding,) = measured(kind, tmp_path, port, pytestconfig)["findings"]
    assert finding["resource"] == kind, finding["sentence"]
    assert finding["share"] > 0.8, finding["sentence"]
    names = {item["what"] for item in finding["evidence"]}
    assert any(name.startswith("waited ") for name in names), names


def test_a_neighbour_that_does_nothing_is_blamed_for_nothing(
    tmp_path: Path, port: int, pytestconfig: pytest.Config
) -> None:
    analysis = measured("nothing", tmp_path, port, pytestconfig)
    (cell,) = analysis["cells"]
    assert (
        "nothing-neighbour is a control: it need not use anything (burning: 0)"
        in cell["estimate"]["warnings"]
    )
    for finding in analysis[
        "findings"
    ]:  # a host that others disturb may slow it; what it waited for is then the CPU
        assert finding["resource"] in ("run queue", "hypervisor", "unexplained", "dearer execution"), finding
