"""`openstack up | status | down`: the test bed by hand; see testbed/openstack/README.md."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from contend.errors import BadInput, ContendError
from contend.testbed.openstack import cloud
from contend.testbed.openstack.bed import CLOUD, Bed


def default_root() -> Path:
    """`$CONTEND_OPENSTACK_DIR`, or this user's own below XDG_DATA_HOME."""
    given = os.environ.get("CONTEND_OPENSTACK_DIR")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(given) if given else Path(data) / "contend/openstack"


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    given = _parser().parse_args(arguments)
    try:
        code: int = given.run(given)
    except ContendError as error:
        told = [f"error: {error.message}", *([f"  hint: {error.hint}"] if error.hint else [])]
        print(*told, sep="\n", file=sys.stderr)
        return error.exit_code
    return code


def _up(given: argparse.Namespace) -> int:
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {what}", file=sys.stderr, flush=True)

    if given.computes < 1:
        raise BadInput("a cloud has at least one compute", hint="--computes 1")
    bed = Bed.load_or_make(given.root)
    shape = cloud.Shape(
        given.computes,
        given.conductors,
        given.schedulers,
        given.web_workers,
        tuple(given.without),
        given.traced.resolve() if given.traced else None,
    )
    cloud.up(bed, shape, say)
    print(f"export OS_CLIENT_CONFIG_FILE={bed.clouds_yaml} OS_CLOUD={CLOUD}")
    return 0


def _status(given: argparse.Namespace) -> int:
    """Exit code 3 if nothing is up."""
    bed = Bed.load(given.root.resolve())
    found = cloud.status(bed) if bed else {}
    for service, processes in found.items():
        print(f"{service:<24} {processes} process{'es' if processes > 1 else ''}")
    if not found:
        print("nothing is up")
    return 0 if found else 3


def _down(given: argparse.Namespace) -> int:
    bed = Bed.load(given.root.resolve())
    found = cloud.down(bed, wipe=given.wipe) if bed else []
    print(f"ended {', '.join(found)}" if found else "nothing was up")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="openstack", description="A real OpenStack on the loopback device.")
    parser.add_argument(
        "--root", type=Path, default=default_root(), metavar="DIR", help="where it lies: %(default)s"
    )
    verbs = parser.add_subparsers(required=True, metavar="up | status | down")
    up = verbs.add_parser("up", help="bring up what is not; says how to reach it")
    up.add_argument(
        "--computes", type=int, default=3, metavar="K", help="hosts with nova's fake driver: %(default)s"
    )
    up.add_argument(
        "--conductors", type=int, default=2, metavar="K", help="nova-conductor's workers: %(default)s"
    )
    up.add_argument(
        "--schedulers", type=int, default=1, metavar="K", help="nova-scheduler's workers: %(default)s"
    )
    up.add_argument(
        "--web-workers", type=int, default=2, metavar="K", help="processes of each API: %(default)s"
    )
    up.add_argument(
        "--without",
        action="append",
        default=[],
        choices=("network", "volume", "orchestration"),
        help="leave it out; may be given more than once",
    )
    up.add_argument("--traced", type=Path, metavar="DIR", help="all services under `contend trace -o DIR`")
    up.set_defaults(run=_up)
    verbs.add_parser("status", help="how many processes each service has").set_defaults(run=_status)
    down = verbs.add_parser("down", help="end all that is up")
    down.add_argument("--wipe", action="store_true", help="remove its data, configuration and logs too")
    down.set_defaults(run=_down)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
