"""`{native} rpc prepare | run | finish`: calls over RabbitMQ, between ends that are processes of their own.

The broker is brought up by hand on this host, one node or a cluster of three, once for all who share the directory; or
it is the user's, named by the URL in CONTEND_TRANSPORT_URL, and nothing of ours stays on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from contend.errors import BadInput, CannotHonour, ContendError
from contend.testbed.rabbit import bed
from contend.testbed.rpc import native, remote, serialising, trial
from contend.testbed.rpc.options import SERIALISERS, URL, End
from contend.units import parse_duration_ns
from contend.workloads.generators.telling import failed

# Of each broker: nodes, virtual host, whether its queues are quorum queues.
BROKERS = {
    "one": (1, "/", False),
    "cluster": (3, "/", False),
    "mirrored": (3, bed.MIRRORED, False),
    "quorum": (3, "/", True),
}
ELSEWHERE = "elsewhere"
LIBRARIES = ("oslo", "native", "bare")


def main(arguments: Sequence[str]) -> int:
    """The exit code: that of the error where there is one."""
    return act(_parser().parse_args(arguments))


def act(given: argparse.Namespace) -> int:
    """What was asked for; the exit code: that of the error where there is one, which is told.

    SIGTERM, by which a trial is ended, is an interrupt: what is on a broker is removed first.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        given.act(given)
    except ContendError as error:
        return failed(error)
    except KeyboardInterrupt:
        return 130
    return 0


def prepare(given: argparse.Namespace) -> None:
    """Bring the broker up, or ask the user's whether we are welcome."""
    if given.broker == ELSEWHERE:
        remote.check(_url())
    else:
        broker_of(given)


def finish(given: argparse.Namespace) -> None:
    """Take it down, where it is ours."""
    if given.broker != ELSEWHERE:
        bed.down(place_of(given))


def _run(given: argparse.Namespace) -> None:
    library = "oslo" if given.library == "oslo" else "native"
    need(_modules(given, library))
    if library == "native":
        native.program()
    _check(given)
    broker, quorum, remove = _elsewhere() if given.broker == ELSEWHERE else _own(given)
    end = End(
        role="",
        library=library,
        exchange="",
        topic="",
        server="",
        answer_bytes=given.answer,
        semantics="bare" if given.library == "bare" else "oslo",
        envelope=given.envelope,
        serialiser=given.serialiser,
        executor=given.executor,
        cast=given.kind == "cast",
        quorum=quorum,
        callers=given.callers,
    )
    asked = trial.Asked(
        end,
        end,
        pairs=given.pairs,
        payload=given.payload,
        seconds=parse_duration_ns(given.duration) / 1e9 / (2 if given.rate else 1),
        rate=given.rate,
        seed=given.seed,
    )
    measure = serialising.run if given.traced else trial.run
    told = measure(broker, asked, given.out.parent, remove)
    given.out.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def need(modules: Sequence[str]) -> None:
    """Raises CannotHonour for those that are not here."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        raise CannotHonour(
            f"{' and '.join(absent)} not found in {sys.prefix}", hint="pip install 'contend[rpc]'"
        )


def check_payload(payload: str) -> None:
    """Raises BadInput unless it is `boot` or a length."""
    if payload != "boot" and not (payload.isdecimal() and 250 <= int(payload) <= 10**8):
        raise BadInput(f"'payload: {payload}' is no length", hint="boot, or 250 to 100000000 bytes")


def _check(given: argparse.Namespace) -> None:
    """What makes no sense together."""
    check_payload(given.payload)
    if given.serialiser != "json" and given.library != "oslo":
        raise BadInput(
            f"'serialiser: {given.serialiser}' is oslo.messaging's to use", hint="library: oslo, or json"
        )
    if given.traced and given.library != "oslo":
        raise BadInput(
            "what serialising takes is traced in oslo.messaging alone",
            hint="library: oslo, or without --traced",
        )
    if given.executor != "threads" and given.library != "oslo":
        raise BadInput(
            "the native driver has neither threads nor greenlets", hint="library: oslo, or executor: threads"
        )


def _modules(given: argparse.Namespace, library: str) -> list[str]:
    wanted = ["oslo_messaging"] if library == "oslo" else []
    wanted += ["eventlet"] if given.executor == "greenlets" else []
    return wanted + ([given.serialiser] if given.serialiser != "json" else [])


Way = tuple[trial.Broker, bool, Callable[[Sequence[str], Sequence[str]], None]]


def _own(given: argparse.Namespace) -> Way:
    nodes, vhost, quorum = BROKERS[given.broker]
    up = broker_of(given)
    # Driver and service at different nodes, where there are several: as behind a load balancer.
    urls = [bed.Bed.url(_only(up, k), vhost) for k in (0, nodes // 2)]
    told = {"kind": given.broker, "nodes": nodes, "version": up.version}
    broker = trial.Broker((urls[0], urls[1]), tuple(up.servers()), told=told, bed=bed.members(up.place))
    return broker, quorum, partial(native.remove, urls[0])


def _only(up: bed.Bed, number: int) -> bed.Bed:
    """The same, known by one of its nodes: of several, oslo.messaging takes any."""
    return bed.Bed(up.place, (up.ports[number],), up.password, up.version, up.mirrors)


def _elsewhere() -> Way:
    url = _url()
    remote.check(url)
    broker = trial.Broker((url, url), told={"kind": ELSEWHERE})
    return broker, False, partial(remote.remove, url)


def _url() -> str:
    url = os.environ.get(URL, "")
    if not url:
        raise BadInput(f"no broker is named: {URL} is empty", hint=f"{URL}=rabbit://USER:PASSWORD@HOST:5672/")
    return url


def place_of(given: argparse.Namespace) -> Path:
    """Directory of the broker."""
    place: Path = given.beds / f"rabbit-{BROKERS[given.broker][0]}"
    return place


def broker_of(given: argparse.Namespace) -> bed.Bed:
    """The broker, which is up when this returns. Raises CannotHonour, HostFailed."""
    native.program()  # contend's own driver removes queues, whichever library declared them
    nodes, vhost, _ = BROKERS[given.broker]
    up = bed.up(place_of(given), nodes)
    if vhost == bed.MIRRORED and not up.mirrors:
        raise CannotHonour(
            f"RabbitMQ {up.version} has no mirrored queues", hint="they left with 4.0: use quorum"
        )
    return up


def yes(text: str) -> bool:
    """As YAML writes a truth."""
    return text.lower() in ("true", "yes", "on", "1")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rpc", description="Calls over RabbitMQ.")
    verbs = parser.add_subparsers(required=True)
    for name, act, about in (
        ("prepare", prepare, "bring the broker up, unless it is"),
        ("run", _run, "load it, first as much as it takes, then at a stated rate"),
        ("finish", finish, "take it down"),
    ):
        verb = verbs.add_parser(name, help=about, description=about)
        verb.set_defaults(act=act)
        verb.add_argument("--beds", type=Path, required=True, help="directory of brokers that are brought up")
        verb.add_argument("--broker", choices=(*BROKERS, ELSEWHERE), default="one")
        if act is _run:
            _options(verb)
    return parser


def _options(verb: argparse.ArgumentParser) -> None:
    def add(name: str, **how: Any) -> None:
        verb.add_argument(f"--{name}", **how)

    add("out", type=Path, required=True, help="the document")
    add("for", dest="duration", default="4s", help="both loads together")
    add("library", choices=LIBRARIES, default="oslo")
    add("envelope", type=yes, default=True)
    add("serialiser", choices=SERIALISERS, default="json")
    add("kind", choices=("call", "cast"), default="call")
    add("executor", choices=("threads", "greenlets"), default="threads")
    add("callers", type=int, default=10)
    add("pairs", type=int, default=1)
    add("payload", default="boot", help="boot, or the bytes of a message")
    add("answer", type=int, default=300, help="bytes of an answer")
    add("rate", type=float, default=0.0, help="calls a second of the second load; 0: there is none")
    add("seed", type=int, default=0)
    add("traced", type=yes, default=False, help="tell what serialising takes, in place of the second load")
