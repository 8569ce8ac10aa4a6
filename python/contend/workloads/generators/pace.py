"""Open-loop load on an HTTP or Redis server: `python -m contend.workloads.generators.pace URL --rate N`.

Requests are due at times fixed beforehand (evenly spaced, or Poisson arrivals); a latency counts from the
time the request was due, so a stall of the server shows in full. Prints one JSON document, whose shape is
`contend._native.pace`'s: `latency_s` is what a user waits, `closed_loop_service_s` what a closed-loop tool
would show, `generator_lateness_s` how late this generator was. Runs inside trials: it imports almost nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend import _native
from contend.errors import BadInput, ContendError
from contend.units import parse_duration_ns
from contend.workloads.generators.verbs import failed

if TYPE_CHECKING:
    from contend.probes.observed import Evidence

SCHEMA_VERSION = 1
# Busier than this share of its one CPU, the generator reads answers late and its latencies are partly its own.
BUSY = 0.8


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pace", description="Open-loop load on an HTTP or Redis server.")
    parser.add_argument("url", help="http://HOST:PORT/PATH or redis://HOST:PORT")
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--for", dest="duration", required=True, help="how long requests are due, like 2s")
    parser.add_argument("--connections", type=int, default=16, help="connections kept open (default 16)")
    parser.add_argument("--poisson", action="store_true", help="Poisson arrivals instead of even spacing")
    parser.add_argument("--seed", type=int, default=0, help="of Poisson arrivals and of the keys asked")
    parser.add_argument(
        "--timeout", default="5s", help="a request unanswered this long has failed (default 5s)"
    )
    parser.add_argument("--drain", default="1s", help="wait for answers after the last request (default 1s)")
    parser.add_argument("--keys", type=int, default=1000, help="Redis: number of keys (default 1000)")
    parser.add_argument("--value-bytes", type=int, default=100, help="Redis: length of a value (default 100)")
    parser.add_argument("--set-fraction", type=float, default=0.1, help="Redis: share of SET (default 0.1)")
    parser.add_argument("--out", type=Path, help="write the JSON here instead of to stdout")
    parser.add_argument(
        "--follow", action="store_true", help="write what its server on this host did meanwhile beside --out"
    )
    parser.add_argument(
        "--first",
        action="store_true",
        help="run before whatever else wants a CPU, where this user may; not at more than 2000 requests a second",
    )
    return parser


FIRST_RATE = 2000.0
"""Requests a second up to which who asks may go first: it takes about a sixth of a CPU then, and starves nobody."""


def _first() -> None:
    """Let this thread run before others: who asks late, because a neighbour has the CPU, would make the service look slow.

    It sleeps nearly all of the time, and SCHED_FIFO leaves others a twentieth at least (sched(7)). What is started does not
    inherit it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Load the server at this rate and return the result as it is printed. Raises BadInput, HostFailed."""
    for name in ("connections", "keys", "value_bytes", "seed"):
        value = getattr(options, name)
        if value < (0 if name in ("seed", "value_bytes") else 1):
            raise BadInput(
                f"--{name.replace('_', '-')} {value} is too small", hint="see --help for what it means"
            )

    result = _native.pace(
        options.url,
        rate=options.rate,
        duration_ns=parse_duration_ns(options.duration),
        connections=options.connections,
        poisson=options.poisson,
        seed=options.seed % 2**64,
        timeout_ns=parse_duration_ns(options.timeout),
        drain_ns=parse_duration_ns(options.drain),
        keys=options.keys,
        value_bytes=options.value_bytes,
        set_fraction=options.set_fraction,
    )
    return {
        "schema_version": SCHEMA_VERSION,
        "url": options.url,
        "loop": "open",
        "arrivals": "poisson" if options.poisson else "constant",
        "seed": options.seed,
        "connections": options.connections,
        **result,
    }


class _Server:
    """Follows who serves a URL on this host meanwhile, in a thread of its own. Nothing where that is not to be seen."""

    def __init__(self, url: str, length_s: float) -> None:
        from contend.workloads.generators.listeners import servers

        self._evidence: Evidence | None = None
        self._thread: threading.Thread | None = None
        if pids := servers(url):
            self._thread = threading.Thread(target=self._follow, args=(pids, length_s), daemon=True)
            self._thread.start()

    def _follow(self, pids: Sequence[int], length_s: float) -> None:
        from contend.workloads.generators.follow import follow

        with contextlib.suppress(ContendError):  # it ended: what was asked of it says so
            self._evidence = follow(pids, length_s)

    def write(self, out: Path, result: Mapping[str, Any]) -> None:
        """Write the evidence of its requests: the sum of latencies is what their parts are of."""
        if self._thread is not None:
            self._thread.join()
        evidence = self._evidence
        if evidence is None or not result["ok"]:
            return
        from contend.probes.observed import Observed, put
        from contend.workloads.generators import follow

        # Who serves waits for its peers while there is nothing to do: nobody can tell that from waits for its own services.
        for name in (Observed.WAITED_PEER, Observed.WAITED_COMPLETION):
            evidence.pop(name, None)
        put(evidence, Observed.REQUESTS, result["ok"])
        put(evidence, Observed.MEASURED, result["ok"] * result["latency_s"]["mean"])
        follow.write(out, evidence)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the load and return the exit code: 0 if it ran, 1 if the server was not there, 2 for bad input.

    A server that answers slowly, wrongly or not at all is a result, not a failure: the counts say so.
    """
    options = _parser().parse_args(arguments)
    try:
        server = None
        if options.follow and options.out is not None:
            server = _Server(options.url, parse_duration_ns(options.duration) / 1e9)
        if options.first and options.rate <= FIRST_RATE:
            _first()
        result = run(options)
        if server is not None:
            server.write(options.out.parent, result)
        if result["generator_busy"] > BUSY:
            print(
                f"warning: the generator used {result['generator_busy']:.0%} of a CPU: latencies are partly its own\n"
                f"  hint: lower --rate {options.rate:g}",
                file=sys.stderr,
            )
        text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        if options.out is None:
            sys.stdout.write(text)
        else:
            options.out.write_text(text, encoding="utf-8")
    except ContendError as error:
        return failed(error)
    except OSError as error:
        print(f"error: cannot write the result: {error}\n  hint: does the directory exist?", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
