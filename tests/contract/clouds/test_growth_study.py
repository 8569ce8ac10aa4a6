"""A growing population on a small real service: what its calls cost is found, and nothing of it stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.growth.document import document
from contend.clouds.growth.grow import GrowthOptions, Happened, grow
from contend.clouds.http import Api
from contend.clouds.openstack import Record, unique_name
from contend.store.ledger import leftovers, read_rows
from contend.studies.growth.findings import findings
from contend.studies.growth.result import Growths, read
from support.toy_network import ToyNetwork, toy_network

RUN = "control-plane-growth-20260102-101500-7f3a"
PREFIX = unique_name(RUN, "1-aaaa")


def grown(toy: ToyNetwork, place: Path, *, meter: bool = True, **asked: Any) -> Happened:
    api = Api(toy.access(), sleep=lambda s: None, connections=4)
    with Record(place / "ledger.ndjson", run=RUN, cloud="toy", config="") as record:
        try:
            return grow(
                api,
                record,
                PREFIX,
                GrowthOptions(**{"kind": "network", "upto": 61, "rounds": 2, "within_s": 300.0, **asked}),
                meter=toy if meter else None,
            )
        finally:
            api.close()


def told(place: Path, *passes: Happened) -> Growths:
    """As a run's analysis reads them."""
    rows = []
    for number, happened in enumerate(passes):
        out = place / "outputs" / f"{number:06d}"
        out.mkdir(parents=True)
        (out / "growth.json").write_text(json.dumps(document(happened)), encoding="utf-8")
        rows.append({"trial": number, "block": 0, "status": "ok", "phase": "counted"})
    found = read(place, rows, ("network",), slo_s=1.0)
    assert found is not None
    return found


@pytest.mark.system  # what its calls take has to grow beyond the noise of a host that others use
def test_a_query_for_each_entity_is_found_by_five_hundred(tmp_path: Path) -> None:
    with toy_network(tmp_path / "each.db", each=True) as toy:
        found = told(tmp_path, grown(toy, tmp_path, upto=500, step=100, rounds=3))
        assert toy.population == 0
    by_name = {call.name: call for call in found.calls}
    # Not the page, whose work is that of twenty entities; not what asks for one.
    assert [call.title for call in found.flagged if call.growing_counts] == ["list network"]
    assert by_name["page"].counted["SQL"].slope.value == pytest.approx(0, abs=5)
    slope = by_name["list"].counted["SQL"].slope
    assert slope.value / 100 == pytest.approx(1, abs=0.05), "one statement for each entity"
    told_of = findings(found, "contend run control-plane-growth")
    (finding,) = [finding for finding in told_of if finding.kind == "n-plus-one"]
    assert "1 SQL for each of them: an N+1" in finding.sentence
    assert finding.verify == "contend run control-plane-growth --set kinds=network"


def test_one_query_for_all_is_none(tmp_path: Path) -> None:
    with toy_network(tmp_path / "join.db", each=False) as toy:
        found = told(tmp_path, grown(toy, tmp_path, upto=500, step=100, rounds=3))
    assert "list network" not in [call.title for call in found.flagged]
    assert "n-plus-one" not in [finding.kind for finding in findings(found, "contend run")]


def test_the_ledger_knows_each_before_its_request_leaves_and_all_are_removed(tmp_path: Path) -> None:
    with toy_network(tmp_path / "n.db", each=False) as toy:
        unannounced = []
        answer = toy.answer

        def looked_at(method: str, path: str, body: Any) -> Any:
            if method == "POST":
                rows = [r["name"] for r in read_rows(tmp_path / "ledger.ndjson") if r["event"] == "intend"]
                unannounced.extend({body["network"]["name"]} - set(rows))
                assert body["network"]["description"] == f"contend_run={RUN}"
            return answer(method, path, body)

        toy.answer = looked_at  # type: ignore[method-assign]
        happened = grown(toy, tmp_path, modes=("quiet", "mixed"), upto=61)
        assert toy.population == 0
    assert unannounced == []
    assert leftovers(tmp_path / "ledger.ndjson") == []
    assert happened.reached == 61
    assert happened.stopped == "as many as asked"
    assert [v.made for v in happened.visits if v.mode == "quiet"] == [20, 50, 61, 61, 50, 20]
    assert all(v.flooded > 0 for v in happened.visits if v.mode == "mixed")


def test_a_quota_ends_the_growth_and_is_told(tmp_path: Path) -> None:
    with toy_network(tmp_path / "q.db", each=False, quota=50) as toy:
        happened = grown(toy, tmp_path, upto=91, step=15)
        assert toy.population == 0
    assert "Quota exceeded" in happened.stopped
    assert 45 <= happened.reached <= 50
    assert leftovers(tmp_path / "ledger.ndjson") == []


def test_a_kind_that_the_cloud_refuses_is_left_out_with_the_reason(tmp_path: Path) -> None:
    with toy_network(tmp_path / "r.db", each=False, quota=0) as toy:
        happened = grown(toy, tmp_path)
        found = told(tmp_path, happened)
        volumes = grown(toy, tmp_path, kind="volume")
    assert "Quota exceeded" in happened.left_out
    assert found.kinds[0].calls == ()
    assert volumes.left_out == "the cloud has no block-storage service"
    assert leftovers(tmp_path / "ledger.ndjson") == []


def test_an_end_half_way_leaves_what_destroy_finds(tmp_path: Path) -> None:
    from contend.clouds.removal import remove

    with toy_network(tmp_path / "k.db", each=False) as toy:
        api = Api(toy.access())
        with Record(tmp_path / "ledger.ndjson", run=RUN, cloud="toy", config="") as record:
            from contend.clouds.growth.kinds import GROWING, Base
            from contend.clouds.growth.made import Tenant
            from contend.clouds.openstack import Cloud

            tenant = Tenant(Cloud(api, RUN), record, PREFIX, GROWING["network"], Base({}, {}))
            tenant.fill(40, 4)
        toy.database.execute("insert into networks (name, description) values ('contend-of-others', '')")
        gone = remove(leftovers(tmp_path / "ledger.ndjson"), lambda name, config: Api(toy.access()))
        assert [g.why for g in gone if g.why] == []
        assert sum(g.was_there for g in gone) == 40
        assert toy.population == 1
        api.close()
