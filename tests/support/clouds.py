"""The real cloud that a test uses, and what of contend's is on it."""

from __future__ import annotations

import json
from typing import Any

from contend.clouds.access import find, login
from contend.clouds.http import Api
from contend.clouds.openstack import KINDS, PAGE, Cloud
from contend.errors import ContendError
from contend.ledger import leftovers, read_rows
from support.command_line import Home, check_files, rows
from support.prerequisites import need

STORM = ("run", "boot-storm", "--set", "measure.target=null", "--set", "measure.pilot=1")


def need_cloud() -> str:
    """The name of the cloud that OS_CLOUD (and OS_CLIENT_CONFIG_FILE) or clouds.yaml give; see testbed/openstack."""
    try:
        name = str(find("").region.name)
    except ContendError as error:
        need(False, f"a cloud to test on: {error.message}")
        raise
    return name


class Looking:
    """What is on the cloud, whoever made it, with a login of its own."""

    def __init__(self, name: str, config: str = "") -> None:
        self.api = Api(login(name, config), lambda: login(name, config))

    def names(self, prefix: str) -> list[str]:
        """Of servers, networks and ports that begin so."""
        cloud = Cloud(self.api, "")
        found: list[str] = []
        for kind in (KINDS["server"], KINDS["network"], KINDS["port"]):
            found += [str(item["name"]) for item in cloud.list(kind, prefix)]
        return sorted(found)

    def server(self, name: str, metadata: dict[str, str]) -> str:
        """One that some stranger made, in the place of a test that cares for it. Its id."""
        from contend.workloads.generators.boot import server_of

        wanted = {**server_of(self.api, "", "", "none"), "name": name, "metadata": metadata}
        made: dict[str, Any] = self.api.request(
            "POST", "compute", "/servers", body={"server": wanted}, version="2.37"
        ).json()
        return str(made["server"]["id"])

    def delete(self, id_: str) -> None:
        self.api.request("DELETE", "compute", f"/servers/{id_}", absent=True)

    def actions(self, run: str) -> int:
        """How many servers of a run there have been, the deleted ones too (an administrator sees those)."""
        path = f"/servers?name=contend-{run}-&deleted=true&all_tenants=true&limit={PAGE}"
        return len(self.api.request("GET", "compute", path).json()["servers"])


def check_storms(
    contend: Home,
    looking: Looking,
    *,
    small: int,
    large: int,
    blocks: int,
    env: dict[str, str | None] | None = None,
) -> None:
    """`contend run boot-storm` with two sizes: what it made, what it saw of each server, and that nothing is left."""
    sizes = ("--set", f"n=[{small},{large}]", "--set", f"measure.blocks={blocks}")
    said = contend(*STORM, *sizes, "--json", timeout=500, env=env).fine()
    run = contend.the_run()
    analysis = said.json()
    told = [(size["n"], size["storms"]) for size in analysis["storms"]["sizes"]]
    assert told == [(small, 2 * blocks), (large, blocks)], "the control's storms are of the small size"
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    check_files(run)

    counted = [row for row in rows(run) if row["phase"] == "counted"]
    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    assert len(storms) == len(counted) == 3 * blocks
    boots = sum(int(row["factors"]["n"]) for row in rows(run))
    assert looking.actions(run.name) == boots, "servers were made that the plan does not hold"
    announced = [
        r for r in read_rows(run / "ledger.ndjson") if r["event"] == "intend" and "server" in r["kind"]
    ]
    assert len({row["name"] for row in announced}) == boots
    for storm in storms:
        _check_storm(storm)


def _check_storm(storm: dict[str, Any]) -> None:
    assert storm["served"] == storm["n"]
    assert storm["disagree"] == 0, "both sides are on one clock here"
    assert storm["min_s"] <= storm["median_s"] <= storm["p90_s"] <= storm["max_s"] <= storm["makespan_s"]
    assert {"API", "conductor", "compute", "database"} <= set(storm["cpu_s"])
    for server in storm["servers"]:
        low, high = server["active_s"]
        assert server["due_s"] <= server["sent_s"] < server["accepted_s"]
        assert server["sent_s"] < low <= high
        seen = next(s["seen_s"] for s in server["states"] if s["state"] == "active")
        assert seen[0] <= low <= high <= seen[1], "the server's stamps only narrow"
        middle = (low + high) / 2 - server["due_s"]
        assert abs(sum(server["phases_s"].values()) - middle) < 1e-6
        assert server["deleted_s"] < server["gone_s"][0] <= server["gone_s"][1]
