"""`{native} rpc-failures prepare | run | finish`: calls at a stated rate over RabbitMQ while something goes wrong.

Brokers are as those of `rpc`. One that dies is started again by the trial, which is over when it answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from contend.errors import BadInput
from contend.testbed.rabbit import bed
from contend.units import parse_duration_ns
from contend.workloads.drivers.rpc import native, trial
from contend.workloads.drivers.rpc.options import End
from contend.workloads.generators import rpc, verbs
from contend.workloads.generators.failing_broker import trial as failures
from contend.workloads.parameters_file import Placeholders


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload rpc-failures; durations are texts like 2s."""

    library: str
    fault: str
    broker: str
    before: str
    lasts: str
    timeout: str
    in_time: str
    payload: str
    rate: float


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.interruptible(
        arguments,
        Parameters,
        {
            "prepare": lambda given, at: rpc.broker_of(given.broker, at),
            "run": _run,
            "finish": lambda given, at: rpc.finish(given.broker, at),
        },
    )


def _run(given: Parameters, at: Placeholders) -> None:
    rpc.need(["oslo_messaging"] if given.library == "oslo" else [])
    rpc.check_payload(given.payload)
    seconds, before, lasts = at.seconds, _seconds(given.before), _seconds(given.lasts)
    if before + lasts >= seconds:
        raise BadInput(
            f"a fault from {before:g} s on that lasts {lasts:g} s is not over within a load of {seconds:g} s",
            hint="a longer trial (--set measure.trial=60s), or a shorter `lasts`",
        )
    up = rpc.broker_of(given.broker, at)
    _, vhost, quorum = rpc.BROKERS[given.broker]
    url = up.url(vhost)
    about = {"kind": given.broker, "nodes": len(up.ports), "version": up.version}
    broker = trial.Broker((url, url), about=about, bed=bed.members(up.directory))
    end = End(
        role="",
        library=given.library,
        exchange="",
        topic="",
        server="",
        quorum=quorum,
        timeout_s=_seconds(given.timeout),
    )
    options = failures.FailureOptions(
        end,
        given.fault,
        rate=given.rate,
        seconds=seconds,
        before_s=before,
        fault_s=lasts,
        in_time_s=_seconds(given.in_time),
        payload=given.payload,
        seed=at.seed,
    )
    document = failures.run(broker, up, options, at.out, partial(native.remove, url))
    (at.out / "rpc.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _seconds(text: str) -> float:
    return parse_duration_ns(text) / 1e9
