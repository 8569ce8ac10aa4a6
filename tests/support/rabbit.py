"""A RabbitMQ of one test's own, on the loopback device, with its own port mapper; nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Not the one in /usr/sbin, which wants to be root and becomes another user.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_UP_S = 40


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@contextmanager
def broker(place: Path) -> Iterator[str]:
    """Its URL for oslo.messaging, while it runs with its files in that directory.

    Raises RuntimeError with the end of its log if it does not come up.
    """
    port, mapper, distribution = _free_ports(3)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": f"contend-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(place / "db"),
        "RABBITMQ_LOG_BASE": str(place / "log"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    log = place / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SERVER)],
            env=environment,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_up(port, process, log)
        yield f"rabbit://guest:guest@127.0.0.1:{port}/"
    finally:
        _end(process)
        # The port mapper detaches itself from the broker; this one is on a port of its own.
        subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)


def _wait_until_up(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
                # It listens before it answers: on a wrong greeting it says which one it wants.
                probe.sendall(b"AMQP\x00\x00\x00\x00")
                if probe.recv(4) == b"AMQP":
                    return
        except OSError:
            pass  # not yet
        time.sleep(0.1)
    how = f"ended with {process.poll()}" if process.poll() is not None else f"did not answer in {_UP_S} s"
    raise RuntimeError(f"the broker {how}: {log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM:
            continue  # what it started goes too
