"""One trial: all pairs at once send as much as they can, then request and answer at a stated rate."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from contend.errors import ContendError, TrialFailed
from contend.platforms import network
from contend.platforms.guests import respond
from contend.ranks import nearest
from contend.workloads.drivers.placement import cpu

IDLE_S = 0.3
"""How long the host is looked at before anything is sent."""
_READY_S, _LATE_S = 10.0, 15.0
P999_OF = 1000
"""Requests that a p99.9 needs at least: of fewer it would be the largest."""


class EndHost(Protocol):
    """Runs an end of a pair: here in a network namespace; it could be an instance of a cloud."""

    @property
    def address(self) -> str: ...
    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]: ...
    def call(self, act: Callable[[], Any]) -> Called: ...
    def listening(self, port: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic of each pair.

    rate: requests a second of each pair; seconds: of each of the two halves; port: of iperf3, the next is the
    requests'."""

    protocol: respond.Protocol
    message: int
    seconds: float
    rate: float
    seed: int
    port: int = 5201


@dataclass
class Called:
    """A child process that runs a function and writes its result as JSON."""

    pid: int
    result_fd: int

    def result(self, until_s: float) -> Any:
        """The child's result. Raises TrialFailed when it failed or was not done in time."""
        parts = []
        while True:
            left = until_s - time.monotonic()
            if left <= 0 or not select.select([self.result_fd], [], [], left)[0]:
                raise TrialFailed("an end of a pair did not end in time", hint="is the host overloaded?")
            data = os.read(self.result_fd, 1 << 20)
            if not data:
                break
            parts.append(data)
        answer = json.loads(b"".join(parts) or b'{"error": "it ended without a word"}')
        if "error" in answer:
            raise TrialFailed(f"an end of a pair failed: {answer['error']}")
        return answer["result"]

    def end(self) -> None:
        """Kill and reap it. Idempotent."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.result_fd)
            self.pid = 0


@dataclass(frozen=True, slots=True)
class InNamespace:
    """An end in a network namespace of this host."""

    namespace: str
    address: str

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        with network.inside(self.namespace):
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )

    def call(self, act: Callable[[], Any]) -> Called:
        """Run a function in the namespace, in a forked child: this process has one thread, so that is safe."""
        out, into = os.pipe()
        if pid := os.fork():
            os.close(into)
            return Called(pid, out)
        code = 1
        try:
            try:
                with network.inside(self.namespace):
                    answer = {"result": act()}
                code = 0
            except (OSError, ContendError) as error:
                answer = {"error": str(error)}
            with os.fdopen(into, "wb") as file:
                file.write(json.dumps(answer).encode())
        finally:
            os._exit(code)

    def listening(self, port: int) -> bool:
        return network.listening(self.namespace, port)


Pair = tuple[EndHost, EndHost]
"""Client and server."""


def run(pairs: Sequence[Pair], traffic: Traffic, out: Path, iperf3: str = "iperf3") -> dict[str, Any]:
    """Run one trial and return its document. Raises TrialFailed."""
    moved = _send(pairs, traffic, out, iperf3)
    return {"schema_version": 1, **asdict(traffic), "pairs": len(pairs), **moved, **_request(pairs, traffic)}


# ---- as much as they can


def _send(pairs: Sequence[Pair], traffic: Traffic, out: Path, iperf3: str) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        servers = []
        for _, server in pairs:
            argv = [iperf3, "--server", "--port", str(traffic.port), "--one-off", "--interval", "0"]
            servers.append(stack.enter_context(_ended(server.start(argv))))
        for (_, server), process in zip(pairs, servers, strict=True):
            _await(functools.partial(server.listening, traffic.port), process)
        idle = _idle()
        before = cpu.Reading.now()
        clients = [
            stack.enter_context(_ended(client.start(_client(traffic, server.address, out, number, iperf3))))
            for number, (client, server) in enumerate(pairs)
        ]
        used_s = [_reaped(process, traffic.seconds + _LATE_S) for process in clients]
        after = cpu.Reading.now()
        used_s += [_reaped(process, _LATE_S) for process in servers]
    read = [
        iperf(json.loads((out / f"iperf3-{n}.json").read_text(encoding="utf-8"))) for n in range(len(pairs))
    ]
    return moved(read, cpu.spent(idle, (before, after)), math.fsum(used_s))


def _client(traffic: Traffic, address: str, out: Path, number: int, iperf3: str) -> list[str]:
    argv = [iperf3, "--client", address, "--port", str(traffic.port), "--length", str(traffic.message)]
    argv += [
        "--time",
        str(max(1, round(traffic.seconds))),
        "--json",
        "--logfile",
        str(out / f"iperf3-{number}.json"),
    ]
    if traffic.protocol == "udp":
        argv += ["--udp", "--bitrate", "0"]
    (out / f"iperf3-{number}.json").unlink(missing_ok=True)  # it appends
    return argv


def iperf(document: dict[str, Any]) -> dict[str, float]:
    """Figures of one iperf3 client on what arrived: bytes, bytes a second, datagrams sent and lost (0 of TCP).

    Raises TrialFailed with its own words.
    """
    if document.get("error"):
        raise TrialFailed(
            f"iperf3: {document['error']}", hint="ip netns exec NAMESPACE iperf3 --client … shows it"
        )
    end = document["end"]
    if document["start"]["test_start"]["protocol"] == "UDP":
        # Of UDP `sum` is what was sent, with the losses that the receiver saw.
        total = end["sum"]
        sent, lost = float(total["packets"]), float(total["lost_packets"])
        kept = (sent - lost) / sent if sent else 0.0
        arrived = kept * float(total["bytes"])
        return {"bytes": arrived, "rate": arrived / float(total["seconds"]), "sent": sent, "lost": lost}
    total = end["sum_received"]
    return {
        "bytes": float(total["bytes"]),
        "rate": float(total["bits_per_second"]) / 8,
        "sent": 0.0,
        "lost": 0.0,
    }


def moved(read: Sequence[dict[str, float]], spent: cpu.Spent, ends_s: float) -> dict[str, Any]:
    """Figures of all pairs together: what arrived, and CPU seconds for 10^9 bytes of it.

    >>> of = {"bytes": 1e9, "rate": 5e8, "sent": 1000.0, "lost": 10.0}
    >>> told = moved([of, of], cpu.Spent(3.0, 1.0, 0.1), 2.5)
    >>> told["throughput"]["bytes_per_s"], told["cpu_s_per_gb"]["host"], told["delivered"]
    (1000000000.0, 1.5, 0.99)
    """
    arrived = math.fsum(of["bytes"] for of in read)
    sent, lost = math.fsum(of["sent"] for of in read), math.fsum(of["lost"] for of in read)
    if arrived <= 0:
        raise TrialFailed(
            "nothing arrived", hint="was a host, an instance or the router of the run removed meanwhile?"
        )
    gb = arrived / 1e9
    return {
        "throughput": {
            "bytes_per_s": math.fsum(of["rate"] for of in read),
            "bytes": arrived,
            "by_pair": [of["rate"] for of in read],
        },
        "cpu_s_per_gb": {
            # On a busy machine others go without meanwhile; what both ends took was certainly spent.
            "host": max(spent.host_s, ends_s) / gb,
            "ends": ends_s / gb,
            "softirq": max(0.0, spent.softirq_s) / gb,
        },
        "busy_before": spent.idle_share,
        **({"delivered": (sent - lost) / sent} if sent else {}),
    }


def _idle() -> tuple[cpu.Reading, cpu.Reading]:
    first = cpu.Reading.now()
    time.sleep(IDLE_S)
    return first, cpu.Reading.now()


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _await(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_S
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            errors = (
                process.stderr.read().decode(errors="replace")
                if process.poll() is not None and process.stderr
                else ""
            )
            raise TrialFailed(
                "an iperf3 server did not listen", hint=errors.strip()[-200:] or "is the host overloaded?"
            )
        time.sleep(0.002)


def _reaped(process: subprocess.Popen[bytes], within_s: float) -> float:
    """CPU seconds of a process, once it has ended. One that fails tells why in its document, or here."""
    until = time.monotonic() + within_s
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > until:
            raise TrialFailed("iperf3 did not end in time", hint="is the host overloaded?")
        time.sleep(0.01)
    if process.returncode < 0:
        raise TrialFailed(f"iperf3 was ended by signal {-process.returncode}")
    return usage.ru_utime + usage.ru_stime


# ---- at a stated rate


def _request(pairs: Sequence[Pair], traffic: Traffic) -> dict[str, Any]:
    servers: list[Called] = []
    clients: list[Called] = []
    try:
        for _, server in pairs:
            serve = functools.partial(_serve, traffic, server.address)
            servers.append(server.call(serve))
        until = time.monotonic() + traffic.seconds + respond.DRAIN_S + _LATE_S
        for number, (client, server) in enumerate(pairs):
            due = respond.schedule(traffic.rate, traffic.seconds, traffic.seed + number)
            clients.append(client.call(functools.partial(_pace, traffic, server.address, due)))
        results = [client.result(until) for client in clients]
    finally:
        for child in (*clients, *servers):
            child.end()
    return requests(results)


def _serve(traffic: Traffic, address: str) -> None:
    with respond.listen(traffic.protocol, address, traffic.port + 1) as served:
        respond.answer(served, traffic.message)


def _pace(traffic: Traffic, address: str, due: list[int]) -> dict[str, Any]:
    # The servers were forked a moment ago.
    until = time.monotonic() + _READY_S
    while True:
        try:
            of = respond.pace(
                traffic.protocol,
                address,
                traffic.port + 1,
                message=traffic.message,
                due_ns=due,
                seconds=traffic.seconds,
            )
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return {"due": of.due, "latencies_s": of.latencies_s, "lateness_s": of.lateness_s}


def requests(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures of all pairs: percentiles of what a user waits, of how late the pacer was, and how many were answered.

    >>> one = {"due": 4, "latencies_s": [0.001, 0.002, 0.003], "lateness_s": [0.0] * 4}
    >>> found = requests([one, one])
    >>> found["latency_s"]["p50"], found["answered"], "p99.9" in found["latency_s"]
    (0.002, 0.75, False)
    """
    waits = sorted(wait for of in results for wait in of["latencies_s"])
    late = sorted(wait for of in results for wait in of["lateness_s"])
    due = sum(of["due"] for of in results)
    if not waits:
        raise TrialFailed(f"none of {due} requests was answered", hint="a lower rate, or fewer pairs")
    latency = {"p50": nearest(waits, 0.5), "p99": nearest(waits, 0.99)}
    if len(waits) >= P999_OF:
        latency["p99.9"] = nearest(waits, 0.999)
    return {
        "latency_s": latency,
        "lateness_s": {"p99": nearest(late, 0.99)},
        "due": due,
        "answered": len(waits) / due,
    }
