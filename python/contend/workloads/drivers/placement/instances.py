"""One trial between instances, over SSH: what `contend.workloads.drivers.placement.trial` does between namespaces.

Each end runs one command a half, which reads its own /proc/stat around the tool, so that no SSH is in what it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contend.clouds.instances.placed import Placed
from contend.clouds.instances.reach import Way, connect
from contend.errors import HostFailed, TrialFailed
from contend.platforms import ssh
from contend.platforms.guests import respond
from contend.platforms.ssh import Unreached
from contend.workloads.drivers.placement import cpu
from contend.workloads.drivers.placement.trial import Traffic, iperf, moved, requests

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

TICKS_PER_S = 100
"""Of /proc/stat: USER_HZ, which Linux keeps at 100 for all that is in clouds."""
IDLE_S = 1
_MARK = "contend-cpu"
_LATE_S = 30.0
_STAT = f's() {{ echo "{_MARK} $(cut -d" " -f1 /proc/uptime) $(head -n 1 /proc/stat)"; }}'

Ends = tuple[tuple[str, Placed], tuple[str, Placed]]
"""Role and place of a pair's client and server."""


def run(pairs: Sequence[Ends], traffic: Traffic, way: Way) -> dict[str, Any]:
    """Run one trial and return its document. Raises TrialFailed, HostFailed."""
    return asyncio.run(_run(pairs, traffic, way))


async def _run(pairs: Sequence[Ends], traffic: Traffic, way: Way) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        opened = await asyncio.gather(
            *(connect(role, instance, way) for pair in pairs for role, instance in pair),
            return_exceptions=True,
        )
        for connection in opened:
            if not isinstance(connection, BaseException):
                stack.push_async_callback(_closed, connection)
        for connection in opened:
            if isinstance(connection, BaseException):
                raise connection
        ends = [
            _Pair(client, server, pair[1][1].address)
            for pair, client, server in zip(pairs, opened[::2], opened[1::2], strict=True)
        ]  # fmt: skip
        sent = await _send(ends, traffic)
        answered = await _request(ends, traffic)
    return {"schema_version": 1, **asdict(traffic), "pairs": len(pairs), **sent, **answered}


async def _closed(connection: SSHClientConnection) -> None:
    connection.close()
    await connection.wait_closed()


class _Pair:
    """Connections to both ends, and the server's address as the client sees it."""

    def __init__(self, client: Any, server: Any, address: str) -> None:
        self.client: SSHClientConnection = client
        self.server: SSHClientConnection = server
        self.address = address


async def _send(pairs: Sequence[_Pair], traffic: Traffic) -> dict[str, Any]:
    limit_s = traffic.seconds + IDLE_S + _LATE_S
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                _started(pair.server, server_words(traffic, pair.address, limit_s), "Server listening")
            )
            for pair in pairs
        ]
        outputs = await asyncio.gather(
            *(_output(pair.client, client_words(traffic, pair.address, limit_s), limit_s) for pair in pairs)
        )
        heard = await asyncio.gather(*(_rest(server, _LATE_S) for server in servers))
    return figures([*outputs], [*heard])


def figures(clients: Sequence[str], servers: Sequence[str]) -> dict[str, Any]:
    """Sum up all pairs, from both ends' output. CPU seconds are those of the guests, beyond what each
    is busy without load; what their hosts spend for them is not seen. Raises TrialFailed."""
    spent = [spent_of(output) for output in (*clients, *servers)]
    read = [iperf(document_of(output)) for output in clients]
    together = cpu.Spent(
        math.fsum(of.host_s for of in spent),
        math.fsum(of.softirq_s for of in spent),
        math.fsum(of.idle_share for of in spent),
    )
    totals = moved(read, together, 0.0)
    by = totals.pop("cpu_s_per_gb")
    return {**totals, "guests_cpu_s_per_gb": {"all": by["host"], "softirq": by["softirq"]}}


def client_words(traffic: Traffic, address: str, limit_s: float) -> str:
    """Shell command of a pair's client."""
    words = f"iperf3 --client {address} --port {traffic.port} --length {traffic.message}"
    words += f" --time {max(1, round(traffic.seconds))} --json"
    words += " --udp --bitrate 0" if traffic.protocol == "udp" else ""
    return f"{_STAT}; s; sleep {IDLE_S}; s; timeout {limit_s:.0f} {words}; s"


def server_words(traffic: Traffic, address: str, limit_s: float) -> str:
    """Shell command of a pair's server, which ends by itself when no client comes. It is bound, so that answers to datagrams
    come from the address that the client sent to."""
    words = f"iperf3 --server --bind {address} --one-off --forceflush --port {traffic.port}"
    return f"{_STAT}; s; sleep {IDLE_S}; s; timeout {limit_s:.0f} {words}; s"


def spent_of(output: str) -> cpu.Spent:
    """CPU seconds of a guest, from the three readings around its tool. Raises TrialFailed."""
    readings: list[cpu.Reading] = []
    with contextlib.suppress(ValueError):  # then one is missing
        for line in output.splitlines():
            mark, _, text = line.partition(" ")
            if mark == _MARK:
                uptime, _, stat = text.partition(" ")
                readings.append(cpu.parse(stat, round(float(uptime) * 1e9), TICKS_PER_S))
    if len(readings) != 3:
        raise TrialFailed(f"an instance did not tell its CPU time: {output.strip()[-200:]!r}")
    return cpu.spent((readings[0], readings[1]), (readings[1], readings[2]))


def document_of(output: str) -> dict[str, Any]:
    """Parse what iperf3 printed between the readings. Raises TrialFailed."""
    text = "\n".join(line for line in output.splitlines() if not line.startswith(_MARK))
    try:
        document = json.loads(text)
    except ValueError as error:
        raise TrialFailed(f"iperf3 in an instance printed no JSON: {text.strip()[-200:]!r}") from error
    assert isinstance(document, dict)
    return document


async def _request(pairs: Sequence[_Pair], traffic: Traffic) -> dict[str, Any]:
    source = Path(respond.__file__).read_text(encoding="utf-8")
    limit_s = traffic.seconds + respond.DRAIN_S + _LATE_S
    port = traffic.port + 1
    async with contextlib.AsyncExitStack() as stack:
        for pair in pairs:
            words = (
                f"python3 - serve {traffic.protocol} {pair.address} {port} {traffic.message} {limit_s:.0f}"
            )
            await stack.enter_async_context(_started(pair.server, words, "listening", source))
        outputs = await asyncio.gather(
            *(
                _output(
                    pair.client,
                    f"python3 - pace {traffic.protocol} {pair.address} {port} {traffic.message} {traffic.seconds:g}"
                    f" {traffic.rate:g} {traffic.seed + number}",
                    limit_s,
                    source,
                )
                for number, pair in enumerate(pairs)
            )
        )
    return requests([json.loads(text) for text in outputs])


class _Running(NamedTuple):
    """A command in an instance. seen: what it has printed so far."""

    process: SSHClientProcess[str]
    seen: str


@contextlib.asynccontextmanager
async def _started(
    connection: SSHClientConnection, words: str, until: str, given: str = ""
) -> AsyncIterator[_Running]:
    """A command there that has printed a line with `until`; ended with the block. Raises TrialFailed."""
    process = await connection.create_process(words)
    try:
        process.stdin.write(given)
        process.stdin.write_eof()
        seen: list[str] = []
        try:
            while not seen or until not in seen[-1]:
                line = await asyncio.wait_for(process.stdout.readline(), _LATE_S)
                if not line:
                    errors = (await process.stderr.read()).strip()[-200:]
                    raise TrialFailed(
                        f"'{words[-80:]}' ended in an instance: {errors or ''.join(seen)[-200:]}"
                    )
                seen.append(line)
        except TimeoutError as error:
            raise TrialFailed(f"'{words[-80:]}' does not listen in an instance") from error
        yield _Running(process, "".join(seen))
    finally:
        with contextlib.suppress(OSError):
            process.terminate()
        process.close()


async def _rest(running: _Running, limit_s: float) -> str:
    """All that a command has printed, once it has ended."""
    try:
        rest = await asyncio.wait_for(running.process.stdout.read(), limit_s)
    except TimeoutError as error:
        raise TrialFailed("iperf3 did not end in an instance") from error
    return running.seen + str(rest)


async def _output(connection: SSHClientConnection, words: str, limit_s: float, given: str = "") -> str:
    """Run a command and return what it prints. Raises TrialFailed when it fails without a word, or does not end."""
    try:
        done = await ssh.ask(connection, words, given, limit_s=limit_s + _LATE_S)
    except Unreached as error:
        if error.reason == "late":
            raise TrialFailed(
                f"'{words[-80:]}' did not end in an instance", hint="is it overloaded?"
            ) from error
        raise HostFailed(f"the connection to an instance broke: {error.why}") from error
    if not done.out.strip():
        raise TrialFailed(f"'{words[-80:]}' failed in an instance: {done.err.strip()[-300:]}")
    return done.out
