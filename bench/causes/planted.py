"""Victims and neighbours of which it is known what one does to the other: workload files, with a folder for both.

`KINDS` says what contend shall name. Most neighbours do it themselves; what a neighbour can only do as somebody else, like
a quota above both, the planter (`causes.planter`) does for as long as the neighbour holds a lock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOLD = """\
import fcntl, time
with open("FOLDER/held-KIND", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    while True: time.sleep(0.01)
"""
"""A neighbour that does nothing itself."""

JOIN = """\
def join(controller):
    lines = [line.rstrip().split(":", 2) for line in open("/proc/self/cgroup")]
    path = next((path for _, names, path in lines if controller in names.split(",")), None)
    root = "/sys/fs/cgroup" if path is None else f"/sys/fs/cgroup/{controller}"
    made = f"{root}{path or lines[-1][2]}/causes-{os.getpid()}"
    os.mkdir(made)
    for name in ("cpuset.mems", "cpuset.cpus"):
        if os.path.exists(f"{made}/{name}"):
            open(f"{made}/{name}", "w").write(open(f"{made}/../{name}").read())
    open(f"{made}/cgroup.procs", "w").write(str(os.getpid()))
    open("FOLDER/new", "w").write(made)
    os.rename("FOLDER/new", f"FOLDER/group-KIND")
    while not os.path.exists(f"FOLDER/seen-KIND-{os.path.basename(made)}"): time.sleep(0.001)
"""
"""Goes into a group of its own, within the one it is in, and waits until the planter knows of it."""


SPINS = """\
import fcntl, signal
lock = open("FOLDER/held-KIND", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(lock, fcntl.LOCK_UN)
    spins = None
except BlockingIOError:
    victim, spins = os.getpid(), os.fork()
    while spins == 0 and os.getppid() == victim: pass
    if spins == 0: os._exit(0)
"""
"""Beside its neighbour it computes twice as much, as who asks again and again does: its own quota is too little then."""

SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True)
class Kind:
    """A mechanism by which a neighbour slows a victim.

    named: what contend is to call it. setup, step, finish: of the victim, once, in each of its rounds after `work` seconds
    of computing, and at its end. burning: what the neighbour uses for certain. needs: what the planter has to have. cpus: a
    limit that contend itself gives the victim. way: number of the way in which it is planted and seen; a draw of an earlier
    one says nothing of this.
    """

    named: str
    step: str
    neighbour: str = HOLD
    setup: str = ""
    finish: str = ""
    rounds: int = 60
    work: float = 0.005
    burning: tuple[str, float] = ("cpu", 0)
    placement: str = "own-cores"
    needs: str = ""
    cpus: int | None = None
    way: int = 2


DATA = 64 << 20
"""Bytes of the file that victims read."""

_ASK = 'peer.sendall(b"?"); assert peer.recv(1) == b"!"'
_CONNECT = 'import socket; peer = socket.create_connection(("ADDRESS", PORT))'
_SEND = f"""\
{_CONNECT}
peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)"""
_READ = """\
import random
file = os.open("FOLDER/data", os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)"""

KINDS = {
    "file lock": Kind(
        "file lock",
        "fcntl.flock(file, fcntl.LOCK_EX); work(SCALE * 0.001); fcntl.flock(file, fcntl.LOCK_UN)",
        """\
import fcntl, random, time
with open("FOLDER/lock", "w") as file:
    while True:  # not at a steady beat: a victim whose rounds are as long would come when it is free each time
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(random.uniform(0.01, 0.03))
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(random.uniform(0.002, 0.008))
""",
        setup='import fcntl; file = open("FOLDER/lock", "w")',
        work=0.006,
    ),
    "fsync": Kind(
        "fsync",
        'mine.write(b"x" * 4096); os.fsync(mine.fileno())',
        """\
import os
with open("FOLDER/theirs", "wb", buffering=0) as file:
    while True:
        file.seek(0)
        for _ in range(16):
            file.write(b"y" * 1048576)
        os.fsync(file.fileno())
""",
        setup='mine = open("FOLDER/mine", "wb", buffering=0)',
        burning=("disk", 1e6),
    ),
    "writeback": Kind(
        "writeback",
        'written.seek(0); written.write(b"x" * 4194304)',
        """\
import os
with open("FOLDER/theirs", "wb", buffering=0) as file:
    while True:
        file.seek(0)
        for _ in range(256):
            file.write(b"y" * 1048576)
""",
        setup='written = open("FOLDER/mine", "wb", buffering=0)',
        burning=("disk", 1e6),
        needs="dirty",
    ),
    "peers": Kind("peers", _ASK, setup=_CONNECT, needs="service"),
    "http": Kind(
        "peers",
        'web.request("GET", "/"); assert web.getresponse().read() == b"!"',
        setup='import http.client; web = http.client.HTTPConnection("127.0.0.1", WEB_AT)',
        needs="http",
    ),
    "dns": Kind(
        "peers",
        """\
resolver.send(n.to_bytes(2, "big") + QUESTION)
    assert resolver.recv(512)[:2] == n.to_bytes(2, "big")""",
        setup=r"""
import socket
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.connect(("127.0.0.1", DNS))
QUESTION = b"\1\0\0\1\0\0\0\0\0\0\4host\7example\0\0\1\0\1"
""",
        needs="dns",
    ),
    "network send": Kind("network send", 'peer.sendall(b"?" * 262144)', setup=_SEND, needs="service"),
    "tbf": Kind("network send", 'peer.sendall(b"?" * 262144)', setup=_SEND, needs="link", way=3),
    "htb": Kind("network send", 'peer.sendall(b"?" * 262144)', setup=_SEND, needs="link"),
    "disk queue": Kind(
        "disk queue",
        "os.preadv(file, [page], 4096 * random.randrange(16000))",
        """\
import mmap, os, random, threading
def read():
    file = os.open("FOLDER/data", os.O_RDONLY | os.O_DIRECT)
    pages = mmap.mmap(-1, 1048576)
    while True: os.preadv(file, [pages], 1048576 * random.randrange(60))
for _ in range(8): threading.Thread(target=read).start()
""",
        setup='import mmap, random; file = os.open("FOLDER/data", os.O_RDONLY | os.O_DIRECT); page = mmap.mmap(-1, 4096)',
        rounds=200,
        work=0.001,
        burning=("disk", 1e6),
    ),
    "page cache": Kind(
        "page cache",
        "for _ in range(32): os.pread(file, 4096, 4096 * random.randrange(16000))",
        """\
import fcntl, os, time
file = os.open("FOLDER/data", os.O_RDONLY)
with open("FOLDER/held-KIND", "w") as held:
    fcntl.flock(held, fcntl.LOCK_EX)
    while True:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(0.002)
""",
        setup=_READ,
        rounds=200,
        work=0.001,
        needs="cache",
    ),
    "reclaim": Kind(
        "page faults",
        "for _ in range(32): pages[4096 * random.randrange(16000)]",
        setup=f"""\
{JOIN}
join("memory")
import mmap
{_READ}
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
for at in range(64): os.pread(file, 1 << 20, at << 20)
pages = mmap.mmap(file, 0, prot=mmap.PROT_READ)
pages.madvise(mmap.MADV_RANDOM)""",
        rounds=200,
        work=0.001,
        needs="memory",
    ),
    "swap": Kind(
        "page faults",
        "for _ in range(32): pages[4096 * random.randrange(16000)] = 1",
        setup=f"""\
{JOIN}
join("memory")
import mmap, random
pages = mmap.mmap(-1, 16000 * 4096)
for at in range(16000): pages[4096 * at] = 1""",
        rounds=200,
        work=0.001,
        needs="swap",
    ),
    "run queue": Kind(
        "run queue", "pass", "while True: pass\n", burning=("cpu", 0.3), placement="same-cpu", way=1
    ),
    "cpuset": Kind(
        "run queue",
        "pass",
        setup=f"""\
{JOIN}
join("cpuset")
other = os.fork()""",
        finish="os.waitpid(other, 0) if other else os._exit(0)",
        placement="same-host",
        needs="cpuset",
        way=1,
    ),
    "own quota": Kind(
        "throttling",
        "pass",
        setup=SPINS,
        finish="if spins: os.kill(spins, signal.SIGKILL); os.waitpid(spins, 0)",
        placement="same-host",
        needs="cpu",
        cpus=1,
        way=1,
    ),
    "nested quota": Kind("throttling", "pass", setup=f'{JOIN}\njoin("cpu")', needs="cpu", way=1),
    "enclosing quota": Kind("throttling", "pass", needs="cpu", way=1),
    "threads of one core": Kind(
        "threads of one core",
        "sum(range(400000))",
        """\
import os
with open("FOLDER/cpu") as file: os.sched_setaffinity(0, {int(file.read())})
while True: pass
""",
        setup=f"""\
of, = os.sched_getaffinity(0)
text = open("{SIBLINGS}".format(of)).read().replace("-", ",").split(",")
with open("FOLDER/cpu", "w") as file: file.write(next(one.strip() for one in text if int(one) != of))""",
        burning=("cpu", 0.3),
        placement="same-cpu",
        needs="threads",
    ),
    "nothing": Kind("", "pass", "import time\nwhile True: time.sleep(0.01)\n"),
}
"""By name; "nothing" slows nobody."""

PAIRED = ("file lock", "fsync", "peers", "http", "nested quota")
"""Kinds of which two can be planted at once."""

VICTIM = """\
import os, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
{setup}
for n in range({rounds}):
    work(SCALE * {work})
    {steps}
{finish}
"""

BOTH = """\
import threading
for name in {names}:
    threading.Thread(target=exec, args=(open(name).read(), {{}})).start()
"""
"""A neighbour that is several."""

WORKLOAD = """\
name: {name}
run: python3 {script}
neighbour: {{run: "python3 {script}", burning: {burning}}}
metrics: {{wall: {{builtin: wall, unit: s, better: lower}}}}
dominant: {resource}
trial: 0.5s
"""

SCENARIO = """\
study: interference
victims: [{victim}]
neighbours: [{neighbours}]
placement: {placement}
measure: {{blocks: {blocks}, target: null, pilot: 1, seed: {seed}}}
"""


def write(
    folder: Path,
    kinds: Sequence[str],
    facts: dict[str, dict[str, str]],
    *,
    scale: float,
    blocks: int,
    seed: int,
) -> Path:
    """Write a victim that has these mechanisms, a neighbour for each, and one that does all of it where there are several.

    facts: by kind, what the planter has for its texts. scale: of the victim's own work, which makes what is planted a
    smaller part of its time. Returns the path of the scenario.
    """
    if any("FOLDER/data" in KINDS[kind].setup for kind in kinds) and not (folder / "data").exists():
        (folder / "data").write_bytes(b"z" * DATA)
    several = [KINDS[kind] for kind in kinds]

    def filled(text: str, kind: str) -> str:
        values = {"FOLDER": str(folder), "KIND": kind.replace(" ", "-"), **facts.get(kind, {})}
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    victim = VICTIM.format(
        setup="\n".join(filled(KINDS[kind].setup, kind) for kind in kinds),
        rounds=max(kind.rounds for kind in several),
        work=max(kind.work for kind in several),
        steps="\n    ".join(kind.step for kind in several),
        finish="\n".join(kind.finish for kind in several),
    ).replace("SCALE", f"{scale:.3f}")
    _workload(folder, "victim", victim, ("cpu", 0))
    cpus = next((kind.cpus for kind in several if kind.cpus is not None), None)
    names = [f"neighbour{number}" for number, _ in enumerate(kinds)]
    for name, kind in zip(names, kinds, strict=True):
        _workload(folder, name, filled(KINDS[kind].neighbour, kind), KINDS[kind].burning)
    if len(kinds) > 1:
        scripts = [f"{folder}/{name}.py" for name in names]
        burning = next((kind.burning for kind in several if kind.burning[1]), ("cpu", 0.0))
        _workload(folder, "all", BOTH.format(names=scripts), burning)
        names.append("all")
    path = folder / "planted.yaml"
    path.write_text(
        SCENARIO.format(
            victim=json.dumps({str(folder / "victim.yaml"): {"limit": {"cpus": cpus}} if cpus else {}}),
            neighbours=", ".join(str(folder / f"{name}.yaml") for name in names),
            placement=several[0].placement,
            blocks=blocks,
            seed=seed,
        ),
        encoding="utf-8",
    )
    return path


def _workload(folder: Path, name: str, text: str, burning: tuple[str, float]) -> None:
    script = folder / f"{name}.py"
    script.write_text(text, encoding="utf-8")
    resource, rate = burning
    (folder / f"{name}.yaml").write_text(
        WORKLOAD.format(name=name, script=script, burning=rate, resource=resource), encoding="utf-8"
    )
