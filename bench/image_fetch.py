"""Processor time of downloading an image, a client beside the others: user + system of the client, per 10^9 bytes.

    python bench/image_fetch.py [--size 2G] [--rounds 10] [--place /dev/shm] [--write docs/results/image-fetch]
    python bench/image_fetch.py --clients fetch,curl,glanceclient        a third of the time; the parts are always there

A random image from a local nginx on loopback, which answers about it as Glance does, by HTTP and by HTTPS, to /dev/null;
start-up of every client included. All clients run once a round, in an order of its own. In the same rounds the parts: a
reader that receives into one buffer and looks at nothing, AES-GCM (records of 16 KiB, the cheaper of OpenSSL's and this
Python's cryptography), sha512 of one cached buffer (this Python's OpenSSL).

The floor of a verified download is sha512 alone: every client hashes all bytes, and contend fetch by the same library. The
other parts are in no floor, since a client can take less for them than they take here. Receiving as fast as the server
sends costs more, a byte, than receiving at the pace of the hash; and contend fetch decrypts by a cheaper AES-GCM than
OpenSSL's.

Of two clients the ratio of each round is formed, and its interval by contend's own statistics. Each client has the cipher
that it likes best, as it would from any nginx: AES-128-GCM by contend fetch and Go, AES-256-GCM by those on OpenSSL. What
the server used stands beside it. A client that is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import contend.workloads.generators.download_server as server
from contend.errors import BadInput
from contend.stats.compare import compare
from contend.units import parse_size_bytes
from contend.workloads.downloads.clients import CLIENTS, Command, Task, command_of, put_program
from contend.workloads.generators.download import environment, server_cpu_s, server_pids
from contend.workloads.load import catalogue
from results.files import save_at
from results.pages import image_fetch
from results.record import recording

RECORD = 16 << 10
# (treatment, baseline): above 1 the first is dearer.
RATIOS = (
    ("http fetch", "http curl"),
    ("https curl", "https fetch"),
    ("http+sha512 reqwest", "http+sha512 fetch"),
    ("https+sha512 reqwest", "https+sha512 fetch"),
    ("http+sha512 glanceclient", "http+sha512 fetch"),
    ("https+sha512 glanceclient", "https+sha512 fetch"),
    ("http+sha512 fetch", "sha512"),
    ("https+sha512 fetch", "sha512"),
    ("http+sha512 reader", "sha512"),
    ("https+sha512 reader", "sha512"),
)


def used(command: Command, environ: dict[str, str]) -> float:
    """User + system seconds of a command and what it waits for. Ends the bench where it fails."""
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        told.write(command.stdin.encode())
        told.seek(0)
        process = subprocess.Popen(
            command.argv, stdin=told, stdout=said, stderr=subprocess.STDOUT, env=environ
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if status:
            sys.exit(f"error: {' '.join(command.argv)}\n{said.read().decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


@contextmanager
def nginx(place: Path) -> Iterator[tuple[str, str]]:
    """The HTTP and the HTTPS base of a server of what `download_server.make` made."""
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if program is None:
        sys.exit("error: nginx is not installed\n  hint: apt-get install nginx-light")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = one.getsockname()[1], two.getsockname()[1]
    text = (catalogue() / "image-download.conf").read_text(encoding="utf-8")
    conf = place / "nginx.conf"
    conf.write_text(server.configuration(text, place, *ports), encoding="utf-8")
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    with subprocess.Popen([program, "-p", str(place), "-c", str(conf), "-e", "stderr", *user]) as process:
        try:
            for port in ports:
                _wait(port)
            yield f"http://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}"
        finally:
            process.terminate()


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    sys.exit("error: nginx does not listen")


def receiving(url: str, size: int) -> float:
    """Seconds of processor time to receive so many bytes into one buffer."""
    parts = urlsplit(url)
    buffer, left = bytearray(256 << 10), size
    began = time.thread_time()
    with socket.create_connection((parts.hostname, parts.port)) as taken:
        taken.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        while got := taken.recv_into(buffer):
            left -= got
    spent = time.thread_time() - began
    if left > 0:  # the head came besides
        sys.exit(f"error: {url} was cut short")
    return spent


def hashing(size: int) -> float:
    """Seconds of processor time to hash so many bytes, from one cached buffer."""
    buffer, digest = os.urandom(256 << 10), hashlib.sha512()
    began = time.thread_time()
    for _ in range(size // len(buffer)):
        digest.update(buffer)
    return time.thread_time() - began


def decrypting(size: int) -> float:
    """Seconds of processor time to decrypt so many bytes in records, by AES-128-GCM."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher, nonce = AESGCM(bytes(16)), bytes(12)
    record = cipher.encrypt(nonce, bytes(RECORD), None)
    began = time.thread_time()
    for _ in range(size // RECORD):
        cipher.decrypt(nonce, record, None)
    return time.thread_time() - began


def decrypting_by_openssl(size: int) -> float:
    words = [
        "openssl",
        "speed",
        "-mr",
        "-decrypt",
        "-seconds",
        "1",
        "-bytes",
        str(RECORD),
        "-evp",
        "aes-128-gcm",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"^\+F:\d+:[^:]+:([0-9.]+)", done.stdout, re.MULTILINE)
    return size / float(found[1]) if found else float("inf")


def cells_of(
    bases: dict[str, str], authority: str, sha512: str, place: Path, clients: Sequence[str]
) -> dict[str, Command]:
    """The command of each cell; those of clients that are not here are left out, and said. What is built is in `place`."""
    asked = {name: CLIENTS[name] for name in clients}
    for name, client in asked.items():
        if not client.missing():
            put_program(name, place, place / "cache")
    cells: dict[str, Command] = {}
    absent = set()
    for scheme, base in bases.items():
        task = Task(base, authority=authority if scheme == "https" else "", programs=str(place))
        for name, client in asked.items():
            if client.missing():
                absent.add(f"{name} ({', '.join(client.missing())})")
                continue
            for label, one in ((scheme, task), (f"{scheme}+sha512", replace(task, sha512=sha512))):
                try:
                    cells[f"{label} {name}"] = command_of(name, one)
                except BadInput:  # it cannot do without, or with it
                    continue
    if absent:
        print(f"left out, not installed: {', '.join(sorted(absent))}")
    return cells


def measured(
    cells: dict[str, Command], url: str, size: int, rounds: int, pids: Sequence[int]
) -> dict[str, list[float]]:
    """Seconds per 10^9 bytes of each cell, round by round; `server NAME`: of the server meanwhile."""
    environ = environment()
    found: dict[str, list[float]] = {}
    names = [*cells, "sha512", "AES-GCM", "recv"]
    for turn in range(rounds + 1):
        random.Random(turn).shuffle(names)
        for name in names:
            before = server_cpu_s(pids)
            if name == "sha512":
                spent = hashing(size)
            elif name == "recv":
                spent = receiving(url, size)
            elif name == "AES-GCM":
                spent = min(decrypting(size), decrypting_by_openssl(size))
            else:
                spent = used(cells[name], environ)
            if turn:  # the first warms the page cache up
                found.setdefault(name, []).append(spent / size * 1e9)
                found.setdefault(f"server {name}", []).append((server_cpu_s(pids) - before) / size * 1e9)
        print(f"round {turn} of {rounds}", file=sys.stderr)
    return found


def ratios(found: dict[str, list[float]]) -> dict[str, list[float]]:
    """Estimate, low and high of each that was measured."""
    told = {}
    for treatment, baseline in RATIOS:
        if treatment in found and baseline in found:
            estimate = compare(found[baseline], found[treatment])
            told[f"{treatment} / {baseline}"] = [estimate.value, estimate.low, estimate.high]
    return told


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=parse_size_bytes, default=2 << 30)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--place", type=Path, help="where the image is made (default: the temporary directory)"
    )
    parser.add_argument("--clients", default=",".join(CLIENTS), metavar="NAME,…", help="only these")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    clients = given.clients.split(",")
    if unknown := sorted(set(clients) - set(CLIENTS)):
        parser.error(f"no client '{unknown[0]}'; there are {', '.join(CLIENTS)}")
    with tempfile.TemporaryDirectory(dir=given.place) as name:
        place = Path(name)
        sha512 = server.make(place, given.size)
        with nginx(place) as (http, https):
            bases = {"http": http, "https": https}
            cells = cells_of(bases, str(place / "certificate.pem"), sha512, place, clients)
            found = measured(
                cells, Task(http).url, given.size, given.rounds, server_pids(place / "nginx.pid")
            )
    told = {"size": given.size, "rounds": given.rounds, "cpu_s_per_gb": found, "ratios": ratios(found)}
    print("\n".join(image_fetch.lines(told)))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
