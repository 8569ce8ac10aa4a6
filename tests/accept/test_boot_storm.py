"""Boot storms on a real cloud, whole: `testbed/openstack up`, and the variables that it prints. About two minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.ledger import leftovers, read_rows
from support.clouds import Looking, need_cloud
from support.command_line import Home, check_files, rows

pytestmark = pytest.mark.accept

STORM = ("run", "boot-storm", "--set", "measure.target=null", "--set", "measure.pilot=1")


@pytest.fixture(scope="module")
def looking() -> Looking:
    return Looking(need_cloud())


def test_two_sizes(contend: Home, looking: Looking) -> None:
    said = contend(*STORM, "--set", "n=[1,4]", "--set", "measure.blocks=2", "--json", timeout=500).fine()
    run = contend.the_run()
    analysis = said.json()
    assert [(size["n"], size["storms"]) for size in analysis["storms"]["sizes"]] == [(1, 4), (4, 2)]
    assert analysis["answer"].startswith(("Each extra server adds", "The median does not", "4 at once"))
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    check_files(run)

    counted = [row for row in rows(run) if row["phase"] == "counted"]
    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    assert len(storms) == len(counted) == 6
    boots = sum(int(row["factors"]["n"]) for row in rows(run))
    assert looking.actions(run.name) == boots, "servers were made that the plan does not hold"
    announced = [
        r for r in read_rows(run / "ledger.ndjson") if r["event"] == "intend" and "server" in r["kind"]
    ]
    assert len({row["name"] for row in announced}) == boots
    for storm in storms:
        assert storm["served"] == storm["n"]
        assert storm["disagree"] == 0, "both sides are on one clock here"
        assert storm["min_s"] <= storm["median_s"] <= storm["p90_s"] <= storm["max_s"] <= storm["makespan_s"]
        for server in storm["servers"]:
            low, high = server["active_s"]
            assert server["due_s"] <= server["sent_s"] < server["accepted_s"]
            assert server["sent_s"] < low <= high
            seen = next(s["seen_s"] for s in server["states"] if s["state"] == "active")
            assert seen[0] <= low <= high <= seen[1], "the server's stamps only narrow"
            middle = (low + high) / 2 - server["due_s"]
            assert sum(server["phases_s"].values()) == pytest.approx(middle, abs=1e-6)
            assert server["deleted_s"] < server["gone_s"][0] <= server["gone_s"][1]


@pytest.fixture
def quota(looking: Looking) -> Iterator[int]:
    """Two servers and no more, for a while; an administrator may."""
    path = f"/os-quota-sets/{looking.api.access.project}"
    looking.api.request("PUT", "compute", path, body={"quota_set": {"instances": 2}})
    try:
        yield 2
    finally:
        looking.api.request("DELETE", "compute", path)


def test_a_quota_fails_the_storm_and_leaves_nothing(contend: Home, looking: Looking, quota: int) -> None:
    said = contend(*STORM, "--set", "n=[4]", "--set", "measure.blocks=1", timeout=300)
    said.error(1, "did not become ACTIVE", "Quota exceeded")
    run: Path = contend.the_run()
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
