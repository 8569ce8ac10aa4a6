"""Where a test bed lies, on which ports it answers, and how all of its processes are found again."""

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
    """Chosen once, when the bed is first brought up, and kept as long as its directory: clients keep their clouds.yaml."""

    root: Path
    password: str
    ports: dict[str, int]
    subnet: str = "10.9.0.0/16"
    """Of the network "net"; this one was everybody's, before guests could be reached."""
    release: str = install.RELEASES[0]
    """Of OpenStack: its databases' schemas are of that one."""

    @classmethod
    def load(cls, root: Path) -> Bed | None:
        """The bed in that directory; None if there is none."""
        try:
            told = json.loads((root / "bed.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(root, **told)

    @classmethod
    def load_or_make(cls, root: Path, release: str = "") -> Bed:
        """release: "" has that of the bed, or the usual one. Raises BadInput where the bed is of another."""
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
        told = {name: value for name, value in asdict(made).items() if name != "root"}
        made.write("bed.json", json.dumps(told, indent=1) + "\n")
        return made

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One of all that bring this bed up or down; the others wait."""
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
        """A file below the bed that only its owner reads."""
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
        """Databases, images, locks, keys: what `down --wipe` removes."""
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
        """Its processes."""
        return Members(MARK, self.root)

    def mark(self, service: str) -> dict[str, str]:
        """The environment by which a member of the bed is known as that service's."""
        return {f"{MARK}_SERVICE": service}

    def remember(self, service: str, leader: int, digest: str) -> None:
        """The leader of the session in which that service was started, and of what it was started with.

        Services that show a title of their own overwrite their environment, and the mark with it.
        """
        found = procfs.stat(leader)
        if found is not None:
            told = {
                "pid": leader,
                "start_ticks": found.start_ticks,
                "boot": procfs.boot_id(),
                "digest": digest,
            }
            self.write(f"run/{service}.json", json.dumps(told))

    def leader(self, service: str) -> tuple[int, str] | None:
        """(pid, digest it was started with) of the process that leads that service; None if it does not live.

        Its workers may live a while longer.
        """
        try:
            told = json.loads((self.root / f"run/{service}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found = procfs.stat(told["pid"])
        lives = (
            found is not None
            and found.state not in "ZX"
            and (found.start_ticks, procfs.boot_id()) == (told["start_ticks"], told["boot"])
        )
        return (told["pid"], told["digest"]) if lives else None

    def processes(self) -> dict[int, str]:
        """Every process of the bed: pid → service. This one and those above it are left out."""
        role = f"{MARK}_SERVICE=".encode()
        spare, sessions = procfs.ancestors(os.getpid()), self._sessions()
        found = {p.pid: sessions[p.session] for p in procfs.processes() if p.session in sessions}
        for process in procfs.processes(self.members.find() - found.keys()):
            entries = procfs.environment(process.pid)
            # A service may show a title of its own where its environment was; and the directory may have been removed, with
            # what it remembered.
            named = next((entry for entry in entries if entry.startswith(role)), role + b"unknown")
            found[process.pid] = named.removeprefix(role).decode(errors="replace")
        # libvirt starts them in an environment and a session of their own.
        found |= dict.fromkeys(virt.guests(self.libvirt), GUESTS)
        return {pid: service for pid, service in found.items() if pid not in spare}

    def _sessions(self) -> dict[int, str]:
        """Remembered sessions in which the bed's processes may still live, by their leader's pid.

        A pid is not given away while it is that of a session; that of an empty one may be.
        """
        found, boot = {}, procfs.boot_id()
        for path in (self.root / "run").glob("*.json"):
            told = json.loads(path.read_text(encoding="utf-8"))
            leader = procfs.stat(told["pid"])
            if told["boot"] == boot and (leader is None or leader.start_ticks == told["start_ticks"]):
                found[int(told["pid"])] = path.stem
        return found


def answers(port: int) -> bool:
    """True if somebody accepts connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.SystemRandom().sample(_RANGE, len(_RANGE)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise HostFailed(f"fewer than {count} free ports from {_RANGE.start} on", hint="see `ss -ltn`")
