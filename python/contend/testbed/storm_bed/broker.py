"""A RabbitMQ of the laboratory's own, on the loopback device, with its own port mapper.

Everything of it lies in one directory, and every process of it is a member of it (`contend.testbed.members`): so it is
found again whatever became of who started it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.testbed.members import Members
from contend.testbed.rabbit import node
from contend.testbed.rabbit.node import server

__all__ = ["MARK", "members", "metrics_url", "pids", "server", "start", "stop", "url"]

MARK = "CONTEND_STORM_LAB"
_UP_S = 90.0
_STATE = "broker.json"


def members(lab: Path) -> Members:
    """The laboratory's processes: broker, port mapper, services."""
    return Members(MARK, lab.resolve())


def url(lab: Path) -> str | None:
    """Where that laboratory's broker answers; None if it does not."""
    port = _number(lab, "port")
    return f"rabbit://guest:guest@127.0.0.1:{port}/" if port and node.answers(port) else None


def metrics_url(lab: Path) -> str | None:
    """Where it tells what it has counted; None if it was not started so."""
    port = _number(lab, "metrics")
    return f"http://127.0.0.1:{port}/" if port else None


def _number(lab: Path, what: str) -> int:
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
    port, mapper, distribution, counting = node.free_ports(4)
    ports = node.Ports(port, mapper, distribution)
    environment = node.environment(lab, lab, ports)
    if metrics:
        environment |= _counting(lab, counting)
    try:
        with members(lab).starting():
            process = node.launch(members(lab), program, lab, environment)
            node.wait(process, lab, port, _UP_S)
    except HostFailed:
        stop(lab)
        raise
    told = {"port": port, "pid": process.pid, **({"metrics": counting} if metrics else {})}
    (lab / _STATE).write_text(json.dumps(told), encoding="utf-8")
    return f"rabbit://guest:guest@127.0.0.1:{port}/"


def _counting(lab: Path, port: int) -> dict[str, str]:
    """Variables to add to its environment for its plugin that tells its global counters, and nothing of each connection: to
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
    found = members(lab).end()
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
    """Every process of the laboratory; not this one and those above."""
    return members(lab).find()
