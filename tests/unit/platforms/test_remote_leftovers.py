"""What is on clouds is removed after the processes that make it, from the ledger as those have left it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contend.clouds import removal
from contend.clouds.openstack import KINDS, Record
from contend.engine.removal import REMOVERS
from contend.platforms import resources
from contend.platforms.removers import Removed, Removers
from contend.store.ledger import Ledger, leftovers
from support.own_runs import own, own_state

SERVER = KINDS["server"]


def test_what_a_dying_process_still_announced_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.ndjson"
    record = Record(path, run="r", cloud="c", config="/etc/clouds.yaml")
    with Ledger(path) as ledger:
        ledger.intend("process", "r/victim/1", run="r", party="victim")
        record.intend(SERVER, ["contend-r-0"])
    order: list[str] = []

    def end(name: str, row: Any, directory: Path) -> bool:
        order.append(name)
        record.intend(SERVER, ["contend-r-1"])  # its last act
        return True

    def remove(rows: list[dict[str, Any]]) -> list[Removed]:
        order.extend(sorted(row["name"] for row in rows))
        assert {row["cloud"] for row in rows} == {"c"}
        stuck = {"contend-r-1": "the cloud is down"}
        return [Removed(r["kind"], r["name"], True, stuck.get(r["name"], "")) for r in rows]

    monkeypatch.setattr(removal, "remove", remove)
    own_state(tmp_path, monkeypatch)
    found = resources.remove_leftovers(own(tmp_path), REMOVERS | Removers({"process": end}))
    assert order == ["r/victim/1", "contend-r-0", "contend-r-1"]
    assert {item.name: item.why for item in found}["contend-r-1"] == "the cloud is down"
    assert [row["name"] for row in leftovers(path)] == ["contend-r-1"]
    record.close()
