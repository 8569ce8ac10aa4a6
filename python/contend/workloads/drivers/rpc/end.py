"""`python -m contend.workloads.drivers.rpc.end`: one end of an RPC by oslo.messaging, controlled by lines of JSON.

The first line is its options; it answers `{"ready": …, "queues": […]}`. Then a driver runs a phase for each line, and a
service tells its counts (`counts`), the calls it took (`calls`), or takes so long for each from then on (`work SECONDS`);
the answer is a line too. It ends when nobody can tell it anything any more; its last line is
`{"over": …, "queues": […]}`. The broker's URL is in the environment alone. contend-rpc, contend's own driver, is spoken to
in the same way (crates/rpc).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Protocol

from contend.errors import ContendError
from contend.workloads.drivers.rpc.options import URL, End, Phase

# linux/tcp.h, struct tcp_info: tcpi_bytes_acked and tcpi_bytes_received.
_TCP_INFO_BYTES = struct.Struct("=120xQQ")


class Either(Protocol):
    """An end of either role."""

    def names(self) -> list[str]: ...
    def close(self) -> None: ...


def main() -> int:
    """Run one end and return the exit code: 0; 1 or 2 with the error as a line of JSON; 130 after SIGTERM, which reaches its
    parent at the same time."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _live()
    except KeyboardInterrupt:
        return 130


def _live() -> int:
    line = sys.stdin.readline()
    if not line:
        return 1
    options, url = End.from_json(line), os.environ[URL]
    listen = _listen_plain
    if options.executor == "greenlets":
        import eventlet

        eventlet.monkey_patch()
        listen = _listen_green
    try:
        end = _open(options, url)
    except ContendError as error:
        _say({"error": error.message, "hint": error.hint, "code": error.exit_code})
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - a library's own, of a broker that it cannot reach
        _say({"error": f"{type(error).__name__}: {error}".replace(url, "the broker"), "hint": "", "code": 1})
        return 1
    try:
        _say({"ready": options.role, "queues": end.names()})
        while line := listen():
            _say(_tell(end, line))
    finally:
        # A queue for replies is there from the first call on, which may have been cut short: its name is told even so, on a
        # line of its own.
        try:
            end.close()
        finally:
            with contextlib.suppress(OSError):  # nobody listens any more
                sys.stdout.write("\n")
                _say({"over": options.role, "queues": end.names()})
    return 0


def _tell(end: Any, line: str) -> dict[str, Any]:
    if hasattr(end, "counts"):
        what, _, value = line.strip().partition(" ")
        if what == "calls":
            return {"calls": end.calls()}
        if what == "work":
            end.take_time(float(value))
            return {"work_s": float(value)}
        sent, received = tcp_bytes()
        return {**end.counts(), "bytes_sent": sent, "bytes_received": received}
    before = tcp_bytes()
    figures = end.run(Phase.from_json(line))
    after = tcp_bytes()
    figures |= {"bytes_sent": after[0] - before[0], "bytes_received": after[1] - before[1]}
    return {**figures, "queues": end.names()}


def _open(options: End, url: str) -> Either:
    from contend.workloads.drivers.rpc import oslo

    made: Either = (oslo.Driver if options.role == "driver" else oslo.Service)(options, url)
    return made


def tcp_bytes() -> tuple[int, int]:
    """Count bytes of TCP payload that this process's open connections have sent (and were acknowledged) and received."""
    sent = received = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as one:
                if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
                    continue
                tcp_info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            continue
        if len(tcp_info) >= _TCP_INFO_BYTES.size:
            acked, got = _TCP_INFO_BYTES.unpack_from(tcp_info)
            sent, received = sent + acked, received + got
    return sent, received


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _listen_plain() -> str:
    return sys.stdin.readline()


def _listen_green() -> str:
    """A read that would wait stops every greenlet: wait in the hub first."""
    from eventlet import hubs

    hubs.trampoline(0, read=True)
    return sys.stdin.readline()


if __name__ == "__main__":
    sys.exit(main())
