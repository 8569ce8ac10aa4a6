"""One RabbitMQ node on the loopback device, started without any service manager, as a member of a test bed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contend.errors import HostFailed
from contend.files import last_line
from contend.testbed import children
from contend.testbed.members import Members

# First where Debian has the program itself: its /usr/sbin one wants to be root and becomes another user.
_SERVERS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/libexec/rabbitmq/bin/rabbitmq-server")


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of AMQP, of Erlang's port mapper, and of the traffic between nodes."""

    amqp: int
    mapper: int
    distribution: int

    @property
    def name(self) -> str:
        """Name of the node: two on one host have different ports."""
        return f"contend-{self.amqp}@localhost"


def server() -> Path | None:
    """Path of rabbitmq-server; None where it is not installed."""
    for path in _SERVERS:
        if os.access(path, os.X_OK):
            return Path(path)
    program = shutil.which("rabbitmq-server")
    return Path(program) if program else None


def version(program: Path) -> tuple[int, ...]:
    """Version of the server, as its directory is named: (3, 10, 8); empty where that does not say."""
    match = re.search(r"rabbitmq_server-(\d+(?:\.\d+)*)", str(program.resolve()))
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def environment(home: Path, directory: Path, ports: Ports) -> dict[str, str]:
    """Environment of the node whose data lie in `directory`. home: holds the cookie, which nodes of one cluster share.

    Variables of the run that started it go along: what is listed is listed as that run's.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        **{name: value for name, value in os.environ.items() if name.startswith("CONTEND_RUN")},
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(ports.mapper),
        "RABBITMQ_NODENAME": ports.name,
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(ports.amqp),
        "RABBITMQ_DIST_PORT": str(ports.distribution),
        "RABBITMQ_MNESIA_BASE": str(directory / "db"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


def launch(
    of: Members, program: Path, directory: Path, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a node in a bed; its output goes to broker.log in `directory`."""
    with (directory / "broker.log").open("wb") as output:
        return children.keep(
            of.popen(
                [str(program)],
                settings,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )


def wait(process: subprocess.Popen[bytes], directory: Path, port: int, limit_s: float) -> None:
    """Wait until the node answers. Raises HostFailed, with its last line, if it ends before or takes too long."""
    deadline = time.monotonic() + limit_s
    while not answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            how = "did not answer in time" if process.poll() is None else f"ended with {process.returncode}"
            raise HostFailed(f"the broker {how}", hint=f"it said: {last_line(directory / 'broker.log')}")
        time.sleep(0.1)


def answers(port: int) -> bool:
    """True if an AMQP server answers on this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            # It listens before it answers: on a wrong greeting it says which one it wants.
            probe.sendall(b"AMQP\x00\x00\x00\x00")
            return probe.recv(4) == b"AMQP"
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Find so many TCP ports that nobody uses now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
