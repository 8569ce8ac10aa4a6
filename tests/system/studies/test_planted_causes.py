"""What one program does to another is planted, and the finding has to say it: by name, and how much of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causes import runs
from causes.planted import KINDS
from causes.planter import possible
from support.turns import alone

BLOCKS = 6
TURNS = 3
"""How often at most, while the hypervisor takes more from the victim than what is planted: that is named first then."""
SAMPLED = ("file lock", "http", "disk queue", "page cache", "nested quota", "enclosing quota", "tbf")


def measured(folder: Path, config: pytest.Config, *kinds: str) -> dict[str, Any]:
    with alone(config):
        return runs.measured(folder, kinds, blocks=BLOCKS, seed=11)


@pytest.mark.parametrize("kind", SAMPLED)
def test_what_is_planted_is_named(kind: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    assert possible(KINDS[kind].needs), f"{kind} needs root, and {KINDS[kind].needs}"
    for turn in range(TURNS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        (finding,) = measured(folder, pytestconfig, kind)["findings"]
        first = finding["causes"][0]
        if first["resource"] != "hypervisor":
            break
    assert finding["resource"] == first["resource"] == KINDS[kind].named, finding["sentence"]
    assert first["share"] > 0.7, finding["sentence"]
    whose = {"nested quota": "its own CPU quota of 0.5 CPUs", "enclosing quota": "the CPU quota of 0.5 CPUs"}
    assert whose.get(kind, "") in finding["sentence"]


def test_of_two_each_has_its_share(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    analysis = measured(tmp_path, pytestconfig, "file lock", "peers")
    both = max(analysis["findings"], key=lambda finding: len(finding["causes"]))
    assert {cause["resource"] for cause in both["causes"][:2]} == {"file lock", "peers"}, both["sentence"]
    # While it waits for the one, the other passes: removing either leaves most of the slowdown.
    first, second, together = (
        cell["estimate"]["value"] for cell in analysis["cells"] if cell["metric"]["primary"]
    )
    assert max(first, second) <= together * 1.05 < first + second


def test_a_neighbour_that_does_nothing_is_blamed_for_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    analysis = measured(tmp_path, pytestconfig, "nothing")
    (cell,) = analysis["cells"]
    assert "neighbour0 is a control: it need not use anything (burning: 0)" in cell["estimate"]["warnings"]
    for finding in analysis[
        "findings"
    ]:  # a host that others disturb may slow it; what it waited for is then the CPU
        assert finding["resource"] in ("run queue", "hypervisor", "unexplained", "dearer execution"), finding
