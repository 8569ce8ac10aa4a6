"""Tokens that end while a storm or a growth goes on: renewed, counted, and nothing made twice or left. Eight minutes.

On a bed of the test's own whose keystone gives tokens for a minute. keystoneauth, and so every service, gives up a token two
minutes before its end, and logs in anew for every request here: with hashes of passwords as keystone makes them by itself,
a third of a second each, the bed would do nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from contend.store.ledger import leftovers
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.cloud import variables
from support.clouds import STORM, Looking, check_growth, own_bed
from support.command_line import Home, rows

pytestmark = pytest.mark.accept

LIFE_S = 60
SETTINGS = (f"token.expiration={LIFE_S}", "identity.password_hash_rounds=4")
SERVERS, EVERY_S = 9, 9


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    place = tmp_path_factory.mktemp("tokens") / "bed"
    settings = [word for setting in SETTINGS for word in ("--set", f"keystone.conf:{setting}")]
    with own_bed(place, "--web-workers=1", *settings) as found:
        yield found


def test_a_storm_goes_on_with_another_token(bed: Bed, contend: Home) -> None:
    asked = (f"n=[{SERVERS}]", f"parameters.rate={1 / EVERY_S}", "measure.blocks=1", "parameters.quiet=1")
    words = [word for setting in asked for word in ("--set", setting)]
    contend(*STORM, *words, timeout=900, env={**variables(bed)}).fine()
    run = contend.the_run()
    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    assert [storm["served"] for storm in storms] == [SERVERS] * len(storms)
    for storm in storms:
        assert storm["makespan_s"] > LIFE_S
        assert storm["counts"]["token renewed"] >= storm["makespan_s"] // LIFE_S
    looking = Looking(variables(bed)["OS_CLOUD"], str(bed.clouds_yaml))
    assert looking.actions(run.name) == SERVERS * len(rows(run))
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []


def test_a_growth_goes_on_with_another_token(bed: Bed, contend: Home) -> None:
    looking = Looking(variables(bed)["OS_CLOUD"], str(bed.clouds_yaml))
    kinds = {"network": 600}
    check_growth(contend, looking, kinds=kinds, step=150, env={**variables(bed)}, timeout=500, again=True)
    run = contend.the_run()
    (told,) = (json.loads(file.read_text()) for file in run.glob("outputs/*/growth.json"))
    assert told["requests"]["token renewed"] >= 1
