"""Victims and suspects, each in a control group of its own; a victim's work and a suspect's share one CPU."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import postgres
from contend.platforms import cgroups

SERVICE = """
import fcntl, random, sys, time
log, lock = open(sys.argv[1], "a", buffering=1), open(sys.argv[2], "w")
locked, draw = sys.argv[3] == "lock", random.Random(1)
while True:
    began = time.monotonic()
    if locked: fcntl.flock(lock, fcntl.LOCK_EX)
    end = time.thread_time() + 0.003
    while time.thread_time() < end: pass
    if locked: fcntl.flock(lock, fcntl.LOCK_UN)
    now = time.monotonic()
    log.write(f"{now:.6f} took {1e3 * (now - began):.3f} ms\\n")
    time.sleep(draw.expovariate(150))
"""
BATCH = """
import sys, time
log = open(sys.argv[1], "a", buffering=1)
while True:
    began = time.monotonic()
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
    now = time.monotonic()
    log.write(f"{now:.6f} took {1e3 * (now - began):.3f} ms\\n")
"""
JOURNAL = """
import os, sys, time
log, file = open(sys.argv[1], "a", buffering=1), os.open(sys.argv[1] + ".journal", os.O_WRONLY | os.O_CREAT)
while True:
    began = time.monotonic()
    os.pwrite(file, b"x" * 4096, 0)
    os.fsync(file)
    now = time.monotonic()
    log.write(f"{now:.6f} took {1e3 * (now - began):.3f} ms\\n")
    time.sleep(0.005)
"""
ASKS = """
import random, subprocess, sys, time
log, draw = open(sys.argv[1], "a", buffering=1), random.Random(1)
asked = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
while True:
    began = time.monotonic()
    print("SELECT sum(i * i) FROM generate_series(1, 20000) AS i;", file=asked.stdin, flush=True)
    if not asked.stdout.readline(): sys.exit("no answer")
    now = time.monotonic()
    log.write(f"{now:.6f} took {1e3 * (now - began):.3f} ms\\n")
    time.sleep(draw.expovariate(150))
"""
COPIES = """
import sys, time
log = open(sys.argv[1], "a", buffering=1)
here, there = bytearray(1 << 25), bytearray(1 << 25)
while True:
    began = time.monotonic()
    there[:] = here
    now = time.monotonic()
    log.write(f"{now:.6f} took {1e3 * (now - began):.3f} ms\\n")
"""
BURNS = "while True: sum(range(1000))"
BURSTS = """
import sys, time
while True:
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end: sum(range(1000))
    time.sleep(0.02)
"""
STREAMS = "here, there = bytearray(1 << 25), bytearray(1 << 25)\nwhile True: there[:] = here"
WRITES = """
import mmap, os, sys
file, data = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
while True: os.pwrite(file, data, 0)
"""
HOLDS = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    while True:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(0.01)
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.01)
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log /dev/null;
events {{}}
http {{ access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{text}"; }} }} }}
"""
READY_S = 20.0
VICTIMS = ("service", "batch", "copies", "nginx", "redis", "postgres")
"""Those that any suspect may be beside; a journal is beside who writes, and who copies beside who streams."""
GUILTY = ("burner", "bursts", "writer", "streams")
"""Suspects that may cost something: who streams through memory on another CPU does where both share a bus or a cache."""
ELSEWHERE = ("elsewhere", "streams")
"""Suspects that run on other CPUs than the victim."""
LIMIT = 1 << 20
"""Bytes a second that a writer has where it is held back."""
INNOCENT = ("sleeper", "elsewhere", "yields", "lock")
"""Suspects that cost nothing which holding them back would bring: one that holds a lock costs what no weight changes."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A victim, a suspect and how that is held back, as chance has it."""

    number: int
    seed: int
    victim: str
    suspect: str
    works_s: float

    @classmethod
    def made(cls, number: int, seed: int) -> Draw:
        """Odd ones are innocent by what they do, even ones guilty."""
        chance = random.Random(1_000_003 * seed + number)
        suspect = chance.choice(INNOCENT if number % 2 else GUILTY)
        beside = {"writer": "journal", "lock": "service", "streams": "copies"}
        victim = beside.get(suspect) or chance.choice(VICTIMS)
        return cls(number, chance.randrange(2**31), victim, suspect, round(chance.uniform(0.002, 0.03), 4))

    @property
    def by(self) -> str:
        """A weight for the disk does nothing on most disks: who writes is held back by a limit. Nor does a weight where a
        suspect has its CPU for itself: a quota takes that.
        """
        return {"writer": "io-limit", "streams": "quota"}.get(self.suspect, "weight")

    @property
    def treatment(self) -> list[str]:
        """Options of contend prove."""
        return ["--by", self.by, *(["--io", str(LIMIT)] if self.by == "io-limit" else [])]


@dataclass(slots=True)
class Beside:
    """A victim and a suspect that run, with the victim's figure as contend is given it."""

    draw: Draw
    folder: Path
    victim: subprocess.Popen[bytes]
    suspect: list[Path]
    """Its control groups, of one name in each hierarchy; so of the victim."""
    victims: list[Path]
    url: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def figure(self) -> list[str]:
        """Options of contend prove."""
        if self.url:
            return ["--url", self.url, "--rate", "200"]
        if self.draw.victim == "batch":
            return []
        return ["--log", str(self.log), "--pattern", "took ([0-9.]+) ms", "--unit", "ms"]

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Hold the suspect back as contend does, by the bench's own hand."""
        file, before, during = self._setting()
        file.write_text(during)
        try:
            yield
        finally:
            file.write_text(before)

    def _setting(self) -> tuple[Path, str, str]:
        """A file, and what is written to it to put things back and to hold the suspect back."""
        if self.draw.by == "quota":  # a tenth of a CPU, as contend takes unless it is given another
            file = _first(self.suspect, "cpu.max", "cpu.cfs_quota_us")
            v2 = file.name == "cpu.max"
            return file, "max 100000" if v2 else "-1", "10000 100000" if v2 else "10000"
        if self.draw.by == "weight":
            file = _first(self.suspect, "cpu.weight", "cpu.shares")
            return file, file.read_text(), "10" if file.name == "cpu.weight" else "102"
        file, disk = _first(self.suspect, "io.max", "blkio.throttle.write_bps_device"), _disk(self.folder)
        none, limit = ("wbps=max", f"wbps={LIMIT}") if file.name == "io.max" else ("0", str(LIMIT))
        return file, f"{disk} {none}", f"{disk} {limit}"


def _first(groups: Sequence[Path], *names: str) -> Path:
    """The first of these files that a group has."""
    return next(group / name for name in names for group in groups if (group / name).exists())


def _disk(folder: Path) -> str:
    """Numbers of the disk that a folder is on."""
    device = folder.stat().st_dev
    path = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    return ((path.parent if (path / "partition").exists() else path) / "dev").read_text().strip()


@contextlib.contextmanager
def beside(draw: Draw, folder: Path) -> Iterator[Beside]:
    """Start both, in groups of their own; all is gone afterwards. Needs root."""
    suspects, victims = (_groups(f"{name}-{os.getpid()}") for name in ("suspect", "victim"))
    first, *others = sorted(os.sched_getaffinity(0))
    cpu = {first}
    started: list[subprocess.Popen[bytes]] = []

    def start(command: Sequence[str], groups: Sequence[Path], cpus: set[int]) -> subprocess.Popen[bytes]:
        def join() -> None:
            for group in groups:
                (group / "cgroup.procs").write_text(str(os.getpid()))
            os.sched_setaffinity(0, cpus)

        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            command,
            stdout=quiet,
            stderr=quiet,
            process_group=0,
            preexec_fn=join,  # noqa: PLW1509 - one thread here
        )
        started.append(process)
        return process

    try:
        victim, url, asks = _victim(draw, folder, lambda command: start(command, victims, cpu))
        if asks:
            start(asks, [], set(others) or cpu)
        suspect = _suspect(draw, folder)
        start(suspect, suspects, set(others) or cpu if draw.suspect in ELSEWHERE else cpu)
        if draw.suspect == "yields":
            _yields(suspects)
        time.sleep(0.5)
        yield Beside(draw, folder, victim, suspects, victims, url)
    finally:
        if (
            draw.victim == "postgres" and started
        ):  # its own processes have sessions of their own: it ends them
            started[0].send_signal(signal.SIGQUIT)
            started[0].wait(READY_S)
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for group in (*suspects, *victims):
            _gone(group)


def _victim(
    draw: Draw, folder: Path, start: Callable[[Sequence[str]], subprocess.Popen[bytes]]
) -> tuple[subprocess.Popen[bytes], str, list[str]]:
    """The victim, its URL where it is asked at one, and the command of a client that asks and logs."""
    log = folder / "log"
    log.touch()
    code = {"service": SERVICE, "batch": BATCH, "copies": COPIES, "journal": JOURNAL}.get(draw.victim)
    if code is not None:
        locked = "lock" if draw.suspect == "lock" else ""
        return start([sys.executable, "-c", code, str(log), str(folder / "lock"), locked]), "", []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, asks = "", list[str]()
    if draw.victim == "redis":
        url = f"redis://127.0.0.1:{port}"
        words = [
            *("redis-server", "--bind", "127.0.0.1", "--port", str(port)),
            *("--save", "", "--dir", str(folder)),
        ]
    elif draw.victim == "nginx":
        url = f"http://127.0.0.1:{port}/"
        settings = folder / "nginx.conf"
        settings.write_text(NGINX.format(folder=folder, port=port, text="x" * 512))
        words = [shutil.which("nginx") or "/usr/sbin/nginx", "-p", str(folder), "-c", str(settings)]
    else:
        folder.chmod(0o755)
        words = postgres.made(folder, port)
        asks = [sys.executable, "-c", ASKS, str(log), *postgres.client("psql", port), "-qAt", "postgres"]
    process = start(words)
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process, url, asks
        time.sleep(0.05)
    raise RuntimeError(f"{draw.victim} does not serve")


def _suspect(draw: Draw, folder: Path) -> list[str]:
    code, *words = {
        "burner": (BURNS,),
        "elsewhere": (BURNS,),
        "yields": (BURNS,),
        "bursts": (BURSTS, str(draw.works_s)),
        "streams": (STREAMS,),
        "writer": (WRITES, str(folder / "written")),
        "lock": (HOLDS, str(folder / "lock")),
        "sleeper": ("import time; time.sleep(10000)",),
    }[draw.suspect]
    return [sys.executable, "-c", code, *words]


def _groups(name: str) -> list[Path]:
    """Groups of that name with a weight for CPUs and a limit for disks, in whichever hierarchies have them."""
    layout = cgroups.read_layout()
    if layout.v2 is not None and "cpu" in layout.v2.controllers:
        roots = [layout.v2.root]
    else:
        roots = list(dict.fromkeys(layout.v1[controller].root for controller in ("cpu", "blkio")))
    for root in roots:
        (root / name).mkdir()
    return [root / name for root in roots]


def _yields(groups: Sequence[Path]) -> None:
    """It has a fiftieth of the usual weight already."""
    file = _first(groups, "cpu.weight", "cpu.shares")
    file.write_text("2" if file.name == "cpu.weight" else "20")


def _gone(group: Path) -> None:
    for _ in range(200):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{group} is still there")
