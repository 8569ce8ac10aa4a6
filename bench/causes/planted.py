"""Victims and neighbours of which it is known what one does to the other: workload files, with a folder for both."""

from __future__ import annotations

from pathlib import Path

VICTIMS = {
    "file lock": """\
import fcntl, sys, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
with open("FOLDER/lock", "w") as file:
    for _ in range(60):
        work(SCALE * 0.006)
        fcntl.flock(file, fcntl.LOCK_EX)
        work(SCALE * 0.001)
        fcntl.flock(file, fcntl.LOCK_UN)
""",
    "fsync": """\
import os, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
with open("FOLDER/mine", "wb", buffering=0) as file:
    for n in range(60):
        work(SCALE * 0.005)
        file.write(b"x" * 4096)
        os.fsync(file.fileno())
""",
    "peers": """\
import socket, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
with socket.create_connection(("127.0.0.1", PORT)) as peer:
    for _ in range(60):
        work(SCALE * 0.005)
        peer.sendall(b"?")
        assert peer.recv(1) == b"!"
""",
}
VICTIMS["disk queue"] = """\
import mmap, os, random, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
file = os.open("FOLDER/data", os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for n in range(200):
    work(SCALE * 0.001)
    os.preadv(file, [page], 4096 * random.randrange(16000))
"""
VICTIMS["page cache"] = """\
import os, random, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
file = os.open("FOLDER/data", os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for n in range(200):
    work(SCALE * 0.001)
    for _ in range(32): os.pread(file, 4096, 4096 * random.randrange(16000))
"""
VICTIMS["network send"] = """\
import socket, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
with socket.create_connection(("127.0.0.1", PORT)) as peer:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    for _ in range(60):
        work(SCALE * 0.005)
        peer.sendall(b"?" * 262144)
"""
VICTIMS["run queue"] = VICTIMS["nothing"] = """\
import time
end = time.thread_time() + SCALE * 0.4
while time.thread_time() < end: pass
"""

NEIGHBOURS = {
    "file lock": """\
import fcntl, time
with open("FOLDER/lock", "w") as file:
    while True:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(0.02)
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.005)
""",
    "fsync": """\
import os
with open("FOLDER/theirs", "wb", buffering=0) as file:
    while True:
        file.seek(0)
        for _ in range(16):
            file.write(b"y" * 1048576)
        os.fsync(file.fileno())
""",
    # The service looks whether somebody has this lock, and is slower then.
    "peers": """\
import fcntl, time
with open("FOLDER/slow", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    while True: time.sleep(0.01)
""",
    "disk queue": """\
import mmap, os, random, threading
def read():
    file = os.open("FOLDER/data", os.O_RDONLY | os.O_DIRECT)
    pages = mmap.mmap(-1, 1048576)
    while True: os.preadv(file, [pages], 1048576 * random.randrange(60))
for _ in range(8): threading.Thread(target=read).start()
""",
    "page cache": """\
import os, time
file = os.open("FOLDER/data", os.O_RDONLY)
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(0.002)
""",
    "run queue": """\
while True: pass
""",
    "nothing": """\
import time
while True: time.sleep(0.01)
""",
}
NEIGHBOURS["network send"] = NEIGHBOURS["peers"]

SERVICE = """\
import fcntl, socket, sys, time
with socket.create_server(("127.0.0.1", 0)) as server, open("FOLDER/slow", "w") as file:
    print(server.getsockname()[1], flush=True)
    while True:
        peer, _ = server.accept()
        with peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            while got := peer.recv(65536):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.flock(file, fcntl.LOCK_UN)
                    slow = False
                except BlockingIOError:
                    slow = True
                if len(got) == 1:
                    time.sleep(0.011 if slow else 0.001)
                    peer.sendall(b"!")
                elif slow:
                    time.sleep(0.0001 * len(got) / 1024)
"""
"""A service that nobody measures: it says its port. A question of one byte has an answer; more is taken, and that is all."""

BURNING = {"fsync": ("disk", 1e6), "disk queue": ("disk", 1e6), "run queue": ("cpu", 0.3)}
"""What a neighbour uses for certain; the others need not use anything."""

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


def write(folder: Path, kind: str, role: str, port: int = 0, scale: float = 1.0) -> Path:
    """Write the workload file of a victim or a neighbour of that kind, and what it reads. Returns its path.

    port: of the service; scale: of the victim's own work, which makes what is planted a smaller part of its time.
    """
    if kind in ("disk queue", "page cache") and not (folder / "data").exists():
        (folder / "data").write_bytes(b"z" * (16000 * 4096))
    texts = VICTIMS if role == "victim" else NEIGHBOURS
    name = f"{kind.replace(' ', '-')}-{role}"
    script = folder / f"{name}.py"
    text = (
        texts[kind].replace("FOLDER", str(folder)).replace("PORT", str(port)).replace("SCALE", f"{scale:.3f}")
    )
    script.write_text(text, encoding="utf-8")
    resource, burning = BURNING.get(kind, ("cpu", 0)) if role == "neighbour" else ("cpu", 0)
    path = folder / f"{name}.yaml"
    path.write_text(
        WORKLOAD.format(name=name, script=script, burning=burning, resource=resource), encoding="utf-8"
    )
    return path


def placement(kind: str) -> str:
    """Where victim and neighbour run: on a CPU of their own each, but for what only one CPU makes."""
    return "same-cpu" if kind == "run queue" else "own-cores"
