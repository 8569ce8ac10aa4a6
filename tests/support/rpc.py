"""A broker of the tests' own, and ends of RPCs over it."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from contend.testbed.rabbit import bed, node
from contend.workloads.drivers.rpc import native
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process
from contend.workloads.drivers.rpc.trial import Broker
from contend.workloads.generators.failing_broker import trial as failures
from support.prerequisites import need


@contextmanager
def broker(place: Path, nodes: int = 1, more: Sequence[str] = ()) -> Iterator[bed.Bed]:
    """A bed, of which nothing is left afterwards. more: lines for its rabbitmq.conf."""
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    need(importlib.util.find_spec("oslo_messaging"), "pip install oslo.messaging")
    try:
        yield bed.up(place, nodes, more)
    finally:
        bed.down(place)
        assert not bed.pids(place)


def listed(up: bed.Bed, *words: str) -> list[list[str]]:
    """Rows of what rabbitmqctl says."""
    program = node.server()
    assert program is not None
    said = bed.control(up.directory, program, bed.ports(up)[0], "--quiet", *words, "--no-table-headers")
    return [line.split("\t") for line in said.splitlines() if line]


def queues(up: bed.Bed, vhost: str = "/") -> list[str]:
    return [row[0] for row in listed(up, "list_queues", "--vhost", vhost, "name")]


@contextmanager
def serving(url: str, topic: str, **options: Any) -> Iterator[Process]:
    """A native service. options: as End has them."""
    service = Process(End("service", "native", f"{topic}-x", topic, "one", **options), url, {})
    try:
        service.ready()
        yield service
    finally:
        service.close()


def counts(service: Process) -> dict[str, Any]:
    return service.ask("counts", 30.0)


@contextmanager
def calling(
    url: str, topic: str, payloads: Sequence[Mapping[str, Any]] = ({},), **options: Any
) -> Iterator[Process]:
    """A native driver. payloads: the calls' arguments; options: as End has them."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "payloads.json"
        file.write_text(json.dumps(list(payloads)))
        options = {"exchange": f"{topic}-x", "topic": topic, "server": "", "payloads": str(file), **options}
        driver = Process(End("driver", "native", **options), url, {})
        try:
            driver.ready()
            yield driver
        finally:
            driver.close()


def load(driver: Process, seconds: float, **options: Any) -> dict[str, Any]:
    """What came of it. options: as Phase has them."""
    phase = Phase(seconds, **options)
    return driver.ask(phase.to_json(), seconds + phase.drain_s + 30)


def end(role: str, library: str, **options: Any) -> End:
    """Its names are the trial's to make."""
    return End(role=role, library=library, exchange="", topic="", server="", **options)


def over(up: bed.Bed, vhost: str = "/") -> Broker:
    url = up.url(vhost)
    return Broker((url, url), tuple(up.servers()), bed=bed.members(up.directory))


def remover(url: str) -> Any:
    return partial(native.remove, url)


def suffer(up: bed.Bed, library: str, fault: str, out: Path, **options: Any) -> dict[str, Any]:
    """A trial with a fault in its middle, of which nothing is left, and whose calls are all accounted for."""
    out.mkdir(exist_ok=True)
    options = {"rate": 20.0, "seconds": 45.0, "before_s": 5.0, "fault_s": 5.0, "in_time_s": 1.0, **options}
    timeout_s = options.pop("timeout_s", 10.0)
    own = end("", library, quorum=len(up.ports) > 1, timeout_s=timeout_s)
    asked = failures.FailureOptions(own, fault, **options, payload="1000")
    broker = Broker((up.url(),) * 2, bed=bed.members(up.directory))
    told = failures.run(broker, up, asked, out, remover(up.url()))
    print(library, fault, len(up.ports), json.dumps(told))
    assert up.answers
    assert queues(up) == []
    ways = [told[way]["count"] for way in ("answered", "lost", "failed")]
    assert sum(ways) == told["sent"] == round(asked.rate * asked.seconds)
    for way in ("answered", "late", "lost", "failed", "duplicated", "done_unheard"):
        assert told[way]["low"] <= told[way]["share"] <= told[way]["high"]
    return told
