"""`{native} rpc-failures prepare | run | finish`: calls at a stated rate over RabbitMQ while something goes wrong.

Brokers are as those of `rpc`. One that dies is started again by the trial, which is over when it answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from contend.errors import BadInput
from contend.testbed.rabbit import bed
from contend.testbed.rpc import failures, faults, native, trial
from contend.testbed.rpc.options import End
from contend.units import parse_duration_ns
from contend.workloads.generators import rpc

LIBRARIES = ("oslo", "native")
BROKERS = ("one", "cluster", "mirrored", "quorum")


def main(arguments: Sequence[str]) -> int:
    """The exit code: that of the error where there is one."""
    return rpc.act(_parser().parse_args(arguments))


def _run(given: argparse.Namespace) -> None:
    rpc.need(["oslo_messaging"] if given.library == "oslo" else [])
    rpc.check_payload(given.payload)
    seconds, before, lasts = (_seconds(text) for text in (given.duration, given.before, given.lasts))
    if before + lasts >= seconds:
        raise BadInput(
            f"a fault from {before:g} s on that lasts {lasts:g} s is not over within a load of {seconds:g} s",
            hint="a longer trial (--set measure.trial=60s), or a shorter `lasts`",
        )
    up = rpc.broker_of(given)
    _, vhost, quorum = rpc.BROKERS[given.broker]
    url = up.url(vhost)
    told = {"kind": given.broker, "nodes": len(up.ports), "version": up.version}
    broker = trial.Broker((url, url), told=told, bed=bed.members(up.place))
    end = End(
        role="",
        library=given.library,
        exchange="",
        topic="",
        server="",
        quorum=quorum,
        timeout_s=_seconds(given.timeout),
    )
    asked = failures.Asked(
        end,
        given.fault,
        rate=given.rate,
        seconds=seconds,
        before_s=before,
        fault_s=lasts,
        in_time_s=_seconds(given.in_time),
        payload=given.payload,
        seed=given.seed,
    )
    found = failures.run(broker, up, asked, given.out.parent, partial(native.remove, url))
    given.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _seconds(text: str) -> float:
    return parse_duration_ns(text) / 1e9


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rpc-failures", description="Calls over RabbitMQ, and a fault.")
    verbs = parser.add_subparsers(required=True)
    for name, act, about in (
        ("prepare", rpc.prepare, "bring the broker up, unless it is"),
        ("run", _run, "call at a stated rate, and let something go wrong"),
        ("finish", rpc.finish, "take it down"),
    ):
        verb = verbs.add_parser(name, help=about, description=about)
        verb.set_defaults(act=act)
        verb.add_argument("--beds", type=Path, required=True, help="directory of brokers that are brought up")
        verb.add_argument("--broker", choices=BROKERS, default="one")
        if act is not _run:
            continue
        verb.add_argument("--out", type=Path, required=True, help="the document")
        verb.add_argument("--for", dest="duration", default="8s", help="all of the load")
        verb.add_argument("--library", choices=LIBRARIES, default="oslo")
        verb.add_argument("--fault", choices=faults.NAMES, default="kill")
        verb.add_argument("--before", default="2s", help="until the fault")
        verb.add_argument("--lasts", default="2s", help="how long it lasts")
        verb.add_argument("--timeout", default="5s", help="a call waits for its answer so long")
        verb.add_argument("--in-time", default="1s", help="an answer that takes longer is a late one")
        verb.add_argument("--payload", default="boot", help="boot, or the bytes of a message")
        verb.add_argument("--rate", type=float, default=20.0, help="calls a second")
        verb.add_argument("--seed", type=int, default=0)
    return parser
