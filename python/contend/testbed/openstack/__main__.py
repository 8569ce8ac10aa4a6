"""`openstack up | status | down`: the test bed by hand; see testbed/openstack/README.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import sys
import time
from pathlib import Path

from contend.errors import ContendError
from contend.testbed.openstack import cloud, install, status
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.shape import OPTIONAL, Shape


def default_root() -> Path:
    """`$CONTEND_OPENSTACK_DIR`, or this user's own below XDG_DATA_HOME."""
    given = os.environ.get("CONTEND_OPENSTACK_DIR")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(given) if given else Path(data) / "contend/openstack"


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit code, the error's where it fails."""
    given = _parser().parse_args(arguments)
    try:
        code: int = given.run(given)
    except ContendError as error:
        lines = [f"error: {error.message}", *([f"  hint: {error.hint}"] if error.hint else [])]
        print(*lines, sep="\n", file=sys.stderr)
        return error.exit_code
    return code


def _up(given: argparse.Namespace) -> int:
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {what}", file=sys.stderr, flush=True)

    bed = Bed.load_or_make(given.root, given.release)
    changes = {name: getattr(given, name) for name in _KNOBS if getattr(given, name) is not None}
    if "backends" in changes:
        changes["backends"] = tuple(b for b in changes["backends"].split(",") if b and b != "nothing")
    for name in ("without", "options", "patches"):
        if name in changes:
            changes[name] = tuple(sorted(set(changes[name]) - {"nothing"}))
    if "patches" in changes:  # for later calls, from wherever
        changes["patches"] = tuple(str(Path(name).resolve()) for name in changes["patches"])
    traced = None
    if given.traced:
        include = (cloud.BUILD, *given.include)
        traced = cloud.Traced(given.traced.resolve(), include, given.cpu_times)
    with bed.alone():
        cloud.up(bed, dataclasses.replace(cloud.shape_of(bed), **changes), say, traced)
    variables = cloud.variables(bed).items()
    print("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables))
    return 0


def _status(given: argparse.Namespace) -> int:
    """Exit code 0 if all is up, 1 if something is not as it should be, 3 if nothing is up."""
    bed = Bed.load(given.root.resolve())
    rows = status.status(bed) if bed else []
    if given.json:
        services = [{**dataclasses.asdict(row), "log": str(row.log)} for row in rows]
        print(json.dumps({"schema_version": 1, "services": services}, indent=1))
    elif not rows:
        print("nothing is up")
    else:
        print(
            f"{'service':<20} {'state':<9} {'pid':>8} {'processes':>9} {'port':>6} {'MiB':>5} {'CPU s':>7}  log"
        )
        for row in rows:
            print(
                f"{row.service:<20} {row.state:<9} {row.pid or '-':>8} {row.processes:>9} {row.port or '-':>6}"
                f" {row.memory_bytes >> 20:>5} {row.cpu_s:>7.1f}  {row.log}"
            )
        used = sum(row.memory_bytes for row in rows)
        print(f"{sum(row.processes for row in rows)} processes, {used / (1 << 30):.1f} GiB")
    if not rows:
        return 3
    return 0 if all(row.state == "up" for row in rows) else 1


def _down(given: argparse.Namespace) -> int:
    root = given.root.resolve()
    # Its processes outlive a directory that was removed below them.
    bed = Bed.load(root) or Bed(root, "", {})
    ended = cloud.down(bed, wipe=given.wipe)
    print(f"ended {', '.join(ended)}" if ended else "nothing was up")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="openstack", description="A real OpenStack on the loopback device.")
    parser.add_argument(
        "--root", type=Path, default=default_root(), metavar="DIR", help="where it lies: %(default)s"
    )
    verbs = parser.add_subparsers(required=True, metavar="up | status | down")
    up = verbs.add_parser(
        "up",
        help="bring up what is not; says how to reach it",
        description="Bring up what is not, end what is too much, start anew what is asked to be otherwise. An option"
        " that is not given is as it was when the bed was last up; the defaults below are those of a new one.",
    )
    up.add_argument(
        "--release",
        choices=install.RELEASES,
        default="",
        help=f"of OpenStack, for as long as the bed's data live: {install.RELEASES[0]}",
    )
    for name, about in _KNOBS.items():
        option = f"--{name.replace('_', '-')}"
        if name == "without":
            choices = (*OPTIONAL, "nothing")
            up.add_argument(option, action="append", choices=choices, help=about)
        elif name == "notifications":
            up.add_argument(option, action=argparse.BooleanOptionalAction, help=about)
        elif name == "options":
            up.add_argument(
                "--set", action="append", dest=name, metavar="FILE:SECTION.NAME=VALUE", help=about
            )
        elif name == "patches":
            up.add_argument("--patch", action="append", dest=name, metavar="FILE", help=about)
        elif name == "backends":
            up.add_argument(option, metavar="NAMES", help=about)
        elif name == "threads":
            up.add_argument(option, choices=("native", "eventlet"), help=f"{about}: {Shape().threads}")
        else:
            up.add_argument(option, type=int, metavar="K", help=f"{about}: {getattr(Shape(), name)}")
    up.add_argument("--traced", type=Path, metavar="DIR", help="all services as by `contend trace -o DIR`")
    up.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PATTERN",
        help="with --traced: functions to record too, beside a boot's on its host; such as 'nova.compute.manager:*'",
    )
    up.add_argument(
        "--cpu-times", action="store_true", help="with --traced: threads' CPU time and run delay too"
    )
    up.set_defaults(run=_up)
    shown = verbs.add_parser("status", help="each service's state, pid, port, memory and log")
    shown.add_argument("--json", action="store_true", help="for machines")
    shown.set_defaults(run=_status)
    down = verbs.add_parser("down", help="end all that is up")
    down.add_argument("--wipe", action="store_true", help="remove its data, configuration and logs too")
    down.set_defaults(run=_down)
    return parser


_KNOBS = {
    "computes": "hosts with nova's fake driver",
    "libvirt": "hosts (0 or 1) with nova's libvirt driver, whose guests are real, by a libvirt of the bed's own",
    "conductors": "nova-conductor's workers",
    "schedulers": "nova-scheduler's workers",
    "web_workers": "processes of each API",
    "threads": "what nova's services run on",
    "notifications": "nova tells on the bus what happens to its servers",
    "backends": "of volumes that guests can write to, like fast,slow=300 (IOPS a volume), each with a volume type;"
    " 'nothing': none any more",
    "without": "leave it out; may be given more than once",
    "options": "an option of a service's configuration, like nova.conf:api.max_limit=100; 'nothing': none any more",
    "patches": "a unified diff of what services run, with paths like b/nova/compute/manager.py; 'nothing': none any more",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
