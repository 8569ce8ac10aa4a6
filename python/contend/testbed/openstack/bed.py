"""A test bed's directory, its ports, and its processes."""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from contend import files
from contend.errors import BadInput, HostFailed
from contend.platforms import procfs
from contend.testbed import virt
from contend.testbed.members import Members
from contend.testbed.openstack import install, network

MARK = "CONTEND_OPENSTACK"
CLOUD = "contend-testbed"
REGION = "one"
GUESTS = "guests"
# Those that answer on a port. RabbitMQ chooses its own at each start.
_PORTS = ("keystone", "glance", "placement", "nova-api", "neutron", "cinder-api", "heat-api", "mariadb")
# Below those that the kernel gives to whoever asks for any: a bed that is down keeps its ports for clients' clouds.yaml.
_RANGE = range(20000, 32000)


@dataclass(frozen=True, slots=True)
class Bed:
    """Password, ports and subnet of a bed, chosen when it first comes up and kept with its directory: clients rely on
    them."""

    root: Path
    password: str
    ports: dict[str, int]
    subnet: str = "10.9.0.0/16"
    """Of the network "net"; this one was everybody's, before guests could be reached."""
    release: str = install.RELEASES[0]
    """Of OpenStack: its databases' schemas are of that one."""

    @classmethod
    def load(cls, root: Path) -> Bed | None:
        """Read the bed in that directory; None if there is none."""
        try:
            document = json.loads((root / "bed.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(root, **document)

    @classmethod
    def load_or_make(cls, root: Path, release: str = "") -> Bed:
        """Read the bed in that directory, or make it. release: "" takes the bed's, or the default. Raises BadInput for
        another."""
        root = root.resolve()
        made = cls.load(root)
        if made is not None:
            if release not in ("", made.release):
                raise BadInput(
                    f"the bed in {root} is of OpenStack {made.release}, and so are its databases",
                    hint="another --root, or `down --wipe` first",
                )
            return made
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
        ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        made = cls(root, secrets.token_hex(8), ports, network.choose(), release or install.RELEASES[0])
        document = {name: value for name, value in asdict(made).items() if name != "root"}
        made.write("bed.json", json.dumps(document, indent=1) + "\n")
        return made

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the bed's lock: one process brings it up or down, the others wait."""
        path = self.root / "lock"
        while True:
            self.root.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Whoever had it may have removed it, with the bed.
                if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield
                    return

    def write(self, name: str, text: str) -> Path:
        """Write a file below the bed that only its owner can read."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, text.encode(), mode=files.PRIVATE)
        return path

    @property
    def venv(self) -> Path:
        """The environment that OpenStack is installed in, or will be."""
        return install.environment_folder(self.release)

    @property
    def python(self) -> Path:
        return self.venv / "bin/python"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def data(self) -> Path:
        """Directory of databases, images, locks and keys: what `down --wipe` removes."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def libvirt(self) -> Path:
        """Directory of the bed's own libvirt, where there is one."""
        return self.data / "libvirt"

    @property
    def broker(self) -> Path:
        """Directory of its RabbitMQ."""
        return self.root / "rabbitmq"

    @property
    def clouds_yaml(self) -> Path:
        return self.root / "clouds.yaml"

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.ports[service]}"

    def database(self, name: str) -> str:
        """URL for SQLAlchemy. Each database has a user of its own, by which its statements are counted."""
        return f"mysql+pymysql://{name}:{self.password}@127.0.0.1:{self.ports['mariadb']}/{name}"

    @property
    def counted(self) -> Path:
        """The file that holds the URL by which the database's counts are read."""
        return self.root / "database.url"

    @property
    def notified(self) -> Path:
        """The file that holds the URL of the bus on which nova's notifications are."""
        return self.root / "notifications.url"

    @property
    def members(self) -> Members:
        """Processes of the bed."""
        return Members(MARK, self.root)

    def mark(self, service: str) -> dict[str, str]:
        """Environment variables that mark a process of the bed as that service's."""
        return {f"{MARK}_SERVICE": service}

    def remember(self, service: str, leader: int, digest: str) -> None:
        """Write down the leader of a service's session, and the digest of what it was started with.

        Services that show a title of their own overwrite their environment, and the mark with it.
        """
        status = procfs.stat(leader)
        if status is not None:
            record = {
                "pid": leader,
                "start_ticks": status.start_ticks,
                "boot": procfs.boot_id(),
                "digest": digest,
            }
            self.write(f"run/{service}.json", json.dumps(record))

    def leader(self, service: str) -> tuple[int, str] | None:
        """(pid, digest it was started with) of the process that leads that service; None if it does not live.

        Its workers may live a while longer.
        """
        try:
            record = json.loads((self.root / f"run/{service}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        status = procfs.stat(record["pid"])
        lives = (
            status is not None
            and status.state not in "ZX"
            and (status.start_ticks, procfs.boot_id()) == (record["start_ticks"], record["boot"])
        )
        return (record["pid"], record["digest"]) if lives else None

    def processes(self) -> dict[int, str]:
        """Every process of the bed: pid → service. This one and those above it are left out."""
        role = f"{MARK}_SERVICE=".encode()
        spare, sessions = procfs.ancestors(os.getpid()), self._sessions()
        by_pid = {p.pid: sessions[p.session] for p in procfs.processes() if p.session in sessions}
        for process in procfs.processes(self.members.find() - by_pid.keys()):
            entries = procfs.environment(process.pid)
            # A service may show a title of its own where its environment was; and the directory may have been removed, with
            # what it remembered.
            named = next((entry for entry in entries if entry.startswith(role)), role + b"unknown")
            by_pid[process.pid] = named.removeprefix(role).decode(errors="replace")
        # libvirt starts them in an environment and a session of their own.
        by_pid |= dict.fromkeys(virt.guests(self.libvirt), GUESTS)
        return {pid: service for pid, service in by_pid.items() if pid not in spare}

    def _sessions(self) -> dict[int, str]:
        """Remembered sessions in which the bed's processes may still live, by their leader's pid.

        A pid is not given away while it is that of a session; that of an empty one may be.
        """
        sessions, boot = {}, procfs.boot_id()
        for path in (self.root / "run").glob("*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            leader = procfs.stat(record["pid"])
            if record["boot"] == boot and (leader is None or leader.start_ticks == record["start_ticks"]):
                sessions[int(record["pid"])] = path.stem
        return sessions


def answers(port: int) -> bool:
    """True if something accepts connections on this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.SystemRandom().sample(_RANGE, len(_RANGE)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise HostFailed(f"fewer than {count} free ports from {_RANGE.start} on", hint="see `ss -ltn`")
