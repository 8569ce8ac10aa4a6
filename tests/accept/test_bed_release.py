"""The test bed with the release of OpenStack before the usual one: a storm boots on it, and nothing is left. Ten minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contend.store.ledger import leftovers
from contend.testbed.openstack import install
from contend.testbed.openstack.cloud import variables
from support.clouds import STORM, Looking, own_bed
from support.command_line import Home

pytestmark = pytest.mark.accept

BEFORE = install.RELEASES[1]


def test_a_storm_on_the_release_before(tmp_path: Path, contend: Home) -> None:
    with own_bed(tmp_path / "bed", f"--release={BEFORE}", "--web-workers=1", "--notifications") as bed:
        assert bed.release == BEFORE
        running = json.loads((bed.root / "running.json").read_text())
        assert running["versions"]["nova"] == install.versions(BEFORE)["nova"]
        asked = ("n=[1,3]", "network=net", "measure.blocks=1", "parameters.quiet=1")
        words = [word for setting in asked for word in ("--set", setting)]
        contend(*STORM, *words, timeout=600, env={**variables(bed)}).fine()
        run = contend.the_run()
        storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
        assert sorted(storm["served"] for storm in storms) == [1, 1, 3]
        assert all(storm["stamps"]["heard"] == storm["n"] for storm in storms)
        assert {phase for storm in storms for phase, s in storm["phases_s"].items() if s} >= {
            "api",
            "spawning",
        }
        looking = Looking(variables(bed)["OS_CLOUD"], str(bed.clouds_yaml))
        assert looking.names(f"contend-{run.name}") == []
        assert leftovers(run / "ledger.ndjson") == []
    assert not bed.root.exists()
