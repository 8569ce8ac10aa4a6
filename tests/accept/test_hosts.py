"""contend, from its wheels, on hosts like the users' own: emulated guests, each with another system or another hardware.

Wheels are those of `make dist` in dist/. A host takes three to six minutes; what came of each is in docs/reference/hosts.md.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hosts.kinds import KINDS
from support.installed import ROOT
from support.prerequisites import need

pytestmark = pytest.mark.accept


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_nothing_is_broken_on(name: str, tmp_path: Path) -> None:
    need(list((ROOT / "dist").glob("contend-*.whl")), "wheels: make dist")
    done = subprocess.run(
        [ROOT / "testbed/hosts/run", "-o", tmp_path, name], cwd=ROOT, capture_output=True, text=True
    )
    rows = json.loads((tmp_path / f"{name}.json").read_text())["steps"]
    assert done.returncode == 0, done.stdout
    assert len(rows) > 8
