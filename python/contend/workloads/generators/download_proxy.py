"""A TLS proxy before a cloud's Glance that speaks HTTP only: nginx of one trial, on loopback of the clients' host.

It stands for the web server that ends TLS in front of the APIs of most clouds. It keeps nothing, writes nothing to disk, and
passes on what Glance says as it is. How much went through it is counted: a client that follows a link of Glance's past it
would be measured by HTTP, and taken for HTTPS.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from contend.errors import CannotHonour, HostFailed, TrialFailed
from contend.platforms.packages import install_command
from contend.platforms.programs import find_command
from contend.units import format_value
from contend.workloads.generators.download import server_cpu_s, server_pids
from contend.workloads.generators.download_server import certify

SCHEME = "tls-proxy"  # the value of the workload's parameter
_PID, _LOG = "proxy.pid", "proxy.log"
_START_S = _END_S = 15.0
_POLL_S = 0.01


class Proxy(NamedTuple):
    """A running proxy. base: URL for clients instead of Glance's own. pids: nginx and its workers. log: bytes of each
    answer."""

    base: str
    authority: str
    pids: tuple[int, ...]
    log: Path

    def cpu_s(self) -> float:
        """CPU seconds of the proxy so far."""
        return server_cpu_s(self.pids)


def refuse_https(url: str) -> None:
    """Refuse a Glance that speaks TLS itself: results would name the proxy's TLS. Raises CannotHonour."""
    if url.startswith("https:"):
        raise CannotHonour(
            "the cloud's Glance speaks HTTPS itself", hint="scheme: cloud measures that; leave tls-proxy out"
        )


def prepare(folder: Path) -> None:
    """Make the certificate of all trials of a run. Raises HostFailed."""
    if not (folder / "certificate.pem").exists():
        folder.mkdir(parents=True, exist_ok=True)
        certify(folder)


def configuration(text: str, upstream: str, folder: Path, port: int) -> str:
    """Fill in the catalogue's image-download-proxy.conf. upstream: scheme, host and port of Glance.

    >>> configuration("PORT PLACE UPSTREAM", "http://h:9292", Path("/p"), 1)
    '1 /p http://h:9292'
    """
    for name, value in (("PORT", port), ("PLACE", folder), ("UPSTREAM", upstream)):
        text = text.replace(name, str(value))
    return text


@contextmanager
def before(base: str, folder: Path, conf: Path, out: Path) -> Iterator[Proxy]:
    """Run nginx before Glance at `base` while the block runs; its files are in `out`.

    folder: with the certificate that `prepare` made. Raises CannotHonour, HostFailed.
    """
    refuse_https(base)
    nginx = find_command("nginx")
    if nginx is None:
        raise HostFailed("there is no nginx to put before Glance", hint=install_command("nginx-light"))
    parts = urlsplit(base)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    written = out / "proxy.conf"
    text = conf.read_text(encoding="utf-8")
    written.write_text(configuration(text, f"http://{parts.netloc}", folder, port), encoding="utf-8")
    # As root, workers keep root's identity: another user could not read what lies below a private directory.
    user = ["-g", "user root;"] if os.geteuid() == 0 else []
    words = [str(nginx), "-p", str(out), "-c", str(written), "-e", "stderr", *user]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            pids = _until_it_serves(process, port, out / _PID)
            base = f"https://127.0.0.1:{port}{parts.path.rstrip('/')}"
            yield Proxy(base, str(folder / "certificate.pem"), pids, out / _LOG)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _until_it_serves(process: subprocess.Popen[bytes], port: int, file: Path) -> tuple[int, ...]:
    """Its pids, once it listens and has its worker: it listens a moment before it has."""
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        pids = server_pids(file)
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            pids = ()
        if len(pids) > 1:
            return pids
        time.sleep(_POLL_S)
    raise HostFailed("the TLS proxy does not start", hint="what nginx said stands above")


def check_passed(proxy: Proxy, size: int) -> None:
    """Check that so many bytes went through the proxy. Raises TrialFailed where a client has bypassed it."""
    until = time.monotonic() + _END_S
    # A line is written when an answer is over, which may be a moment after the client has all of it.
    while (passed := _passed(proxy.log)) < size and time.monotonic() < until:
        time.sleep(_POLL_S)
    if passed < size:
        raise TrialFailed(
            f"only {format_value(passed, 'B')} of {format_value(size, 'B')} came through the TLS proxy",
            hint="does Glance name a public_endpoint that the client went to instead?",
        )


def _passed(log: Path) -> int:
    try:
        lines = log.read_text(encoding="ascii").split("\n")
    except OSError:
        return 0
    return sum(int(line) for line in lines[:-1])  # behind the last line's end stands nothing, or half a line
