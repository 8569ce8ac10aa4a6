"""A RabbitMQ of the laboratory's own, on the loopback device, with its own port mapper.

Everything of it lies in one directory, and every process of it carries MARK with that directory in its environment:
so it is found again whatever became of who started it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs

MARK = "CONTEND_STORM_LAB"
# First where Debian has the program itself: its /usr/sbin one wants to be root and becomes another user.
_SERVERS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/libexec/rabbitmq/bin/rabbitmq-server")
_UP_S = 90.0
_STATE = "broker.json"
# What this process has started: it is the parent, and reaps it.
_started: dict[Path, subprocess.Popen[bytes]] = {}


def server() -> Path | None:
    """The program, or None."""
    for path in _SERVERS:
        if os.access(path, os.X_OK):
            return Path(path)
    found = shutil.which("rabbitmq-server")
    return Path(found) if found else None


def url(lab: Path) -> str | None:
    """Where that laboratory's broker answers; None if it does not."""
    port = _told(lab, "port")
    return f"rabbit://guest:guest@127.0.0.1:{port}/" if port and _answers(port) else None


def metrics_url(lab: Path) -> str | None:
    """Where it tells what it has counted; None if it was not started so."""
    port = _told(lab, "metrics")
    return f"http://127.0.0.1:{port}/" if port else None


def _told(lab: Path, what: str) -> int:
    try:
        return int(json.loads((lab / _STATE).read_text(encoding="utf-8"))[what])
    except (OSError, ValueError, KeyError):
        return 0


def start(lab: Path, *, metrics: bool = False) -> str:
    """Its URL, once it answers; with `metrics` it tells what it counts. Raises CannotHonour without the program,
    HostFailed if it does not come up.
    """
    program = server()
    if program is None:
        raise CannotHonour(
            "the storm laboratory needs RabbitMQ, not found on this host",
            hint="apt-get install rabbitmq-server (it need not run as a service)",
        )
    lab.mkdir(parents=True, exist_ok=True)
    port, mapper, distribution, counting = _free_ports(4)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        **{name: value for name, value in os.environ.items() if name.startswith("CONTEND_RUN")},
        MARK: str(lab.resolve()),
        "HOME": str(lab),
        "LANG": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": f"contend-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(lab / "db"),
        "RABBITMQ_LOG_BASE": str(lab / "log"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    if metrics:
        environment |= _counting(lab, counting)
    log = lab / "broker.log"
    with log.open("wb") as output:
        process = _started[lab.resolve()] = subprocess.Popen(
            [str(program)],
            env=environment,
            cwd=lab,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _UP_S
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            how = "did not answer in time" if process.poll() is None else f"ended with {process.returncode}"
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            stop(lab)
            raise HostFailed(f"the broker {how}", hint=f"it said: {said[-1] if said else 'nothing'}")
        time.sleep(0.1)
    told = {"port": port, "pid": process.pid, **({"metrics": counting} if metrics else {})}
    (lab / _STATE).write_text(json.dumps(told), encoding="utf-8")
    return f"rabbit://guest:guest@127.0.0.1:{port}/"


def _counting(lab: Path, port: int) -> dict[str, str]:
    """What to add to its environment for its plugin that tells its global counters, and nothing of each connection: to
    keep those would cost every message something."""
    plugins, settings = lab / "enabled_plugins", lab / "advanced.config"
    plugins.write_text("[rabbitmq_prometheus].\n", encoding="ascii")
    settings.write_text(
        f'[{{rabbitmq_prometheus, [{{tcp_config, [{{ip, "127.0.0.1"}}, {{port, {port}}}]}}]}},\n'
        " {rabbitmq_management_agent, [{disable_metrics_collector, true}]}].\n",
        encoding="ascii",
    )
    return {"RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins), "RABBITMQ_ADVANCED_CONFIG_FILE": str(settings)}


def stop(lab: Path) -> list[int]:
    """End everything of that laboratory, this process and its parents aside; the pids that were found.

    Idempotent. Raises HostFailed for a process that does not die.
    """
    found = sorted(pids(lab))
    for pid in found:
        procfs.send(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while pids(lab) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left := procfs.kill_until_gone(lambda: pids(lab)):
        raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")
    if process := _started.pop(lab.resolve(), None):
        process.wait()
    for name in ("db", "log"):
        shutil.rmtree(lab / name, ignore_errors=True)
    for path in (
        *lab.glob(_STATE),
        *lab.glob("broker.log"),
        *lab.glob(".erlang.cookie"),
        *lab.glob("enabled_plugins"),
        *lab.glob("advanced.config"),
    ):
        path.unlink(missing_ok=True)
    return found


def pids(lab: Path) -> set[int]:
    """Every process that carries the laboratory's mark: broker, port mapper, services; not this one and those above."""
    wanted = f"{MARK}={lab.resolve()}".encode()
    found = {process.pid for process in procfs.processes() if wanted in procfs.environment(process.pid)}
    return found - procfs.ancestors(os.getpid())


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            # It listens before it answers: on a wrong greeting it says which one it wants.
            probe.sendall(b"AMQP\x00\x00\x00\x00")
            return probe.recv(4) == b"AMQP"
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
