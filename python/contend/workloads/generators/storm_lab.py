"""`storm-lab up | storm | down`: what the workload storm-lab runs; and storms by hand, testbed/storm-lab/storm-lab."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contend.errors import BadInput, ContendError
from contend.testbed.rabbit import bed
from contend.workloads.drivers import storms
from contend.workloads.drivers.storm_lab.options import Storm
from contend.workloads.generators import verbs
from contend.workloads.generators.verbs import failed
from contend.workloads.parameters_file import Placeholders


def main(arguments: Sequence[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.run(arguments, Storm, {"up": _prepare, "storm": _run, "down": _finish})


def _lab_of(at: Placeholders) -> Path:
    """Directory of the broker, one for all that compare it with itself."""
    return at.work.parent / "storm-lab"


def _prepare(options: Storm, at: Placeholders) -> None:
    storms.check()
    bed.up(_lab_of(at))


def _run(options: Storm, at: Placeholders) -> None:
    document = storm(_lab_of(at), dataclasses.replace(options, seed=at.seed))
    (at.out / "storm.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _finish(options: Storm, at: Placeholders) -> None:
    bed.down(_lab_of(at))


def storm(lab: Path, options: Storm) -> dict[str, Any]:
    """Run one storm and return its document. Raises CannotHonour, HostFailed."""
    with services(lab, options) as running:
        return running.storm(options)


@contextmanager
def services(lab: Path, options: Storm) -> Iterator[storms.Services]:
    """Services for storms while the block runs, over the laboratory's broker: brought up if it is down, and then taken
    down."""
    storms.check()
    there = bed.load(lab)
    stays = there is not None and there.answers
    try:
        with storms.Services(bed.members(lab), bed.up(lab).url(), options) as running:
            yield running
    finally:
        if not stays:
            bed.down(lab)


# ---- by hand


def default_lab() -> Path:
    """Directory of this user's laboratory: `$CONTEND_STORM_LAB_DIR`, or a directory below the one for what lives as long
    as a session."""
    given = os.environ.get("CONTEND_STORM_LAB_DIR")
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "contend-storm-lab"
    return Path(tempfile.gettempdir()) / f"contend-storm-lab-{os.getuid()}"


def by_hand(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    given = _parser().parse_args(arguments)
    try:
        lab = given.lab if given.lab is not None else default_lab()
        code: int = given.run(lab, given)
    except ContendError as error:
        return failed(error)
    return code


def _up(lab: Path, given: argparse.Namespace) -> int:
    storms.check()
    print(bed.up(lab).url())
    return 0


def _down(lab: Path, given: argparse.Namespace) -> int:
    ended = bed.down(lab)
    print(f"ended {len(ended)} processes" if ended else "nothing was up")
    return 0


def _status(lab: Path, given: argparse.Namespace) -> int:
    """Exit code 3 if no broker answers."""
    up = bed.load(lab)
    url = up.url() if up is not None and up.answers else ""
    print(f"{url or 'down'}; {len(bed.pids(lab))} processes; files in {lab}")
    return 0 if url else 3


def _storm(lab: Path, given: argparse.Namespace) -> int:
    try:
        options = Storm.parse(given.option)
    except ValueError as error:
        raise BadInput(str(error), hint="storm-lab options shows them all") from error
    result = storm(lab, options)
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    else:
        json.dump(result, sys.stdout, indent=1)
        print()
    print(
        f"{result['jobs']} boots: median {result['median_s']:.2f} s, p90 {result['p90_s']:.2f}, max {result['max_s']:.2f},"
        f" makespan {result['makespan_s']:.2f}; the host's CPUs {result['host_cpu_share']:.0%} busy",
        file=sys.stderr,
    )
    return 0


def _options(lab: Path, given: argparse.Namespace) -> int:
    for field in dataclasses.fields(Storm):
        choices = field.metadata["choices"]
        among = f" ({' | '.join(choices)})" if choices else ""
        value = str(field.default).lower() if isinstance(field.default, bool) else field.default
        print(f"{f'{field.name}={value}':<26} {field.metadata['about']}{among}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="storm-lab", description="A control plane under a boot storm.")
    parser.add_argument("--lab", type=Path, metavar="DIR", help="the laboratory's directory")
    verbs = parser.add_subparsers(required=True, metavar="up | status | storm | down | options")
    for name, run, about in (
        ("up", _up, "start the broker, unless it is up; print its URL"),
        ("status", _status, "whether it is up, and how many processes there are"),
        ("down", _down, "end the broker and whatever else is left, also of a storm that was killed"),
        ("options", _options, "what a storm can be told, with the defaults"),
    ):
        verbs.add_parser(name, help=about, description=about).set_defaults(run=run)
    storm = verbs.add_parser("storm", help="run a storm; with its own broker if none is up")
    storm.add_argument("option", nargs="*", metavar="NAME=VALUE", help="storm-lab options shows them")
    storm.add_argument("-o", "--out", type=Path, metavar="FILE", help="the document goes here, not to stdout")
    storm.set_defaults(run=_storm)
    return parser


if __name__ == "__main__":
    sys.exit(by_hand(sys.argv[1:]))
