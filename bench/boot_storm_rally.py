"""What boot storms cost and tell by contend and by Rally, on one test bed in one run.

    pip install rally-openstack                        in an environment of its own
    eval "$(testbed/openstack/openstack up --without volume --without orchestration)"
    python bench/boot_storm_rally.py --rally VENV/bin/rally [--bed DIR] [--n 20] [--blocks 4] [--minutes 10]
        [--tuned] [--write docs/results/boot-storm-rally]

Each block has a campaign of each tool with storms of n servers and one with storms of one, in random order: what a user
starts (`contend run boot-storm`; `rally task start` and its report; NovaServers.boot_and_delete_server, concurrency n), as
many storms in each. With --tuned, Rally also polls ten times a second, where its default waits one second and then asks
every two. CPU time is of whole processes, start-up, log-in, deletion and reports included; net of start-up is the
difference between storms of n and of one. What each tool reports as the moment of ACTIVE is held against a stamp in
microseconds that a trigger in the bed's own database writes. Ten minutes at most on a quiet machine, or --minutes: blocks
that would end later are left out. Ended early, Rally leaves its servers (s_rally_…) on the cloud.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from contend.clouds.access import Access
from contend.testbed.openstack.__main__ import default_root
from rally_tools import Campaign, Contend, Rally, Stamps, prepare_command
from results.files import save_at
from results.pages import boot_storm_rally
from results.record import recording

# Rally's own defaults are 1 s before the first poll, 1 s between (2 s for deletions).
TUNED = {
    "nova_server_boot_prepoll_delay": 0.0,
    "nova_server_boot_poll_interval": 0.1,
    "nova_server_delete_prepoll_delay": 0.0,
    "nova_server_delete_poll_interval": 0.1,
}


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rally", required=True, type=Path, help="the program")
    parser.add_argument("--bed", type=Path, default=default_root(), help="the test bed's --root")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tuned", action="store_true", help="also with Rally's waits at a tenth of a second")
    parser.add_argument("--write", type=Path, help="the results, with .json and .md added")
    given = parser.parse_args()
    began = time.monotonic()
    seed = random.SystemRandom().randrange(1 << 20)
    with tempfile.TemporaryDirectory() as name, Stamps(given.bed) as stamps:
        campaigns = measure(given, Path(name), stamps, random.Random(seed), began)
    found = {
        "rally": rally_version(given.rally),
        "n": given.n,
        "blocks": [[asdict(campaign) for campaign in block] for block in campaigns],
    }
    print(boot_storm_rally.body(found))
    if given.write:
        save_at(given.write, found, seed=seed)


def measure(
    given: argparse.Namespace, place: Path, stamps: Stamps, chance: random.Random, began: float
) -> list[list[Campaign]]:
    """Blocks of campaigns, each in the order in which they ran."""
    work = place / "work/storm"
    subprocess.run(prepare_command(work), check=True)
    access = Access.load(work.parent / "cloud-access.json")
    assert access is not None
    ours = Contend(place, access.catalogue, stamps)
    warm = show(0, ours.run(1))
    storms = warm.boots  # of one server each
    tools: dict[str, Callable[[int], Campaign]] = {"contend": ours.run}
    for name, options in (("Rally", {}), ("Rally, tuned", TUNED))[: 1 + given.tuned]:
        rally = Rally(name, given.rally, place, access.catalogue, stamps, work / "server.json", options)
        tools[name] = lambda n, rally=rally: rally.run(n, storms)  # type: ignore[misc]
    blocks: list[list[Campaign]] = []
    longest = 0.0
    for number in range(given.blocks):
        start = time.monotonic()
        if start + longest > began + given.minutes * 60:
            print(f"{number} blocks, for want of time", file=sys.stderr)
            break
        turns = [(tool, n) for tool in tools for n in (1, given.n)]
        chance.shuffle(turns)
        blocks.append([show(number + 1, tools[tool](n)) for tool, n in turns])
        longest = max(longest, time.monotonic() - start)
    return blocks


def show(block: int, campaign: Campaign) -> Campaign:
    print(
        f"block {block}: {campaign.tool}, n = {campaign.n}: {campaign.boots} boots, {campaign.failed} failed,"
        f" {campaign.wall_s:.0f} s, {campaign.client_cpu_s:.2f} CPU-s",
        file=sys.stderr,
        flush=True,
    )
    return campaign


def rally_version(program: Path) -> str:
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, env=own, check=True)
    return said.stdout.strip().splitlines()[0]


if __name__ == "__main__":
    main()
