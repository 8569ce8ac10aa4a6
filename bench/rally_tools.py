"""The two clients of boot_storm_rally.py, and who judges them: each runs a campaign of storms on one cloud, and is timed.

A campaign is what a user starts: `contend run boot-storm`, `rally task start`, each with its report.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contend.clouds.login import find
from contend.clouds.storm import roles
from contend.testbed.openstack import daemons, servers
from contend.testbed.openstack.bed import Bed
from contend.workloads import parameters_file
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload

GENERATOR = [sys.executable, "-P", "-m", "contend.workloads.generators", "boot-storm"]


@dataclass
class Campaign:
    """One, by one tool. Seconds; `moments` are pairs of when a server was ACTIVE, seconds since the epoch: as told by
    the tool, and as nova's database had it."""

    tool: str
    n: int
    boots: int = 0  # that it tells of
    made: int = 0  # in all: contend's pilot is not told of, and costs the cloud as much
    failed: int = 0
    wall_s: float = 0.0
    client_cpu_s: float = 0.0  # processes that send requests and wait, from their start to their end
    login_cpu_s: float = 0.0  # of that, where logging in is a process of its own
    whole_cpu_s: float = 0.0  # all that the user has started, reports too
    cloud_cpu_s: dict[str, float] = field(default_factory=dict)  # by role
    medians_s: list[float] = field(default_factory=list)  # of boots, a storm each, as reported
    moments: list[tuple[float, float]] = field(default_factory=list)
    outside: int = 0  # stamps that lie outside the interval that was told
    widths_s: list[float] = field(default_factory=list)
    storm_cpu_s: float = 0.0  # of the client while servers boot, where the tool tells it


class Stamps:
    """When nova's database had each server ACTIVE, in microseconds: a trigger on the bed's own database writes it down.

    The row is there when the transaction ends, a few hundred microseconds after the stamp.
    """

    def __init__(self, root: Path) -> None:
        bed = Bed.load(root)
        if bed is None:
            sys.exit(f"there is no test bed in {root}: testbed/openstack/openstack --root {root} up")
        self._bed, self._environment = bed, daemons.base_environment(bed)

    def __enter__(self) -> Stamps:
        self._sql(
            "DROP TRIGGER IF EXISTS nova.contend_bench;"
            "CREATE DATABASE IF NOT EXISTS contend_bench;"
            "CREATE TABLE IF NOT EXISTS contend_bench.active (name VARCHAR(255), at DOUBLE);"
            "CREATE TRIGGER nova.contend_bench AFTER UPDATE ON nova.instances FOR EACH ROW"
            " INSERT INTO contend_bench.active SELECT NEW.display_name, UNIX_TIMESTAMP(SYSDATE(6))"
            " WHERE NEW.vm_state = 'active' AND NOT OLD.vm_state <=> 'active';"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._sql("DROP TRIGGER IF EXISTS nova.contend_bench; DROP DATABASE IF EXISTS contend_bench;")

    def take(self) -> dict[str, float]:
        """Those since the last time, by name."""
        rows = self._sql(
            "SELECT name, FORMAT(at, 6, 'C') FROM contend_bench.active; DELETE FROM contend_bench.active;"
        )
        pairs = (row.split("\t") for row in rows.splitlines())
        return {name: float(at.replace(",", "")) for name, at in pairs}

    def _sql(self, statements: str) -> str:
        return servers.sql(self._bed, statements, self._environment)


def prepare_command(work: Path) -> list[str]:
    """What logs in, as a run's preparation does: the token goes beside `work`, what a server is to be into server.json."""
    work.mkdir(parents=True)
    asked = resolve(load_workload("boot-storm"), {}).parameters
    file = work / parameters_file.NAME
    parameters_file.write(file, asked, parameters_file.Placeholders(work, work))
    return [*GENERATOR, "prepare", str(file)]


def spent(campaign: Campaign, catalogue: Mapping[str, str], act: Callable[[], None]) -> None:
    """Its wall time, the CPU time of the processes that `act` waits for, and of the cloud's meanwhile."""
    ports = roles.ports(catalogue)
    before, own, began = roles.read(ports), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    act()
    campaign.wall_s = time.monotonic() - began
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    campaign.cloud_cpu_s = roles.between(before, roles.read(ports))
    campaign.whole_cpu_s = ended.ru_utime + ended.ru_stime - own.ru_utime - own.ru_stime


class Contend:
    """`contend run boot-storm`: the storms that it takes for one block, with its A/A control and the report."""

    name = "contend"

    def __init__(self, place: Path, catalogue: Mapping[str, str], stamps: Stamps) -> None:
        self._place, self._catalogue, self._stamps = place, catalogue, stamps

    def run(self, n: int) -> Campaign:
        campaign = Campaign(self.name, n)
        self._stamps.take()
        runs = self._place / f"runs-{time.monotonic_ns()}"
        # Without what `up` tells of the bed's database and bus: statements and messages are not what Rally counts.
        own = {name: value for name, value in os.environ.items() if not name.startswith("CONTEND_")}
        own |= {"CONTEND_RUNS": str(runs), "XDG_STATE_HOME": str(self._place / "state")}
        command = [sys.executable, "-P", "-m", "contend", "run", "boot-storm", "--set", f"n=[{n}]"]
        command += ["--set", "measure.target=null", "--set", "measure.blocks=1", "--set", "measure.pilot=1"]
        spent(campaign, self._catalogue, lambda: call(command, own))
        stamps = self._stamps.take()
        for file in sorted(runs.glob("*/outputs/*/storm.json")):
            self._add(campaign, json.loads(file.read_text(encoding="utf-8")), stamps)
        campaign.made = len(stamps) + campaign.failed
        # A run's log-in is a process of its own, which tells nothing of itself: the same once more.
        again = Campaign(self.name, n)
        prepare = prepare_command(runs / "again/work/storm")
        spent(again, {}, lambda: call(prepare, own))
        campaign.login_cpu_s = again.whole_cpu_s
        campaign.client_cpu_s += again.whole_cpu_s
        return campaign

    def _add(self, campaign: Campaign, storm: dict[str, Any], stamps: Mapping[str, float]) -> None:
        campaign.boots += storm["n"]
        campaign.failed += storm["failed"]
        campaign.client_cpu_s += storm["process_cpu_s"]
        campaign.storm_cpu_s += storm["client_cpu_s"]
        campaign.medians_s.append(storm["median_s"])
        for server in storm["servers"]:
            stamp = stamps.get(server["name"])
            if stamp is None or server["active_s"] is None:
                continue
            low, high = (storm["began_unix_s"] + end for end in server["active_s"])
            campaign.moments.append((storm["began_unix_s"] + server["active_at_s"], stamp))
            campaign.outside += not low <= stamp <= high
            campaign.widths_s.append(high - low)


class Rally:
    """`rally task start` and `rally task report`, with a database of its own: as many storms as contend's campaign.

    The cloud's administrator as clouds.yaml has it. Its servers have no network either: it cannot ask for none, but the
    project that it makes has none, which the compute finds out from neutron.
    """

    def __init__(
        self, name: str, program: Path, place: Path, catalogue: Mapping[str, str], stamps: Stamps, server: Path,
        options: Mapping[str, float],
    ) -> None:  # fmt: skip
        self.name, self._program, self._catalogue, self._stamps = name, program, catalogue, stamps
        self._place = place / name.replace(" ", "-").replace(",", "")
        self._place.mkdir()
        self._wanted = json.loads(server.read_text(encoding="utf-8"))
        told = "".join(f"{key} = {value}\n" for key, value in options.items())
        self._config = self._place / "rally.conf"
        self._config.write_text(
            f"[database]\nconnection = sqlite:///{self._place}/rally.sqlite\n[openstack]\n{told}"
        )
        region = find("").region
        auth = region.get_auth_args()
        admin = {key: auth[key] for key in ("username", "password", "project_name")}
        domains = {key: auth.get(key, "Default") for key in ("user_domain_name", "project_domain_name")}
        spec = {
            "openstack": {
                "auth_url": auth["auth_url"],
                "region_name": region.get_region_name(),
                "endpoint_type": "public",
                "admin": {**admin, **domains},
            }
        }
        (self._place / "spec.json").write_text(json.dumps(spec))
        self._rally("db", "create")
        self._rally("env", "create", "--name", "bench", "--spec", str(self._place / "spec.json"))

    def run(self, n: int, storms: int) -> Campaign:
        campaign = Campaign(self.name, n)
        workload = {
            "args": {
                "flavor": {"id": self._wanted["flavorRef"]},
                "image": {"id": self._wanted["imageRef"]},
                "force_delete": False,
            },
            "runner": {"type": "constant", "times": n, "concurrency": n},
            "context": {"users": {"tenants": 1, "users_per_tenant": 1}},
        }
        task = self._place / "task.json"
        task.write_text(json.dumps({"NovaServers.boot_and_delete_server": [workload] * storms}))
        self._stamps.take()
        client = Campaign(self.name, n)

        def act() -> None:
            # 2: an iteration failed, which is counted.
            spent(client, self._catalogue, lambda: self._rally("task", "start", str(task), fine=(0, 2)))
            self._rally("task", "report", "--out", str(self._place / "report.html"))

        spent(campaign, self._catalogue, act)
        campaign.client_cpu_s, campaign.cloud_cpu_s = client.whole_cpu_s, client.cloud_cpu_s
        file = self._place / "report.json"
        self._rally("task", "report", "--json", "--out", str(file))
        stamps = sorted(at for name, at in self._stamps.take().items() if name.startswith("s_rally_"))
        for workload_told in json.loads(file.read_text())["tasks"][-1]["subtasks"]:
            for one in workload_told["workloads"]:
                self._add(campaign, one["data"], stamps)
        campaign.made = campaign.boots
        return campaign

    def _add(self, campaign: Campaign, data: list[dict[str, Any]], stamps: list[float]) -> None:
        boots = [
            (action["started_at"], action["finished_at"])
            for iteration in data
            for action in iteration["atomic_actions"]
            if action["name"] == "nova.boot_server" and not iteration["error"]
        ]
        campaign.boots += len(data)
        campaign.failed += len(data) - len(boots)
        if not boots:
            return
        ordered = sorted(end - begin for begin, end in boots)
        campaign.medians_s.append((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)
        # It does not tell which server an iteration had. By rank: no other matching makes its errors smaller.
        first, last = min(begin for begin, _ in boots), max(end for _, end in boots)
        true = [at for at in stamps if first <= at <= last]
        ends = sorted(end for _, end in boots)
        if len(true) == len(ends):
            campaign.moments += list(zip(ends, true, strict=True))

    def _rally(self, *words: str, fine: tuple[int, ...] = (0,)) -> None:
        own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OS_CLOUD")}
        call([str(self._program), "--config-file", str(self._config), *words], own, fine)


def call(command: list[str], environment: Mapping[str, str], fine: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=dict(environment), check=False)
    if done.returncode not in fine:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
