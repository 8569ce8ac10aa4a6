"""The real cloud that a test uses, and what of contend's is on it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.growth.kinds import SERVICES
from contend.clouds.http import Api
from contend.clouds.login import find, login
from contend.clouds.openstack import KINDS, PAGE, Cloud, Kind
from contend.errors import ContendError
from contend.store.ledger import leftovers, read_rows
from contend.testbed.openstack.bed import Bed
from contend.testbed.rabbit import node
from contend.workloads.install import is_here
from support.command_line import Home, check_files, rows
from support.prerequisites import need

STORM = ("run", "boot-storm", "--set", "measure.target=null", "--set", "measure.pilot=0")


def need_cloud() -> str:
    """The name of the cloud that OS_CLOUD (and OS_CLIENT_CONFIG_FILE) or clouds.yaml give; see testbed/openstack."""
    try:
        name = str(find("").region.name)
    except ContendError as error:
        need(False, f"a cloud to test on: {error.message}")
        raise
    return name


def bed_command(root: Path, *words: str) -> None:
    """`testbed/openstack WORDS` of the bed there."""
    command = [sys.executable, "-P", "-m", "contend.testbed.openstack", "--root", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


def need_services() -> None:
    """What every bed is made of."""
    need(shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]), "mariadb-server")
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")


@contextlib.contextmanager
def own_bed(root: Path, *words: str) -> Iterator[Bed]:
    """A small one (two computes, no volumes, no stacks) that is there for one test; words: more for `up`."""
    need_services()
    try:
        bed_command(root, "up", "--computes=2", "--without=volume", "--without=orchestration", *words)
        found = Bed.load(root)
        assert found is not None
        yield found
    finally:
        bed_command(root, "down", "--wipe")


class Looking:
    """What is on the cloud, whoever made it, with a login of its own."""

    def __init__(self, name: str, config: str = "") -> None:
        self.api = Api(login(name, config, SERVICES), lambda: login(name, config, SERVICES))

    def names(self, prefix: str) -> list[str]:
        """Of whatever begins so, in all projects, of every kind whose service there is."""
        cloud = Cloud(self.api, "", everywhere=True)
        found: list[str] = []
        for kind in KINDS.values():
            if kind.service in self.api.access.endpoints:
                found += [str(item["name"]) for item in cloud.list(kind, prefix)]
        return sorted(found)

    def make(self, kind: Kind, body: dict[str, Any]) -> str:
        """Of some stranger. Its id."""
        answer = self.api.request("POST", kind.service, kind.path, body=body, version=kind.version).json()
        return str((answer[kind.one] if kind.wrapped else answer)["id"])

    def server(self, name: str, metadata: dict[str, str]) -> str:
        """One that some stranger made, in the place of a test that cares for it. Its id."""
        from contend.workloads.generators.cloud import server_of

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


@dataclass(frozen=True)
class Stormed:
    """`contend run boot-storm` with two sizes, that has ended."""

    home: Home
    run: Path
    analysis: dict[str, Any]
    small: int
    large: int
    blocks: int

    def check(self, looking: Looking) -> None:
        """What it made, what it saw of each server, and that nothing is left."""
        run, blocks = self.run, self.blocks
        told = [(size["n"], size["storms"]) for size in self.analysis["storms"]["sizes"]]
        assert told == [(self.small, 2 * blocks), (self.large, blocks)], (
            "the control's storms are of the small size"
        )
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


def run_storms(
    contend: Home,
    *,
    small: int,
    large: int,
    blocks: int,
    env: dict[str, str | None] | None = None,
    settings: Sequence[str] = (),
) -> Stormed:
    sizes = ("--set", f"n=[{small},{large}]", "--set", f"measure.blocks={blocks}")
    more = [word for setting in settings for word in ("--set", setting)]
    said = contend(*STORM, *sizes, *more, "--json", timeout=500, env=env).fine()
    return Stormed(contend, contend.the_run(), said.json(), small, large, blocks)


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
        assert low <= server["active_at_s"] <= high
        took = server["active_at_s"] - server["due_s"]
        assert abs(sum(server["phases_s"].values()) - took) < 1e-6
        # Where the first poll no longer shows it, it may have gone at once.
        assert server["deleted_s"] <= server["gone_s"][0] <= server["gone_s"][1]


GROWTH = ("run", "control-plane-growth")


def check_growth(
    contend: Home,
    looking: Looking,
    *,
    kinds: dict[str, int],
    step: int,
    modes: str = "[quiet]",
    rounds: int = 2,
    env: dict[str, str | None] | None = None,
    timeout: float = 500,
    again: bool = False,
) -> dict[str, Any]:
    """`contend run control-plane-growth` to so many of each kind: what it made and timed, and that nothing is left.

    kinds: how many there have to be, 0 where the cloud cannot have any. again: requests may have had to be sent a second
    time, as after the end of a token. Its analysis.
    """
    known = set(contend.run_directories())
    asked = {
        "kinds": f"[{','.join(kinds)}]",
        "modes": modes,
        "parameters.step": step,
        "parameters.upto": max(kinds.values()),
        "parameters.rounds": rounds,
        "parameters.within": timeout,
    }
    settings = [word for key, value in asked.items() for word in ("--set", f"{key}={value}")]
    analysis: dict[str, Any] = contend(*GROWTH, *settings, "--json", timeout=timeout, env=env).fine().json()
    (run,) = set(contend.run_directories()) - known
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    check_files(run)
    told = {grown["kind"]: grown for grown in analysis["growth"]["kinds"]}
    assert {kind: grown["reached"] for kind, grown in told.items()} == kinds, told
    announced = [r for r in read_rows(run / "ledger.ndjson") if r["event"] == "intend"]
    for kind, many in kinds.items():
        if not many:
            assert told[kind]["left_out"]
            continue
        assert sum(row["kind"] == f"openstack-{kind}" for row in announced) >= many
        _check_pass(run, kind, many, step, rounds, again=again)
    return analysis


def _check_pass(run: Path, kind: str, many: int, step: int, rounds: int, *, again: bool) -> None:
    documents = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/growth.json"))]
    (told,) = [document for document in documents if document["kind"] == kind]
    resent = sum(n for p, n in told["problems"].items() if again and p.endswith(": sent more than once"))
    assert sum(told["problems"].values()) == resent, told["problems"]
    quiet = [visit for visit in told["visits"] if visit["mode"] == "quiet"]
    up = [visit["made"] for visit in quiet if visit["way"] == "up"]
    first = min(20, step)
    assert up == [*range(first, many, step), many]
    assert [visit["made"] for visit in quiet if visit["way"] == "down"] == up[::-1]
    for visit in quiet:
        assert visit["calls"].keys() >= {"list", "show", "create", "delete"}
        # What was sent twice is not timed.
        assert all(rounds - resent <= len(call["took_s"]) <= rounds for call in visit["calls"].values())
        assert visit["population"] >= visit["made"], "all of ours are listed"
        assert visit["control_s"] > 0


def check_glance(contend: Home, looking: Looking, env: dict[str, str | None] | None = None) -> None:
    """`contend run image-download-glance`: a small image goes up, comes down by the clients, and is not left there.

    Where its Glance speaks HTTP, by HTTPS too, through a TLS proxy before it.
    """
    known = set(contend.run_directories())
    variants = [
        {"name": "curl", "parameters": {"client": "curl"}},
        {"name": "fetch", "parameters": {"client": "fetch", "checksum": "sha512", "to": "file"}},
        {"name": "sdk", "parameters": {"client": "openstacksdk-stream", "checksum": "sha512"}},
        *(
            {
                "name": f"tls {client}",
                "parameters": {"client": client, "checksum": "sha512", "scheme": "tls-proxy"},
            }
            for client in ("curl", "fetch", "glanceclient", "openstacksdk-stream")
        ),
    ]
    asked = {
        "parameters.size": "4M",
        "variants": json.dumps(variants),
        "measure.blocks": 1,
        "measure.pilot": 0,
    }
    settings = [word for key, value in asked.items() for word in ("--set", f"{key}={value}")]
    contend("run", "image-download-glance", *settings, timeout=300, env=env).fine()
    (run,) = set(contend.run_directories()) - known
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    check_files(run)
    ledger = list(read_rows(run / "ledger.ndjson"))
    assert [row["event"] for row in ledger if row.get("kind") == "openstack-image"] == [
        "intend",
        "created",
        "removed",
    ]
    found = {row["cell"]: {m["name"]: m["value"] for m in row["metrics"]} for row in rows(run)}
    plain = looking.api.access.endpoint("image").startswith("http:")
    proxied = {"tls curl", "tls fetch", "tls openstacksdk-stream"} if plain else set()
    if plain and is_here("module glanceclient"):
        proxied.add("tls glanceclient")
    assert set(found) >= {"curl", "fetch", "sdk", *proxied}
    for name, figures in found.items():
        assert figures["client_cpu"] > 0
        assert figures.get("proxy_cpu", 0.0) > 0 if name in proxied else "proxy_cpu" not in figures
        assert figures["server_cpu"] >= 0, "in ticks, of Glance's processes on this host"


def check_beside(contend: Home, bed: Path) -> None:
    """What stands beside the storms of the last run on a test bed, whose services were recorded: counts by the database
    and the broker against those of the traces, nova's stamps, and the hunt's findings; no secret anywhere."""
    run = contend.the_run()
    analysis = contend("report", str(run), "--json").fine().json()
    storms = analysis["storms"]
    largest = max(storms["sizes"], key=lambda size: size["n"])
    counted = {name: told["value"] for name, told in largest["counts_per_boot"].items()}
    of_users = sum(value for name, value in counted.items() if name.startswith("statements of "))
    assert of_users == pytest.approx(counted["statements"], rel=0.02)
    assert counted["statements of nova"] > 10 and counted["statements of placement"] > 10

    traced = storms["traced"]
    assert traced["why"] == ""
    services = traced["services"][largest["cell"]]
    assert {"nova-api", "nova-conductor", "placement"} <= services.keys()
    sums = {kind: sum(of.get(kind, 0.0) for of in services.values()) for kind in COUNTED}
    assert sums["statements"] == pytest.approx(counted["statements"], rel=0.1)
    assert sums["commits"] == pytest.approx(counted["commits"], rel=0.15)
    # A call is a request and a reply.
    sent = sums["calls"] + sums["casts"] + sums["replies"]
    assert counted["messages"] >= sent * 0.9
    assert "_do_build_and_run_instance" in traced["jobs"]

    stamps = storms["stamps"]
    boots = sum(size["n"] * size["storms"] for size in storms["sizes"])
    assert stamps["heard"] == boots

    password = json.loads((bed / "bed.json").read_text())["password"]
    holding = [path for path in run.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert holding == []


COUNTED = ("statements", "commits", "calls", "casts", "replies")
