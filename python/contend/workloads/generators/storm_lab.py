"""`storm-lab up | storm | down`: what the workload storm-lab runs; by hand it is testbed/storm-lab/storm-lab."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from contend.testbed.storm_bed import broker, storms
from contend.testbed.storm_lab.options import Storm
from contend.workloads.generators import verbs
from contend.workloads.parameters_file import Placeholders


def main(arguments: Sequence[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(arguments, Storm, {"up": _up, "storm": _storm, "down": _down})


def _lab(at: Placeholders) -> Path:
    """Directory of the broker, one for all that compare it with itself."""
    return at.work.parent / "storm-lab"


def _up(options: Storm, at: Placeholders) -> None:
    storms.up(_lab(at))


def _storm(options: Storm, at: Placeholders) -> None:
    told = storms.storm(_lab(at), dataclasses.replace(options, seed=at.seed))
    (at.out / "storm.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _down(options: Storm, at: Placeholders) -> None:
    broker.stop(_lab(at))
