"""What a boot storm's client costs, by contend and by Rally, on one cloud in one run.

    pip install rally-openstack                        in an environment of its own
    eval "$(testbed/openstack/openstack up)"           or a cloud of yours, whose administrator you are
    python bench/boot_storm_rally.py --rally VENV/bin/rally [--n 20] [--rounds 3]

Each round has a storm of N servers by each, in random order, Rally's NovaServers.boot_and_delete_server with concurrency N.
Printed, medians over the rounds: CPU seconds of the client from its start to its end (interpreter, log-in and deletion
included) per 100 boots, the median boot that each reports, and what keystone spent meanwhile, where it runs here. About a
minute a round for 20 on a quiet test bed. Ended early, Rally leaves its servers (s_rally_…) on the cloud.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.clouds.access import Access, find
from contend.clouds.storm import roles


@dataclass
class Cost:
    """Of one storm. Seconds."""

    cpu_s: float
    boot_s: float
    keystone_s: float
    failed: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rally", required=True, help="the program")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "boot-storm-bench"
        place.mkdir()
        ours = Contend(place, given.n)
        theirs = Rally(Path(given.rally), place, given.n, ours.access.catalogue)
        costs: dict[str, list[Cost]] = {"contend": [], "Rally": []}
        for number in range(given.rounds):
            turns = [("contend", ours), ("Rally", theirs)]
            random.shuffle(turns)
            for who, tool in turns:
                costs[who].append(tool.storm(number))
                print(f"round {number + 1}: {who} {costs[who][-1]}", file=sys.stderr, flush=True)
    print(f"{'':10}{'client CPU-s / 100 boots':>26}{'boot, median s':>18}{'keystone CPU-s':>18}{'failed':>8}")
    for who, found in costs.items():
        cpu = statistics.median(c.cpu_s for c in found) * 100 / given.n
        boot = statistics.median(c.boot_s for c in found)
        keystone = statistics.median(c.keystone_s for c in found)
        print(f"{who:10}{cpu:26.2f}{boot:18.2f}{keystone:18.2f}{sum(c.failed for c in found):8d}")
    ratios = [c.cpu_s / r.cpu_s for c, r in zip(costs["contend"], costs["Rally"], strict=True)]
    print(
        f"contend / Rally: {', '.join(f'1/{1 / ratio:.1f}' for ratio in sorted(ratios))} of the client's CPU time"
    )


class Contend:
    """The generator that `contend run boot-storm` runs for each storm; it logs in once for all of them."""

    def __init__(self, place: Path, n: int) -> None:
        self._place, self._n = place, n
        self._files = ["--access", str(place / "access.json"), "--server", str(place / "server.json")]
        self._run("prepare")
        access = Access.load(place / "access.json")
        assert access is not None
        self.access = access

    def storm(self, number: int) -> Cost:
        out = self._place / "work/trials" / f"{number:06d}" / "storm.json"
        out.parent.mkdir(parents=True)
        cpu_s, keystone_s = spent(
            self.access.catalogue,
            lambda: self._run("storm", "--run", str(self._place), "--out", str(out), "--n", str(self._n)),
        )
        told = json.loads(out.read_text())
        return Cost(cpu_s, told["median_s"], keystone_s, told["failed"])

    def _run(self, *words: str) -> None:
        command = [sys.executable, "-P", "-m", "contend.workloads.generators", "boot-storm", *words]
        subprocess.run([*command, *self._files], check=True)


class Rally:
    """Rally with a database of its own, and the cloud's administrator as clouds.yaml has it."""

    def __init__(self, program: Path, place: Path, n: int, catalogue: dict[str, str]) -> None:
        self._program, self._place, self._catalogue = program, place, catalogue
        self._config = place / "rally.conf"
        self._config.write_text(f"[database]\nconnection = sqlite:///{place}/rally.sqlite\n")
        region = find("").region
        auth = region.get_auth_args()
        admin = {
            "username": auth["username"],
            "password": auth["password"],
            "project_name": auth["project_name"],
            "user_domain_name": auth.get("user_domain_name", "Default"),
            "project_domain_name": auth.get("project_domain_name", "Default"),
        }
        spec = {
            "openstack": {
                "auth_url": auth["auth_url"],
                "region_name": region.get_region_name(),
                "endpoint_type": "public",
                "admin": admin,
            }
        }
        wanted = json.loads((place / "server.json").read_text())
        task = {
            "NovaServers.boot_and_delete_server": [
                {
                    "args": {
                        "flavor": {"id": wanted["flavorRef"]},
                        "image": {"id": wanted["imageRef"]},
                        "force_delete": False,
                    },
                    "runner": {"type": "constant", "times": n, "concurrency": n},
                    "context": {"users": {"tenants": 1, "users_per_tenant": 1}},
                }
            ]
        }
        (place / "spec.json").write_text(json.dumps(spec))
        (place / "task.json").write_text(json.dumps(task))
        self._run("db", "create")
        self._run("env", "create", "--name", "bench", "--spec", str(place / "spec.json"))

    def storm(self, number: int) -> Cost:
        cpu_s, keystone_s = spent(
            self._catalogue, lambda: self._run("task", "start", str(self._place / "task.json"))
        )
        file = self._place / f"rally-{number}.json"
        self._run("task", "report", "--json", "--out", str(file))
        data = json.loads(file.read_text())["tasks"][-1]["subtasks"][0]["workloads"][0]["data"]
        boots = [
            atomic["finished_at"] - atomic["started_at"]
            for iteration in data
            for atomic in iteration["atomic_actions"]
            if atomic["name"] == "nova.boot_server" and not iteration["error"]
        ]
        boot_s = statistics.median(boots) if boots else float("nan")
        return Cost(cpu_s, boot_s, keystone_s, sum(bool(iteration["error"]) for iteration in data))

    def _run(self, *words: str) -> None:
        own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "OS_CLOUD")}
        command = [str(self._program), "--config-file", str(self._config), *words]
        done = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def spent(catalogue: Any, act: Any) -> tuple[float, float]:
    """CPU seconds of the processes that `act` starts and waits for, and of keystone meanwhile."""
    ports = roles.ports(catalogue)
    before, own = roles.read(ports), resource.getrusage(resource.RUSAGE_CHILDREN)
    act()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = roles.between(before, roles.read(ports))
    cpu_s = ended.ru_utime + ended.ru_stime - own.ru_utime - own.ru_stime
    return cpu_s, used.get("keystone", 0.0)


if __name__ == "__main__":
    main()
