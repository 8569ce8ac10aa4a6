"""One trial: driver and service processes over a broker, at saturation and at a stated rate, and what it cost each role."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contend.errors import ContendError, HostFailed
from contend.workloads.drivers.rpc import loop, payloads
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process, Starter, cpu_ns, hear_all

SCHEMA_VERSION = 1
PAYLOADS = 512
_SETTLE_S = 30.0
_STALLED_S = 5.0
ROLES = ("client", "service", "broker")
P999_OF = 1000
"""Calls that a p99.9 needs at least: of fewer it would be the largest."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker to call over. urls: of driver and service, which may go to different nodes; they hold passwords. pids: of
    its processes, where they are on this host. environment: of the ends, beside this process's own. bed: the one that
    the ends belong to."""

    urls: tuple[str, str]
    pids: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] | None = None
    bed: Starter | None = None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """A trial of RPC. driver, service: who is who; names of exchange, topic and server are made here. payload: `boot`
    or bytes of a message; rate: calls a second of all pairs together, 0 for no open loop.
    programs: commands of ends by libraries that contend knows nothing of, by the library's name: see `Process`."""

    driver: End
    service: End
    pairs: int = 1
    payload: str = "boot"
    seconds: float = 2.0
    rate: float = 0.0
    warm_s: float = 0.5
    seed: int = 0
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)


def run(
    broker: Broker, options: CallOptions, out: Path, remove: Callable[[Sequence[str], Sequence[str]], None]
) -> dict[str, Any]:
    """Run one trial and return its document. remove: deletes queues and exchanges by their names, those that are there.

    Raises BadInput, HostFailed; whatever happened, nothing of it stays on the broker.
    """
    token = f"contend-{secrets.token_hex(6)}"
    arguments = out / "payloads.json"
    made = payloads.documents(options.payload, PAYLOADS, options.seed)
    arguments.write_text(json.dumps(made), encoding="utf-8")
    services: list[Process] = []
    drivers: list[Process] = []
    ends: list[Process] = []
    fanouts = [f"{token}-{k}_fanout" for k in range(options.pairs)]
    with cleared(ends, remove, [token, *fanouts]):
        for role, url, end, there in (
            ("service", broker.urls[1], options.service, services),
            ("driver", broker.urls[0], options.driver, drivers),
        ):
            for k in range(options.pairs):
                named = replace(
                    end,
                    role=role,
                    exchange=token,
                    topic=f"{token}-{k}",
                    server="service",
                    payloads=str(arguments),
                )
                command = options.programs.get(end.library, ())
                there.append(Process(named, url, broker.environment, command, broker.bed))
                ends.append(there[-1])
            for process in there:
                process.ready()
        return _measure(broker, options, drivers, services)


@contextmanager
def cleared(
    ends: Sequence[Process],
    remove: Callable[[Sequence[str], Sequence[str]], None],
    exchanges: Sequence[str],
) -> Iterator[None]:
    """Stop the ends after the block, drivers first, and remove the queues that they declared, and these exchanges."""
    failed = False
    try:
        yield
    except BaseException:
        failed = True
        raise
    finally:
        for process in reversed(ends):
            process.close()
        try:
            remove([queue for process in ends for queue in process.queues], exchanges)
        except ContendError:
            # A broker that died has nothing left to be removed, and why it died is the news.
            if not failed:
                raise


def _measure(
    broker: Broker, options: CallOptions, drivers: list[Process], services: list[Process]
) -> dict[str, Any]:
    phases = {"saturation": Phase(options.seconds, seed=options.seed)}
    if options.rate:
        phases["open"] = Phase(options.seconds, options.rate / options.pairs, options.seed)
    handled = _handled(services)
    _phase(broker, drivers, services, Phase(options.warm_s), handled)
    measured: dict[str, Any] = {}
    for name, phase in phases.items():
        measured[name] = _phase(broker, drivers, services, phase, _handled(services))
    return {
        "schema_version": SCHEMA_VERSION,
        "clock": "CLOCK_MONOTONIC",
        "broker": dict(broker.about or {}),
        "driver": {"library": options.driver.library, "callers": options.driver.callers},
        "service": {"library": options.service.library},
        "pairs": options.pairs,
        "payload": options.payload,
        "message_bytes": _mean_length(options),
        **measured,
    }


def _mean_length(options: CallOptions) -> float:
    made = payloads.documents(options.payload, PAYLOADS, options.seed)
    return sum(payloads.envelope_free_length(json.dumps(one)) for one in made) / len(made)


def _handled(services: Sequence[Process]) -> list[dict[str, Any]]:
    return [service.ask("counts", _SETTLE_S) for service in services]


def _phase(
    broker: Broker,
    drivers: Sequence[Process],
    services: Sequence[Process],
    phase: Phase,
    before: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Load by all drivers at once, and what it cost. CPU is read before the first is told and after the last has told,
    when the services are done too."""
    roles: dict[str, Sequence[int]] = {
        "client": [driver.pid for driver in drivers],
        "service": [service.pid for service in services],
        "broker": broker.pids,
    }
    cpu = {role: sum(map(cpu_ns, pids)) for role, pids in roles.items()}
    began_ns = time.monotonic_ns()
    for number, driver in enumerate(drivers):
        driver.tell(replace(phase, seed=phase.seed + number).to_json())
    answers = hear_all(drivers, phase.seconds + phase.drain_s + _SETTLE_S)
    after = _settled(services, before, sum(one["sent"] for one in answers))
    used = {role: sum(map(cpu_ns, pids)) - cpu[role] for role, pids in roles.items()}
    counts = {
        name: sum(one[name] for one in answers)
        for name in ("due", "sent", "ok", "refused", "broken", "timed_out", "unfinished", "queued")
    }
    done = counts["ok"]
    if not done:
        errors = [one["last_error"] for one in answers if one["last_error"]]
        raise HostFailed("not one call was answered", hint=errors[-1] if errors else "is the broker up?")
    handled = sum(a["handled"] - b["handled"] for a, b in zip(after, before, strict=True))
    last_ns = max(one["start_ns"] + one["elapsed_ns"] for one in answers)
    if drivers[0].end.cast:
        # What was sent has to be taken too.
        last_ns = max(last_ns, *(int(a["last_ns"]) for a in after))
    elapsed_s = (last_ns - min(one["start_ns"] for one in answers)) / 1e9
    sent = {
        "client_sent": sum(one["bytes_sent"] for one in answers),
        "client_received": sum(one["bytes_received"] for one in answers),
        "service_sent": _difference(after, before, "bytes_sent"),
        "service_received": _difference(after, before, "bytes_received"),
    }
    per_call = {role: used[role] / done / 1e9 for role in ROLES if roles[role]}
    result = {
        "rate_asked": phase.rate * len(drivers) or None,
        "rate": done / elapsed_s,
        "elapsed_s": elapsed_s,
        **counts,
        "handled": handled,
        "last_error": next((one["last_error"] for one in answers if one["last_error"]), ""),
        "cpu_s_per_call": {**per_call, "ends": per_call["client"] + per_call["service"]},
        "bytes_per_call": {**{k: v / done for k, v in sent.items()}, "all": sum(sent.values()) / done},
        "wall_s": (time.monotonic_ns() - began_ns) / 1e9,
    }
    if "broker" in per_call:
        result["cpu_s_per_call"]["all"] = sum(per_call.values())
    if phase.rate:
        result["latency_s"] = latency_s([ns for one in answers for ns in one["waited_ns"]])
        result["lateness_s"] = loop.percentiles([ns for one in answers for ns in one["late_ns"]])
    else:
        # Of a closed loop: a stall hides the calls that it delayed.
        result["service_s"] = {name: _worst(answers, name) for name in ("p50", "p99", "max")}
    return result


def latency_s(waited_ns: Sequence[int]) -> dict[str, float | None]:
    """Percentiles of what calls waited, in seconds; a p99.9 only of P999_OF calls and more.

    >>> [name for name in latency_s(range(200))], "p99.9" in latency_s(range(1000))
    (['p50', 'p90', 'p99', 'max'], True)
    """
    percentiles = loop.percentiles(waited_ns)
    if len(waited_ns) < P999_OF:
        del percentiles["p99.9"]
    return percentiles


def _settled(
    services: Sequence[Process], before: Sequence[Mapping[str, Any]], sent: int
) -> list[dict[str, Any]]:
    """The services' counts once they have taken everything, or have taken nothing more for a while."""
    last, since = -1, time.monotonic()
    while True:
        counts = _handled(services)
        taken = sum(a["handled"] - b["handled"] for a, b in zip(counts, before, strict=True))
        if taken != last:
            last, since = taken, time.monotonic()
        if taken >= sent or time.monotonic() > since + _STALLED_S:
            return counts
        time.sleep(0.05)


def _difference(after: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(a[name]) - int(b[name]) for a, b in zip(after, before, strict=True))


def _worst(answers: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Largest of the pairs' percentiles of this name; None where no pair has one."""
    return max(
        (one["service_s"][name] for one in answers if one["service_s"][name] is not None), default=None
    )
