"""Boot storms on a real cloud, whole: `testbed/openstack up`, and the variables that it prints. About two minutes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.store.ledger import leftovers
from support.clouds import STORM, Looking, need_cloud, run_storms
from support.command_line import Home

pytestmark = pytest.mark.accept


@pytest.fixture(scope="module")
def looking() -> Looking:
    return Looking(need_cloud())


def test_two_sizes(contend: Home, looking: Looking) -> None:
    run_storms(contend, small=1, large=4, blocks=2).check(looking)


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
