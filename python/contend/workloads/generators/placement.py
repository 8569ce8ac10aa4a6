"""`{native} network-placement prepare | run | finish`: pairs of instances on hosts and subnets of one machine.

`prepare` makes the namespaces that its cell needs, `finish` removes all that the run has, whoever made them.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

from contend.errors import BadInput
from contend.ledger import Record, path_of
from contend.testbed.placement.bed import Bed, beds
from contend.testbed.placement.layout import ENCAPSULATIONS, MOST_PAIRS, Layout
from contend.testbed.placement.respond import LEAST
from contend.units import parse_duration_ns, parse_size_bytes
from contend.workloads.generators import verbs
from contend.workloads.install import find_command

MOST_DATAGRAM = 65507


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.interruptible(_parser(), arguments)


def check(protocol: str, message: int, encapsulation: str, host: str) -> None:
    """Raises BadInput for what makes no sense together."""
    if protocol == "udp" and message > MOST_DATAGRAM:
        raise BadInput(
            f"a datagram of {message} bytes",
            hint=f"UDP takes messages up to {MOST_DATAGRAM}; or protocols=tcp",
        )
    if encapsulation == "vxlan" and host == "same":
        raise BadInput(
            "nothing is encapsulated within a host", hint="host: different, or encapsulation: none"
        )


def _bed(given: argparse.Namespace, record: Record) -> Bed:
    return Bed(Layout(record.run, given.encapsulation), _place(given), record)


def home(work: Path) -> tuple[str, Path]:
    """The run that a party's directory is of, and its directory; without a run, the directory for itself."""
    work = work.resolve()
    run = work.parent.parent
    return (run.name, run) if path_of(run).exists() else (str(work), work)


def _place(given: argparse.Namespace) -> Path:
    _, directory = home(given.work)
    return directory / "work" / "placement"


def _record(given: argparse.Namespace) -> Record:
    run, directory = home(given.work)
    return Record(path_of(directory), run)


def _prepare(given: argparse.Namespace) -> None:
    check(given.protocol, given.message, given.encapsulation, given.host)
    with _record(given) as record:
        bed = _bed(given, record)
        bed.up(list(bed.layout.instances(given.pairs, given.host, given.subnet)))


def _finish(given: argparse.Namespace) -> None:
    with _record(given) as record:
        for bed in beds(record.run, _place(given), record):
            bed.down()


def _run(given: argparse.Namespace) -> None:
    from contend.testbed.placement import trial

    layout = Layout(home(given.work)[0], given.encapsulation)
    pairs = [
        trial.places(layout.ends(number, given.host, given.subnet)) for number in range(1, given.pairs + 1)
    ]
    seconds = parse_duration_ns(given.duration) / 1e9 / 2
    # Parties of a run share its namespaces, and may send at once.
    port = 20_000 + 2 * (zlib.crc32(given.work.name.encode()) % 10_000)
    asked = trial.Traffic(given.protocol, given.message, seconds, given.rate, given.seed, port)
    told = trial.run(pairs, asked, given.out.parent, str(find_command("iperf3") or "iperf3"))
    given.out.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="network-placement", description="Pairs of instances over hosts and subnets."
    )
    subparsers = parser.add_subparsers(required=True, metavar="prepare | run | finish")
    for name, act, about in (
        ("prepare", _prepare, "make the namespaces"),
        ("run", _run, "a trial"),
        ("finish", _finish, "remove what the run made"),
    ):
        verb = subparsers.add_parser(name, help=about)
        verb.set_defaults(run_verb=act)
        verb.add_argument("--work", type=Path, required=True, help="the party's directory in its run")
        if act is _finish:
            continue
        verb.add_argument("--host", choices=("same", "different"), default="same")
        verb.add_argument("--subnet", choices=("same", "different"), default="same")
        verb.add_argument("--encapsulation", choices=ENCAPSULATIONS, default="none")
        verb.add_argument("--pairs", type=int, choices=range(1, MOST_PAIRS + 1), metavar="N", default=1)
        verb.add_argument("--protocol", choices=("tcp", "udp"), default="tcp")
        verb.add_argument("--message", type=_size, default=1400, help="bytes")
        if act is _run:
            verb.add_argument("--for", dest="duration", default="2s", help="both halves together")
            verb.add_argument("--rate", type=float, default=500.0, help="requests a second of each pair")
            verb.add_argument("--seed", type=int, default=0)
            verb.add_argument("--out", type=Path, required=True, help="the trial's document goes here")
    return parser


def _size(text: str) -> int:
    found = parse_size_bytes(text)
    if found < LEAST:
        raise argparse.ArgumentTypeError(f"at least {LEAST} bytes")
    return found
