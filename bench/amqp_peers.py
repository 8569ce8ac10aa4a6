"""What a call costs by other Rust drivers of AMQP, lapin and amqprs, beside contend's own and oslo.messaging, in one run.

All do the same work over one broker: both ends by one library, a process each, ten callers, confirmed, acknowledged and
mandatory messages, a named queue for replies, oslo.messaging's messages with its envelope, the same payloads and answers.
The three in Rust write and read messages by the same code (crates/amqp), on one connection with one channel, so that they
differ in the driver alone. lapin and amqprs run on tokio, with a thread for each CPU as it comes, and again on one thread
("one-thread"; lapin has a thread of its own for its socket even so). A block is one trial of each, in random order; CPU time
of driver, service and broker is their processes' own clock; ratios are to contend's own driver, within blocks, with 95 %
intervals.

The peers are built by cargo (Rust 1.88 or later) from bench/amqp_peers, which is no part of contend's workspace.

    python bench/amqp_peers.py [--blocks 10] [--seconds 3] [--payload 1000] [--write PATH]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from contend.environment import fingerprint
from contend.errors import CannotHonour, ContendError
from contend.stats.compare import compare
from contend.testbed.rabbit import bed
from contend.workloads.downloads.built import find_cargo
from contend.workloads.drivers.rpc import native, payloads, trial
from contend.workloads.drivers.rpc.options import End
from results.files import save_at
from results.record import recording

PEERS = ("lapin", "amqprs")
# What is measured: a library, and how it is run.
DRIVERS: Mapping[str, tuple[str, str]] = {
    "native": ("native", "threads"),
    "lapin": ("lapin", "threads"),
    "lapin one-thread": ("lapin", "one-thread"),
    "amqprs": ("amqprs", "threads"),
    "amqprs one-thread": ("amqprs", "one-thread"),
    "oslo": ("oslo", "threads"),
}
ROLES = ("client", "service", "broker", "ends", "all")
_PROJECT = Path(__file__).with_suffix("")
_BUILT = Path(__file__).parents[1] / "target" / "amqp-peers"
_BUILD_S = 1800


def build() -> Path:
    """The program of the peers' ends; cargo downloads what its lock file names. Raises CannotHonour."""
    cargo = find_cargo()
    if cargo is None:
        raise CannotHonour("there is no cargo to build lapin and amqprs with", hint="https://rustup.rs")
    words = [cargo, "build", "--release", "--locked", "--quiet", "--manifest-path", f"{_PROJECT}/Cargo.toml"]
    done = subprocess.run(
        [*words, "--target-dir", str(_BUILT)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    if done.returncode:
        raise CannotHonour(f"the peers do not build:\n{done.stderr}", hint="they need Rust 1.88 or later")
    return _BUILT / "release" / "amqp-peers"


def programs(place: Path) -> dict[str, Sequence[str]]:
    """Commands of the peers' ends, by the library. Their services answer what contend's own does: a file in `place`."""
    made = payloads.document(End("", "", "", "", "").answer_bytes, random.Random(0))
    answer = place / "answer.json"
    answer.write_text(json.dumps(made), encoding="utf-8")
    command = (str(build()), str(answer))
    return dict.fromkeys(PEERS, command)


def versions() -> dict[str, str]:
    """Of the peers, as they are locked."""
    locked = (_PROJECT / "Cargo.lock").read_text(encoding="utf-8")
    return dict(re.findall(rf'name = "({"|".join(PEERS)})"\nversion = "([^"]+)"', locked))


@recording()
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--payload", default="1000", help="bytes of a message, or boot")
    parser.add_argument("--callers", type=int, default=10)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="contend-amqp-") as place:
            document = measured(Path(place), given)
    except ContendError as error:
        print(f"error: {error.message}\n  hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    tell(document)
    if given.write:
        save_at(given.write, document)
    return 0


def measured(place: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All blocks, and what they say. Of the broker nothing is left."""
    commands = programs(place)
    try:
        up = bed.up(place / "rabbit")
        rows = [block(up, place, number, given, commands) for number in range(given.blocks)]
    finally:
        bed.down(place / "rabbit")
    return {
        "schema_version": 1,
        "environment": fingerprint(),
        "broker": up.version,
        "versions": versions(),
        "payload": given.payload,
        "callers": given.callers,
        "blocks": rows,
        "ratios": {name: ratios(rows, name) for name in DRIVERS if name != "native"},
    }


def block(
    up: bed.Bed, place: Path, number: int, given: argparse.Namespace, commands: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """One trial of each, in random order."""
    order = list(DRIVERS)
    random.Random(number).shuffle(order)
    broker = trial.Broker((up.url(), up.url()), tuple(up.servers()), {bed.MARK: str(up.directory)})
    row: dict[str, Any] = {"order": order}
    for name in order:
        library, executor = DRIVERS[name]
        end = End("", library, "", "", "", callers=given.callers, executor=executor)
        asked = trial.CallOptions(
            end,
            end,
            payload=given.payload,
            seconds=given.seconds,
            warm_s=min(1.0, given.seconds),
            seed=number,
            programs=commands,
        )
        told = trial.run(broker, asked, place, partial(native.remove, up.url()))
        row[name] = told["saturation"]
    print(f"block {number + 1}: " + ", ".join(line(row, name) for name in DRIVERS), file=sys.stderr)
    return row


def line(row: Mapping[str, Any], name: str) -> str:
    told = row[name]
    return f"{name} {told['rate']:.0f} calls/s, {1e3 * told['cpu_s_per_call']['ends']:.3f} CPU-s per 1,000"


def ratios(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The driver's over contend's own, within blocks: CPU time of a call by role, and calls a second."""
    found = {
        f"cpu_{role}": compare(
            [row["native"]["cpu_s_per_call"][role] for row in rows],
            [row[name]["cpu_s_per_call"][role] for row in rows],
        ).to_json()
        for role in ROLES
    }
    rates = ([row["native"]["rate"] for row in rows], [row[name]["rate"] for row in rows])
    return found | {"rate": compare(*rates).to_json()}


def tell(document: Mapping[str, Any]) -> None:
    rows = document["blocks"]
    print(f"{'':<20} CPU-s per 1,000 calls, both ends   ratio [95 %]         calls/s   ratio [95 %]")
    for name in DRIVERS:
        cpu = 1e3 * statistics.median(row[name]["cpu_s_per_call"]["ends"] for row in rows)
        rate = statistics.median(row[name]["rate"] for row in rows)
        of = document["ratios"].get(name)
        shown = ["1", "1"] if of is None else [ratio(of["cpu_ends"]), ratio(of["rate"])]
        print(f"{name:<20} {cpu:>32.4f}   {shown[0]:<20} {rate:>7.0f}   {shown[1]}")


def ratio(told: Mapping[str, Any]) -> str:
    """Without an interval where there are too few blocks for one."""
    if told["low"] is None or told["high"] is None:
        return f"{told['value']:.2f}"
    return f"{told['value']:.2f} [{told['low']:.2f}, {told['high']:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
