"""A broker for RPC: one node, or three that make a cluster, of this host's own RabbitMQ.

Everything of it lies in one directory that only its owner reads, and every process of it is a member of it
(`contend.testbed.members`): so it is found and removed again whatever became of who started it. Nodes listen on the
loopback device only, on ports that were free, and find each other by a port mapper of their own: a broker of the host's is
not touched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contend import files
from contend.errors import CannotHonour, HostFailed
from contend.files import NO_OUTPUT
from contend.platforms import procfs
from contend.platforms.packages import install_command
from contend.testbed import children
from contend.testbed.members import Members
from contend.testbed.rabbit import node

MARK = "CONTEND_RABBIT"
USER = "contend"
# Whatever is declared in this virtual host is mirrored to all nodes.
MIRRORED = "mirrored"
_UP_S = 180.0
_STATE = "bed.json"
_COOKIE = ".erlang.cookie"
_PLUGINS = "enabled_plugins"
_CUT_AFTER_MS = 500
_NO_PROGRAM, _REMOVED = "RabbitMQ is no longer on this host", "was its package removed meanwhile?"


@dataclass(frozen=True, slots=True)
class Bed:
    """A broker that was brought up. ports: of its nodes' AMQP; mirrors: whether it has the virtual host MIRRORED; metrics:
    the port at which it tells what it has counted, 0 for none."""

    directory: Path
    ports: tuple[int, ...]
    password: str
    version: str
    mirrors: bool
    metrics: int = 0

    def url(self, vhost: str = "/") -> str:
        """URL of all nodes, as oslo.messaging takes it. It holds the password: for environments, never for arguments."""
        hosts = ",".join(f"{USER}:{self.password}@127.0.0.1:{port}" for port in self.ports)
        return f"rabbit://{hosts}/{'' if vhost == '/' else vhost}"

    @property
    def answers(self) -> bool:
        """True if every node answers."""
        return all(node.answers(port) for port in self.ports)

    def servers(self) -> list[int]:
        """Pids of its nodes, whose CPU time is the broker's. Each leads a session or is in that of its start script:
        rabbitmqctl, another Erlang program, is in that of who called it."""
        own = pids(self.directory)
        there = (process for process in procfs.processes(own) if process.session in own)
        return sorted(process.pid for process in there if _name(process.pid) == "beam.smp")


def members(directory: Path) -> Members:
    """Processes of the bed: nodes, port mapper, drivers and services."""
    return Members(MARK, directory.resolve())


def load(directory: Path) -> Bed | None:
    """Read the bed in that directory, whether it is up or not; None if there is none."""
    try:
        state = json.loads((directory / _STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Bed(
        directory.resolve(),
        tuple(state["ports"]),
        state["password"],
        state["version"],
        state["mirrors"],
        state.get("metrics", 0),
    )


def up(directory: Path, nodes: int = 1, more: Sequence[str] = (), *, metrics: bool = False) -> Bed:
    """Bring a broker of so many nodes up, unless it is; with more than one they are a cluster when this returns.

    more: lines for its rabbitmq.conf beside contend's. metrics: it tells what it counts (of one node).

    Raises CannotHonour without RabbitMQ on this host, HostFailed if a node does not come up.
    """
    program = node.server()
    if program is None:
        raise CannotHonour(
            "RabbitMQ is needed, and was not found on this host",
            hint=f"{install_command('rabbitmq-server')} (it need not run as a service)",
        )
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    with files.locked(directory / "lock"):
        there = load(directory)
        if (
            there is not None
            and len(there.ports) == nodes
            and bool(there.metrics) == metrics
            and there.answers
        ):
            return there
        _end(directory)
        try:
            return _start(directory, program, nodes, more, metrics)
        except BaseException:
            _end(directory)
            raise


def down(directory: Path) -> list[int]:
    """End everything of the bed, remove its files, and return the pids it had. Idempotent."""
    if not directory.is_dir():
        return members(directory).end()
    with files.locked(directory / "lock"):
        return _end(directory)


def pids(directory: Path) -> set[int]:
    """Pids of the bed: nodes, port mapper, drivers and services; this process and those above it are left out."""
    return members(directory).find()


def ports(bed: Bed) -> list[node.Ports]:
    """Ports of the bed's nodes."""
    state = json.loads((bed.directory / _STATE).read_text(encoding="utf-8"))
    return [node.Ports(**one) for one in state["nodes"]]


def kill(bed: Bed, number: int) -> None:
    """End one node as a power cut does, by SIGKILL: it writes nothing and tells no other. Raises HostFailed if it is
    gone."""
    name = f"RABBITMQ_NODENAME={ports(bed)[number].name}".encode()
    pids = [pid for pid in bed.servers() if name in procfs.environment(pid)]
    if not pids or not all(procfs.send(pid, signal.SIGKILL) for pid in pids):
        raise HostFailed(
            f"node {number} of the broker has gone", hint=f"logs are in {bed.directory}/node-*/log"
        )


def cut_off(bed: Bed, number: int) -> None:
    """Cut the connections between one node of a cluster and the others, though all stay up.

    Its connections to them end, and from now on neither can log in at the other: Erlang's nodes do so with a cookie, and
    this one expects another of them. A cut cable would be noticed after a minute (net_ticktime); this is at once. Nothing
    of the host is touched. Undone by join(), and with the node's end. Raises HostFailed.
    """
    # By a process of its own, after a while: rabbitmqctl would wait for a node that is about to stop serving.
    cut = _with_others(bed, number, "erlang:set_cookie(Other, 'cut-off'), erlang:disconnect_node(Other)")
    now = "erlang:system_time(nanosecond)"
    kept = f"Before = {now}, {cut}, persistent_term:put(contend_cut, [Before, {now}])"
    _eval(bed, number, f"spawn(fun() -> timer:sleep({_CUT_AFTER_MS}), {kept} end), ok.")


def join(bed: Bed, number: int) -> tuple[int, int] | None:
    """Undo `cut_off`. Returns when the node was cut off, CLOCK_REALTIME, ns, before and after; None if it never was.

    Idempotent. Raises HostFailed."""
    joined = _with_others(bed, number, "erlang:set_cookie(Other, erlang:get_cookie()), net_adm:ping(Other)")
    answer = _eval(bed, number, f"{joined}, persistent_term:get(contend_cut, []).")
    times = re.findall(r"\d{15,}", answer)
    return (int(times[0]), int(times[1])) if len(times) == 2 else None


def _with_others(bed: Bed, number: int, what: str) -> str:
    """Erlang that does something with each other node of the cluster."""
    others = ", ".join(f"'{p.name}'" for k, p in enumerate(ports(bed)) if k != number)
    return f"[begin {what} end || Other <- [{others}]]"


def _eval(bed: Bed, number: int, expression: str) -> str:
    program = node.server()
    if program is None:
        raise HostFailed(_NO_PROGRAM, hint=_REMOVED)
    return control(bed.directory, program, ports(bed)[number], "eval", expression)


def restart(bed: Bed, number: int) -> None:
    """Start one node again that was killed, on its data and ports, and wait until it answers. Raises HostFailed."""
    own = ports(bed)[number]
    program = node.server()
    if program is None:
        raise HostFailed(_NO_PROGRAM, hint=_REMOVED)
    with members(bed.directory).starting():
        process = _launch(bed.directory, program, number, own)
        node.wait(process, bed.directory / f"node-{number}", own.amqp, _UP_S)
    children.reap()  # what was killed of it, if this process had started it


def _start(directory: Path, program: Path, nodes: int, more: Sequence[str], metrics: bool) -> Bed:
    version = node.version(program)
    # Mirrored classic queues left RabbitMQ with 4.0.
    mirrors = nodes > 1 and bool(version) and version < (4,)
    mapper, counting, *free = node.free_ports(2 + 2 * nodes)
    ports = [node.Ports(free[2 * k], mapper, free[2 * k + 1]) for k in range(nodes)]
    password = secrets.token_hex(16)
    named = ".".join(map(str, version))
    bed = Bed(directory, tuple(p.amqp for p in ports), password, named, mirrors, counting if metrics else 0)
    _write(directory / _COOKIE, secrets.token_hex(16))
    _write(directory / "definitions.json", json.dumps(_definitions(password, mirrors)))
    if metrics:
        # Its global counters, and nothing of each connection: to keep those would cost every message something.
        _write(directory / _PLUGINS, "[rabbitmq_prometheus].\n")
        more = (*more, "prometheus.tcp.ip = 127.0.0.1", f"prometheus.tcp.port = {counting}")
        more = (*more, "management_agent.disable_metrics_collector = true")
    _write(directory / "rabbitmq.conf", _settings(directory, ports, more))
    state = {
        "ports": bed.ports,
        "password": password,
        "version": named,
        "mirrors": mirrors,
        "metrics": bed.metrics,
    }
    _write(directory / _STATE, json.dumps(state | {"nodes": [asdict(p) for p in ports]}))
    with members(directory).starting():
        running = [_launch(directory, program, number, p) for number, p in enumerate(ports)]
        for number, (process, p) in enumerate(zip(running, ports, strict=True)):
            node.wait(process, directory / f"node-{number}", p.amqp, _UP_S)
    if nodes > 1:
        _check_cluster(directory, program, ports)
    return bed


def _launch(directory: Path, program: Path, number: int, ports: node.Ports) -> subprocess.Popen[bytes]:
    where = directory / f"node-{number}"
    where.mkdir(exist_ok=True)
    settings = node.environment(directory, where, ports)
    settings["RABBITMQ_CONFIG_FILE"] = str(directory / "rabbitmq.conf")
    if (directory / _PLUGINS).exists():
        settings["RABBITMQ_ENABLED_PLUGINS_FILE"] = str(directory / _PLUGINS)
    return node.launch(members(directory), program, where, settings)


def _settings(directory: Path, ports: list[node.Ports], more: Sequence[str]) -> str:
    lines = [
        f"load_definitions = {directory / 'definitions.json'}",
        # The bed's disk and memory are the host's: a full disk elsewhere is no reason to stop publishers.
        "disk_free_limit.absolute = 50MB",
    ]
    if len(ports) > 1:
        lines.append("cluster_formation.peer_discovery_backend = classic_config")
        lines += [
            f"cluster_formation.classic_config.nodes.{number} = {p.name}"
            for number, p in enumerate(ports, start=1)
        ]
        # A node that is cut off from the others stops serving, and comes back by itself: what their makers recommend for
        # three. Without it each half goes on alone, and somebody has to restart one of them.
        lines.append("cluster_partition_handling = pause_minority")
    return "\n".join([*lines, *more]) + "\n"


def _definitions(password: str, mirrors: bool) -> dict[str, Any]:
    """Users, virtual hosts and policies. Without them there would be the user guest, with a password all know."""
    salt = secrets.token_bytes(4)
    # https://www.rabbitmq.com/docs/passwords#computing-password-hash
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    vhosts = ["/", *([MIRRORED] if mirrors else [])]
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    user = {"name": USER, "password_hash": hashed, "hashing_algorithm": "rabbit_password_hashing_sha256"}
    return {
        "users": [{**user, "tags": "administrator"}],
        "vhosts": [{"name": name} for name in vhosts],
        "permissions": [{"user": USER, "vhost": name, **everything} for name in vhosts],
        "policies": [
            {
                "vhost": MIRRORED,
                "name": "mirror-all",
                "pattern": ".*",
                "apply-to": "queues",
                "definition": {"ha-mode": "all"},
            }
        ]
        if mirrors
        else [],
    }


def _check_cluster(directory: Path, program: Path, ports: list[node.Ports]) -> None:
    """Raises HostFailed unless the first node sees all of them run."""
    status = json.loads(control(directory, program, ports[0], "cluster_status", "--formatter", "json"))
    if missing := [p.name for p in ports if p.name not in status["running_nodes"]]:
        raise HostFailed(
            f"{', '.join(missing)} did not join the cluster", hint=f"logs are in {directory}/node-*/log"
        )


def control(directory: Path, program: Path, ports: node.Ports, *words: str) -> str:
    """Run rabbitmqctl on that node and return its output. Raises HostFailed if it refuses."""
    settings = node.environment(directory, directory, ports)
    command = [str(program.with_name("rabbitmqctl")), "--node", ports.name, *words]
    done = members(directory).run(command, settings, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise HostFailed(
            f"rabbitmqctl {words[0]} failed", hint=f"it said: {lines[-1] if lines else NO_OUTPUT}"
        )
    return str(done.stdout)


def _end(directory: Path) -> list[int]:
    pids = members(directory).end()
    for where in directory.glob("node-*"):
        shutil.rmtree(where, ignore_errors=True)
    for name in (_STATE, _COOKIE, _PLUGINS, "definitions.json", "rabbitmq.conf"):
        (directory / name).unlink(missing_ok=True)
    return pids


def _name(pid: int) -> str:
    try:
        return (procfs.PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended
        return ""


def _write(path: Path, text: str) -> None:
    """A file that only its owner reads."""
    files.write(path, text.encode(), mode=files.PRIVATE)
