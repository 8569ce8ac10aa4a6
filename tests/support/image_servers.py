"""A real nginx on loopback with an image to download, by HTTP and HTTPS; and `contend fetch` in a place of its own."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import quick_start
from support.command_line import CONTEND, Said
from support.prerequisites import need
from support.wire_servers import Authority

_CONFIG = """\
{user}
daemon off;
pid {place}/nginx.pid;
error_log {place}/error.log;
worker_processes 1;
events {{}}
http {{
  access_log off;
  sendfile on;
  client_body_temp_path {place}/t1;
  proxy_temp_path {place}/t2;
  fastcgi_temp_path {place}/t3;
  uwsgi_temp_path {place}/t4;
  scgi_temp_path {place}/t5;
  server {{
    listen 127.0.0.1:{http};
    listen 127.0.0.1:{https} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    root {place}/www;
    location /slow/ {{ alias {place}/www/; limit_rate 8m; }}
    location /moved/ {{ return 302 http://127.0.0.1:{http}/image.raw; }}
    location /away/ {{ return 302 https://127.0.0.1:{https}/image.raw; }}
    location /down/ {{ return 302 http://127.0.0.1:{http}/image.raw; }}
    location /circle/ {{ return 302 /circle/; }}
    location /refused/ {{ return 401; }}
  }}
}}
"""


@dataclass
class Images:
    """What is served, and where. `content` is that of image.raw."""

    place: Path
    http: str
    https: str
    authority: Path
    content: bytes = field(repr=False)

    @property
    def sha512(self) -> str:
        return "sha512:" + hashlib.sha512(self.content).hexdigest()

    def put(self, name: str, content: bytes) -> None:
        (self.place / "www" / name).write_bytes(content)


@contextmanager
def nginx(place: Path, size: int = 3_000_001) -> Iterator[Images]:
    """Serve `size` random bytes as image.raw."""
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    need(program, "nginx (apt-get install nginx-light)")
    (place / "www").mkdir()
    certificates = place / "tls"
    certificates.mkdir()
    authority = Authority(certificates)
    certificate, key = authority.certificate("127.0.0.1", "localhost")
    content = random.Random(7).randbytes(size)
    (place / "www" / "image.raw").write_bytes(content)
    ports = _free_ports(2)
    config = place / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""  # whose directories others may not read
    places = {"place": place, "http": ports[0], "https": ports[1]}
    config.write_text(_CONFIG.format(user=user, certificate=certificate, key=key, **places))
    with subprocess.Popen([str(program), "-c", str(config), "-e", str(place / "error.log")]) as server:
        try:
            _wait(ports, server)
            bases = f"http://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}"
            yield Images(place, *bases, authority.file, content)
        finally:
            server.terminate()
            server.wait()


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def _wait(ports: list[int], server: subprocess.Popen[bytes]) -> None:
    for port in ports:
        for _ in range(200):
            assert server.poll() is None, "nginx ended"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.02)
        else:
            raise AssertionError("nginx does not listen")


class Fetch:
    """`contend fetch` in a directory, with no proxy and no cloud of the environment."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and not name.startswith("OS_")
        }
        return kept | {"HOME": str(self.place), "XDG_CONFIG_HOME": str(self.place)} | changes

    def start(self, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> Any:
        kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        kept |= {"cwd": self.place, "env": self.environment(**(env or {}))}
        return subprocess.Popen([CONTEND, "fetch", *arguments], **(kept | options))

    def __call__(self, *arguments: str, env: dict[str, str] | None = None, timeout: float = 60) -> Said:
        """By a fork (support.quick_start)."""
        words, environment = ("fetch", *arguments), self.environment(**(env or {}))
        assert quick_start.possible(environment)
        done = quick_start.run(words, cwd=self.place, env=environment, timeout=timeout, errors="replace")
        return Said(done.returncode, done.stdout, done.stderr)

    def anew(self, *arguments: str, timeout: float = 60) -> Said:
        """By an interpreter of its own."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=timeout)
        return Said(process.returncode, out.decode(errors="replace"), err.decode())

    def raw(self, *arguments: str) -> tuple[int, bytes, str]:
        """As above, with what came on stdout as it is."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err.decode()

    def left(self) -> list[str]:
        """Names of what lies there."""
        # openstacksdk has its plug-ins found by stevedore, which remembers them in the home directory's .cache.
        return sorted(path.name for path in self.place.iterdir() if path.name != ".cache")

    def part(self, name: str = "image.raw") -> Path:
        return self.place / f".{name}.part"

    def order(self, **order: Any) -> Said:
        """contend-fetch itself, without an interpreter before it."""
        program = os.environ.get("CONTEND_FETCH") or str(Path(sys.executable).with_name("contend-fetch"))
        done = subprocess.run(
            [program],
            input=json.dumps(order).encode(),
            capture_output=True,
            cwd=self.place,
            env=self.environment(),
            timeout=60,
        )
        return Said(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())
