"""What a call costs by contend's native AMQP driver and by oslo.messaging, over one broker, in turn, in one run.

Both ends by the same library, a process each, ten callers, confirmed and acknowledged messages, a named queue for replies,
the envelope, the same payloads; the native driver's calls are mandatory, too, oslo.messaging's are not. A block is one trial
of each, in random order; CPU time of driver, service and broker is their processes' own clock. To be reached: 0.12 CPU-s per
1,000 calls of driver and service together, 8,000 calls a second, and how much more oslo.messaging takes, as a ratio with its
interval.

    python bench/rpc_drivers.py [--blocks 10] [--seconds 3] [--payload 1000] [--write docs/results/rpc-drivers]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from contend.stats.compare import compare
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import native, trial
from contend.workloads.drivers.rpc.options import End
from results.files import save_at
from results.record import recording

ROLES = ("client", "service", "broker", "ends", "all")
LEAST_RATE, MOST_CPU_S = 8000, 0.12


@recording()
def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--payload", default="1000", help="bytes of a message, or boot")
    parser.add_argument("--callers", type=int, default=10)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.blocks < 6:
        parser.error("--blocks: an interval takes 6 at least")
    place = Path(tempfile.mkdtemp(prefix="contend-rpc-"))
    try:
        up = bed.up(place / "rabbit")
        rows = [block(up, place, number, given) for number in range(given.blocks)]
    finally:
        bed.down(place / "rabbit")
    document = {
        "broker": up.version,
        "payload": given.payload,
        "callers": given.callers,
        "blocks": rows,
        "ratios": ratios(rows),
    }
    tell(rows, document["ratios"])
    if given.write:
        save_at(given.write, document)
    return 0


def block(up: bed.Bed, place: Path, number: int, given: argparse.Namespace) -> dict[str, Any]:
    """One trial of each, in random order."""
    libraries = ["oslo", "native"]
    random.Random(number).shuffle(libraries)
    broker = trial.Broker((up.url(), up.url()), tuple(up.servers()), {bed.MARK: str(up.directory)})
    row: dict[str, Any] = {"order": libraries}
    for library in libraries:
        end = End("", library, "", "", "", callers=given.callers)
        asked = trial.CallOptions(
            end, end, payload=given.payload, seconds=given.seconds, warm_s=1.0, seed=number
        )
        told = trial.run(broker, asked, place, partial(native.remove, up.url()))
        row[library] = told["saturation"]
    print(
        f"block {number + 1}: " + ", ".join(line(row, library) for library in sorted(libraries)),
        file=sys.stderr,
    )
    return row


def line(row: dict[str, Any], library: str) -> str:
    told = row[library]
    return f"{library} {told['rate']:.0f} calls/s, {1e3 * told['cpu_s_per_call']['ends']:.3f} CPU-s per 1,000"


def ratios(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """oslo.messaging over native, within blocks."""
    found = {
        f"cpu_{role}": compare(
            [row["native"]["cpu_s_per_call"][role] for row in rows],
            [row["oslo"]["cpu_s_per_call"][role] for row in rows],
        ).to_json()
        for role in ROLES
    }
    rates = ([row["native"]["rate"] for row in rows], [row["oslo"]["rate"] for row in rows])
    return found | {"rate": compare(*rates).to_json()}


def tell(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    def median(library: str, role: str) -> float:
        return 1e3 * statistics.median(row[library]["cpu_s_per_call"][role] for row in rows)

    print("CPU-s per 1,000 calls    native   oslo.messaging   ratio [95 %]")
    for role in ROLES:
        told = found[f"cpu_{role}"]
        print(
            f"{role:<22} {median('native', role):>8.4f} {median('oslo', role):>12.3f}"
            f"       {told['value']:.1f} [{told['low']:.1f}, {told['high']:.1f}]"
        )
    rate = statistics.median(row["native"]["rate"] for row in rows)
    print(f"calls/s                {rate:>8.0f} {statistics.median(r['oslo']['rate'] for r in rows):>12.0f}")
    ends = median("native", "ends")
    print(f"native, both ends: {ends:.4f} CPU-s per 1,000 calls (at most {MOST_CPU_S}: {ends <= MOST_CPU_S})")
    print(f"native: {rate:.0f} calls/s (at least {LEAST_RATE}: {rate >= LEAST_RATE})")


if __name__ == "__main__":
    sys.exit(main())
