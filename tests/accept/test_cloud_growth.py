"""A thousand entities of each kind on a real cloud: what their calls cost by then, and that none of them stays.

Needs a cloud whose quotas allow it, and an administrator for users: `testbed/openstack up`, and the variables that it
prints. CONTEND_TEST_ENTITIES says how many of each (1000), CONTEND_TEST_KINDS which, CONTEND_TEST_ROUNDS how often up and
down (5), CONTEND_TEST_WITHIN for how many seconds a kind may grow and shrink (900). On two processors a thousand networks
take about ten minutes; every kind is a test of its own, so that `-k volume` runs one. Writes
docs/results/cloud-growth-KIND.json.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from results.files import save
from support.clouds import Looking, check_growth, need_cloud
from support.command_line import Home

pytestmark = pytest.mark.accept

USUAL = "network,subnet,port,router,security-group,volume,server,image,user"
KINDS = os.environ.get("CONTEND_TEST_KINDS", USUAL).split(",")


@pytest.mark.parametrize("kind", KINDS)
def test_so_many_of_each_kind(tmp_path: Path, kind: str) -> None:
    many = int(os.environ.get("CONTEND_TEST_ENTITIES", "1000"))
    within = float(os.environ.get("CONTEND_TEST_WITHIN", "900"))
    rounds = int(os.environ.get("CONTEND_TEST_ROUNDS", "5"))
    contend = Home(tmp_path)
    analysis = check_growth(
        contend,
        Looking(need_cloud()),
        kinds={kind: many},
        step=max(2, many // 10),
        rounds=rounds,
        timeout=within,
    )
    (grown,) = analysis["growth"]["kinds"]
    document = {
        "passes": rounds,
        "answer": analysis["answer"],
        "growth": grown,
    }
    save(f"cloud-growth-{kind}", document)
