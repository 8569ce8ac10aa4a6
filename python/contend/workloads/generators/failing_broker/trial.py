"""One trial with a fault in its middle: calls at a stated rate, each known by its number on both sides."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import payloads
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process
from contend.workloads.drivers.rpc.reckoning import Call, Fault, reckon
from contend.workloads.drivers.rpc.trial import PAYLOADS, Broker, cleared
from contend.workloads.generators.failing_broker import faults

SCHEMA_VERSION = 1
_SETTLE_S = 30.0
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FailureOptions:
    """A trial with a fault. end: of both roles. rate: calls a second; before_s: until the fault; fault_s: how long it lasts;
    seconds: of the whole load; in_time_s: an answer that takes longer does not count as flowing."""

    end: End
    fault: str
    rate: float
    seconds: float
    before_s: float
    fault_s: float
    in_time_s: float
    payload: str = "boot"
    seed: int = 0


def run(
    broker: Broker,
    up: bed.Bed | None,
    options: FailureOptions,
    out: Path,
    remove: Callable[[Sequence[str], Sequence[str]], None],
) -> dict[str, Any]:
    """Run one trial and return its document. up: the broker, where it is the run's own. Raises BadInput, HostFailed;
    whatever happened, the fault is undone and nothing of the trial stays on the broker."""
    faults.check(options.fault, up)
    token = f"contend-{secrets.token_hex(6)}"
    arguments = out / "payloads.json"
    made = payloads.documents(options.payload, PAYLOADS, options.seed)
    arguments.write_text(json.dumps(made), encoding="utf-8")
    drawn = random.Random(f"nodes/{options.seed}")
    nodes = len(up.ports) if up is not None else 1
    # Which node fails and which ones the native driver begins with is chance, as oslo.messaging's own choice is.
    failing, hosts = drawn.randrange(nodes), [drawn.randrange(nodes) for _ in range(2)]
    # Enough of them that nobody waits for a caller before its call has timed out.
    callers = round(options.rate * options.end.timeout_s * 1.2) + 10
    end = replace(
        options.end,
        exchange=token,
        topic=f"{token}-0",
        server="service",
        payloads=str(arguments),
        callers=callers,
        reconnect=True,
        keep_calls=True,
    )
    ends: list[Process] = []
    with cleared(ends, remove, [token, f"{token}-0_fanout"]):
        for role, url, host in (
            ("service", broker.urls[1], hosts[1]),
            ("driver", broker.urls[0], hosts[0]),
        ):
            ends.append(Process(replace(end, role=role, host=host), url, broker.environment, of=broker.bed))
            ends[-1].ready()
        service, driver = ends
        target = faults.FaultTarget(up, failing, service, options.rate)
        answer, began, undone = _load(driver, target, options)
        handled = service.ask("calls", _SETTLE_S)["calls"]
    start_ns = answer["start_ns"]
    fault = Fault(_after(began, start_ns), _after(undone, start_ns))
    calls = [Call(number, due, done, outcome) for number, due, done, outcome in answer["calls"]]
    if not any(call.outcome == "ok" for call in calls):
        raise HostFailed("not one call was answered", hint=answer["last_error"] or "is the broker up?")
    return {
        "schema_version": SCHEMA_VERSION,
        "clock": "CLOCK_MONOTONIC",
        "broker": dict(broker.about or {}),
        "library": options.end.library,
        "fault": {"kind": options.fault, "about": faults.ABOUT[options.fault], "node": failing},
        "rate": options.rate,
        "timeout_s": options.end.timeout_s,
        "in_time_s": options.in_time_s,
        "last_error": answer["last_error"],
        "reconnects": answer.get("reconnects"),  # of the driver; oslo.messaging does not tell
        "lateness_s": answer["lateness_s"],
        **reckon(calls, handled, fault, round(options.in_time_s * 1e9)),
    }


def _load(
    driver: Process, target: faults.FaultTarget, options: FailureOptions
) -> tuple[dict[str, Any], Span, Span]:
    drain_s = options.end.timeout_s + 5
    phase = Phase(options.seconds, options.rate, options.seed, drain_s, poisson=False, calls=True)
    driver.tell(phase.to_json())
    began, undone = faults.suffer(options.fault, target, options.fault_s, after_s=options.before_s)
    return driver.hear(options.seconds + drain_s + _SETTLE_S), began, undone


def _after(times: tuple[int, int], start_ns: int) -> tuple[int, int]:
    return times[0] - start_ns, times[1] - start_ns
