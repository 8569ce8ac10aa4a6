"""`rpc`, `rpc-elsewhere`, `rpc-serialising`: calls over RabbitMQ, between ends that are processes of their own.

The broker is brought up by hand on this host, one node or a cluster of three, once for all who share the directory; or
it is the user's, named by the URL in CONTEND_TRANSPORT_URL, and nothing of ours stays on it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from contend.errors import BadInput, CannotHonour
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import native, remote, serialising, trial
from contend.workloads.drivers.rpc.options import URL, End
from contend.workloads.generators import verbs
from contend.workloads.parameters_file import Placeholders

# Of each broker: nodes, virtual host, whether its queues are quorum queues.
BROKERS = {
    "one": (1, "/", False),
    "cluster": (3, "/", False),
    "mirrored": (3, bed.MIRRORED, False),
    "quorum": (3, "/", True),
}
ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serialising:
    """Parameters of the workload rpc-serialising."""

    envelope: bool
    serialiser: str
    kind: str
    callers: int
    payload: str
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere(Serialising):
    """Parameters of the workload rpc-elsewhere."""

    library: str
    executor: str
    pairs: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Elsewhere):
    """Parameters of the workload rpc."""

    broker: str


def main(arguments: Sequence[str]) -> int:
    """Run a verb of the workload rpc and return the exit code, the error's where it fails."""
    return verbs.interruptible(
        arguments,
        Parameters,
        {
            "prepare": lambda given, at: broker_of(given.broker, at),
            "run": _run,
            "finish": lambda given, at: finish(given.broker, at),
        },
    )


def elsewhere(arguments: Sequence[str]) -> int:
    """Run a verb of the workload rpc-elsewhere: calls over a broker of the user's, after a login has proved that it may."""
    return verbs.interruptible(
        arguments,
        Elsewhere,
        {
            "prepare": lambda given, at: remote.check(_url()),
            "run": lambda given, at: _run(Parameters(broker=ELSEWHERE, **asdict(given)), at),
        },
    )


def serialising_alone(arguments: Sequence[str]) -> int:
    """Run a verb of the workload rpc-serialising: measures what serialising takes, instead of the second load."""

    def run(given: Serialising, at: Placeholders) -> None:
        whole = Parameters(
            broker="one", library="oslo", executor="threads", pairs=1, rate=0.0, **asdict(given)
        )
        _run(whole, at, traced=True)

    return verbs.interruptible(
        arguments,
        Serialising,
        {
            "prepare": lambda given, at: broker_of("one", at),
            "run": run,
            "finish": lambda given, at: finish("one", at),
        },
    )


def finish(broker: str, at: Placeholders) -> None:
    """Take the broker down."""
    bed.down(directory_of(broker, at))


def _run(given: Parameters, at: Placeholders, *, traced: bool = False) -> None:
    library = "oslo" if given.library == "oslo" else "native"
    need(_modules(given, library))
    if library == "native":
        native.program()
    _check(given)
    broker, quorum, remove = _elsewhere() if given.broker == ELSEWHERE else _own(given.broker, at)
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
    options = trial.CallOptions(
        end,
        end,
        pairs=given.pairs,
        payload=given.payload,
        seconds=at.seconds / (2 if given.rate else 1),
        rate=given.rate,
        seed=at.seed,
    )
    measure = serialising.run if traced else trial.run
    document = measure(broker, options, at.out, remove)
    (at.out / "rpc.json").write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def need(modules: Sequence[str]) -> None:
    """Check that these Python modules are installed. Raises CannotHonour."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        raise CannotHonour(
            f"{' and '.join(absent)} not found in {sys.prefix}", hint="pip install 'contend[rpc]'"
        )


def check_payload(payload: str) -> None:
    """Raises BadInput unless it is `boot` or a length."""
    if payload != "boot" and not (payload.isdecimal() and 250 <= int(payload) <= 10**8):
        raise BadInput(f"'payload: {payload}' is no length", hint="boot, or 250 to 100000000 bytes")


def _check(given: Parameters) -> None:
    """Check that these parameters go together. Raises BadInput."""
    check_payload(given.payload)
    if given.serialiser != "json" and given.library != "oslo":
        raise BadInput(
            f"'serialiser: {given.serialiser}' is oslo.messaging's to use", hint="library: oslo, or json"
        )
    if given.executor != "threads" and given.library != "oslo":
        raise BadInput(
            "the native driver has neither threads nor greenlets", hint="library: oslo, or executor: threads"
        )


def _modules(given: Parameters, library: str) -> list[str]:
    wanted = ["oslo_messaging"] if library == "oslo" else []
    wanted += ["eventlet"] if given.executor == "greenlets" else []
    return wanted + ([given.serialiser] if given.serialiser != "json" else [])


Way = tuple[trial.Broker, bool, Callable[[Sequence[str], Sequence[str]], None]]


def _own(kind: str, at: Placeholders) -> Way:
    nodes, vhost, quorum = BROKERS[kind]
    up = broker_of(kind, at)
    # Driver and service at different nodes, where there are several: as behind a load balancer.
    urls = [bed.Bed.url(_only(up, k), vhost) for k in (0, nodes // 2)]
    about = {"kind": kind, "nodes": nodes, "version": up.version}
    broker = trial.Broker((urls[0], urls[1]), tuple(up.servers()), about=about, bed=bed.members(up.directory))
    return broker, quorum, partial(native.remove, urls[0])


def _only(up: bed.Bed, number: int) -> bed.Bed:
    """The same, known by one of its nodes: of several, oslo.messaging takes any."""
    return bed.Bed(up.directory, (up.ports[number],), up.password, up.version, up.mirrors)


def _elsewhere() -> Way:
    url = _url()
    remote.check(url)
    broker = trial.Broker((url, url), about={"kind": ELSEWHERE})
    return broker, False, partial(remote.remove, url)


def _url() -> str:
    url = os.environ.get(URL, "")
    if not url:
        raise BadInput(f"no broker is named: {URL} is empty", hint=f"{URL}=rabbit://USER:PASSWORD@HOST:5672/")
    return url


def directory_of(broker: str, at: Placeholders) -> Path:
    """Directory of the broker, one for all workloads of the run."""
    return at.work.parent / f"rabbit-{BROKERS[broker][0]}"


def broker_of(broker: str, at: Placeholders) -> bed.Bed:
    """Bring the broker up, unless it is, and return it. Raises CannotHonour, HostFailed."""
    native.program()  # contend's own driver removes queues, whichever library declared them
    nodes, vhost, _ = BROKERS[broker]
    up = bed.up(directory_of(broker, at), nodes)
    if vhost == bed.MIRRORED and not up.mirrors:
        raise CannotHonour(
            f"RabbitMQ {up.version} has no mirrored queues", hint="they left with 4.0: use quorum"
        )
    return up
