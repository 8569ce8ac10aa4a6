"""`{native} network-placement prepare | run | finish`: pairs of instances on hosts and subnets of one machine.

`prepare` makes the namespaces that its cell needs, `finish` removes all that the run has, whoever made them.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from contend.errors import BadInput
from contend.platforms.guests.respond import Protocol
from contend.platforms.programs import find_command
from contend.store.ledger import Record
from contend.store.state import ledger_of
from contend.testbed.placement.bed import Bed, beds
from contend.testbed.placement.layout import Encapsulation, Layout, Where
from contend.workloads.generators import verbs
from contend.workloads.parameters_file import Placeholders

MOST_DATAGRAM = 65507


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload network-placement."""

    host: Where
    subnet: Where
    encapsulation: Encapsulation
    protocol: Protocol
    message: int
    pairs: int
    rate: float


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.interruptible(arguments, Parameters, {"prepare": _prepare, "run": _run, "finish": _finish})


def check(protocol: str, message: int, encapsulation: str, host: str) -> None:
    """Check that these parameters go together. Raises BadInput."""
    if protocol == "udp" and message > MOST_DATAGRAM:
        raise BadInput(
            f"a datagram of {message} bytes",
            hint=f"UDP takes messages up to {MOST_DATAGRAM}; or protocols=tcp",
        )
    if encapsulation == "vxlan" and host == "same":
        raise BadInput(
            "nothing is encapsulated within a host", hint="host: different, or encapsulation: none"
        )


def home(work: Path) -> tuple[str, Path]:
    """Id and directory of the run that a workload's directory belongs to; without a run, the directory itself."""
    work = work.resolve()
    run = work.parent.parent
    return (run.name, run) if ledger_of(run).exists() else (str(work), work)


def _bed_directory(work: Path) -> Path:
    _, directory = home(work)
    return directory / "work" / "placement"


def _record(work: Path) -> Record:
    run, directory = home(work)
    return Record(ledger_of(directory), run)


def _prepare(given: Parameters, at: Placeholders) -> None:
    check(given.protocol, given.message, given.encapsulation, given.host)
    with _record(at.work) as record:
        bed = Bed(Layout(record.run, given.encapsulation), _bed_directory(at.work), record)
        bed.up(list(bed.layout.instances(given.pairs, given.host, given.subnet)))


def _finish(given: Parameters, at: Placeholders) -> None:
    with _record(at.work) as record:
        for bed in beds(record.run, _bed_directory(at.work), record):
            bed.down()


def _run(given: Parameters, at: Placeholders) -> None:
    from contend.workloads.drivers.placement import trial

    layout = Layout(home(at.work)[0], given.encapsulation)
    ends = [layout.ends(number, given.host, given.subnet) for number in range(1, given.pairs + 1)]
    pairs = [
        (
            trial.InNamespace(of.client.namespace, of.client.address),
            trial.InNamespace(of.server.namespace, of.server.address),
        )
        for of in ends
    ]
    # Parties of a run share its namespaces, and may send at once.
    port = 20_000 + 2 * (zlib.crc32(at.work.name.encode()) % 10_000)
    traffic = trial.Traffic(given.protocol, given.message, at.seconds / 2, given.rate, at.seed, port)
    document = trial.run(pairs, traffic, at.out, str(find_command("iperf3") or "iperf3"))
    (at.out / "placement.json").write_text(
        json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
