"""What another configuration of OpenStack's services is worth: beds side by side, boot storms alternating between them.

    python bench/beds.py --arm '1:--conductors 1' --arm '2:--conductors 2' --arm '4:--conductors 4' --n 10 --blocks 8
    python bench/beds.py --arm 'as it is:' --arm 'changed:--set nova.conf:api.OPTION=VALUE' --swap --n 10 --blocks 8

Every arm is a bed of its own, all of one shape (`--bed` OPTIONS of `openstack up`) but for the options of the arm. One
`contend run` sends the storms: each block has one storm on each bed, in random order, and one more on the first, which is
the A/A control. No service is restarted in between. With --swap, for two arms, the beds then change roles, both are
started anew, and the same is run again; blocks of both runs go into one estimate, in which what differs from bed to bed
is part of the noise. --probe-beds first storms all beds configured as the first arm: the ratio of beds that are alike.
--residents K boots K servers on each bed that stay there: hosts of a cloud in use are not empty.

Writes NAME.json and NAME.md below --out. Each bed takes about 30 CPU-seconds to come up and 1.4 GiB (without volume and
orchestration); a storm of 10 takes about as long as `contend run boot-storm` says, twice that with its deletion.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from contend.clouds.http import Api
from contend.clouds.login import login
from contend.stats.compare import compare
from contend.stats.levels import level
from contend.testbed.openstack import install
from contend.testbed.openstack.bed import CLOUD
from contend.workloads.generators.cloud import server_of
from results.files import save_at
from results.pages import beds as beds_page
from results.record import recording

OPENSTACK = [sys.executable, "-P", "-m", "contend.testbed.openstack"]
# All that an arm may change is said, since a bed keeps what it is not told.
SMALL = (
    "--computes 2 --conductors 1 --schedulers 1 --web-workers 1 --threads native"
    " --without volume --without orchestration"
)
FIGURES = {"median": "median_s", "makespan": "makespan_s", "deletion": "delete_median_s"}
CONTROL = " (control)"


class Arm(NamedTuple):
    """A configuration: what it is called, and options of `openstack up`."""

    name: str
    options: tuple[str, ...]


class Storm(NamedTuple):
    """One storm of a run, in seconds; `cpu_s` of all services, a boot."""

    arm: str
    block: str
    figures: Mapping[str, float]
    cpu_s: float


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", action="append", required=True, metavar="NAME:OPTIONS", type=_arm)
    parser.add_argument("--bed", default=SMALL, metavar="OPTIONS", help="of all beds: %(default)s")
    parser.add_argument("--root", type=Path, metavar="DIR", help="beds go below it; default: a temporary one")
    parser.add_argument("--n", type=int, default=10, help="servers a storm: %(default)s")
    parser.add_argument("--blocks", type=int, default=8, help="of each run: %(default)s")
    parser.add_argument("--residents", type=int, default=0, help="servers that are on each bed: %(default)s")
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--probe-beds", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--name", default="beds")
    parser.add_argument("--keep", action="store_true", help="leave the beds up")
    given = parser.parse_args()
    if given.swap and len(given.arm) != 2:
        parser.error("--swap needs two arms")
    root = (given.root or Path(tempfile.mkdtemp(prefix="beds-"))).resolve()
    beds = [root / f"bed-{number}" for number in range(1, len(given.arm) + 1)]
    try:
        run = _Runs(given, beds, root)
        told = run.all()
    finally:
        for bed in beds if not given.keep else ():
            subprocess.run([*OPENSTACK, "--root", str(bed), "down", "--wipe"], check=False)
    save_at(given.out / given.name, told)
    print(beds_page.body(told))


class _Runs:
    def __init__(self, given: argparse.Namespace, beds: Sequence[Path], root: Path) -> None:
        self._given, self._beds, self._root = given, beds, root
        self._arms: Sequence[Arm] = given.arm

    def all(self) -> dict[str, Any]:
        first = self._arms[0]
        rounds: dict[str, list[Storm]] = {}
        if self._given.probe_beds:
            self._up([first] * len(self._beds))
            rounds["alike"] = self._run("alike", [f"bed {n}" for n, _ in enumerate(self._beds, 1)])
        self._up(self._arms)
        rounds["as named"] = self._run("named", [arm.name for arm in self._arms])
        if self._given.swap:
            self._up([*reversed(self._arms)])
            rounds["swapped"] = self._run("swapped", [arm.name for arm in reversed(self._arms)], turned=True)
        return self._told(rounds)

    def _up(self, arms: Sequence[Arm]) -> None:
        for bed, arm in zip(self._beds, arms, strict=True):
            # What an arm does not say is as the bed has it: say all that some arm says.
            options = [*shlex.split(self._given.bed), "--set", "nothing", "--patch", "nothing", *arm.options]
            _say(f"{bed.name}: {arm.name}")
            subprocess.run(
                [*OPENSTACK, "--root", str(bed), "up", *options], check=True, stdout=subprocess.DEVNULL
            )
            _populate(bed, self._given.residents)

    def _run(self, name: str, clouds: Sequence[str], *, turned: bool = False) -> list[Storm]:
        """Storms on each bed; `clouds`: what each is called in this run. The baseline is the first arm."""
        described = self._root / "clouds.yaml"
        merged = {
            f"bed-{number}": next(iter(yaml.safe_load((bed / "clouds.yaml").read_text())["clouds"].values()))
            for number, bed in enumerate(self._beds, 1)
        }
        described.touch(mode=0o600)
        described.write_text(yaml.safe_dump({"clouds": merged}), encoding="utf-8")
        variants = [
            {"name": called, "parameters": {"cloud": f"bed-{number}"}}
            for number, called in enumerate(clouds, 1)
        ]
        scenario = {
            "study": "compare",
            "title": "What is another configuration of the cloud's services worth?",
            "workload": "boot-storm",
            "parameters": {"n": self._given.n},
            "variants": variants[::-1] if turned else variants,
            "timeout": "10m",
            "measure": {"target": None, "blocks": self._given.blocks, "pilot": 1, "design": "pairs"},
        }
        file = self._root / f"{name}.yaml"
        file.write_text(yaml.safe_dump(scenario, sort_keys=False), encoding="utf-8")
        environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(described)}
        command = [
            sys.executable,
            "-P",
            "-m",
            "contend",
            "run",
            str(file),
            "--runs",
            str(self._root / "runs"),
        ]
        subprocess.run(
            command, env=environment, check=True, stdout=None if sys.stdout.isatty() else sys.stderr
        )
        run = max((self._root / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
        return _storms(run, name)

    def _told(self, rounds: Mapping[str, Sequence[Storm]]) -> dict[str, Any]:
        counted = [storm for name, of in rounds.items() if name != "alike" for storm in of]
        first = self._arms[0].name
        told: dict[str, Any] = {
            "nova": install.versions().get("nova", ""),
            "n": self._given.n,
            "residents": self._given.residents,
            "bed": self._given.bed,
            "arms": {arm.name: shlex.join(arm.options) for arm in self._arms},
            "swapped": self._given.swap,
            "levels": {arm.name: _levels(counted, arm.name) for arm in self._arms},
            "ratios": {arm.name: _ratios(counted, first, arm.name) for arm in self._arms[1:]},
            "control": _ratios(counted, first, first + CONTROL),
            "storms": [storm._asdict() for of in rounds.values() for storm in of],
        }
        if "alike" in rounds:
            others = sorted({storm.arm for storm in rounds["alike"]} - {"bed 1", "bed 1" + CONTROL})
            told["alike"] = {name: _ratios(rounds["alike"], "bed 1", name) for name in others}
        return told


def _populate(bed: Path, residents: int) -> None:
    """Servers by the name of `resident-…`, as many as are not there yet; a few at a time."""
    file = str(bed / "clouds.yaml")
    api = Api(login(CLOUD, file), lambda: login(CLOUD, file))
    try:
        wanted = server_of(api, "", "", "none")
        while True:
            found = api.request("GET", "compute", "/servers?name=resident-&limit=1000").json()["servers"]
            path = "/servers?name=resident-&status=ACTIVE&limit=1000"
            active = api.request("GET", "compute", path).json()["servers"]
            if len(active) >= residents:
                return
            if len(found) - len(active) < 4 and len(found) < residents:
                body = {"server": {**wanted, "name": f"resident-{len(found)}"}}
                api.request("POST", "compute", "/servers", body=body, version="2.37")
            else:
                time.sleep(0.5)
    finally:
        api.close()


def _storms(run: Path, name: str) -> list[Storm]:
    found = []
    for line in (run / "trials.ndjson").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        place = run / "outputs" / f"{int(row.get('trial', 0)):06d}" / "storm.json"
        if row.get("status") != "ok" or row.get("phase") != "counted" or not place.is_file():
            continue
        storm = json.loads(place.read_text(encoding="utf-8"))
        figures = {figure: float(storm[key]) for figure, key in FIGURES.items()}
        cpu = sum(storm["cpu_s"].values()) / max(int(storm["served"]), 1)
        found.append(Storm(row["cell"], f"{name} {row['block']}", figures, cpu))
    return found


def _of(storms: Sequence[Storm], arm: str, figure: str) -> tuple[list[float], list[str]]:
    own = [storm for storm in storms if storm.arm == arm]
    return [storm.figures[figure] for storm in own], [storm.block for storm in own]


def _levels(storms: Sequence[Storm], arm: str) -> dict[str, Any]:
    return {figure: level(_of(storms, arm, figure)[0], "s", 0.95).to_json() for figure in FIGURES}


def _ratios(storms: Sequence[Storm], baseline: str, treatment: str) -> dict[str, Any]:
    found = {}
    for figure in FIGURES:
        (a, of_a), (b, of_b) = _of(storms, baseline, figure), _of(storms, treatment, figure)
        if a and b:
            found[figure] = compare(a, b, blocks=(of_a, of_b)).to_json()
    return found


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _arm(text: str) -> Arm:
    name, colon, options = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME:OPTIONS")
    return Arm(name, tuple(shlex.split(options)))


if __name__ == "__main__":
    main()
