"""SSH servers of this host that stand for instances of a cloud."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from contend.clouds.instances import reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.reach import Way


class Instances:
    """SSH servers at these addresses, each with a host key of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.way = Way("root", place / "key")
        self.public = reach.make_key(self.way.key)
        (place / "authorized").write_text(self.public + "\n")
        self.servers: dict[str, subprocess.Popen[str]] = {}

    def start(self, address: str, path: str = os.environ["PATH"], inside: Sequence[str] = ()) -> Placed:
        """inside: the command before the server's, which runs it in a place of its own."""
        key = self.place / f"host-{address}"
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
        tests = str(Path(__file__).parents[1])
        words = [
            *inside,
            sys.executable,
            "-m",
            "support.ssh_server",
            address,
            str(key),
            str(self.place / "authorized"),
        ]
        env = {**os.environ, "PYTHONPATH": f"{tests}:{os.environ.get('PYTHONPATH', '')}", "PATH": path}
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
        self.servers[address] = server
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        return Placed("i", address, address, "h", "", "n")

    def stop(self, address: str) -> None:
        server = self.servers.pop(address)
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()

    def end(self) -> None:
        for address in list(self.servers):
            self.stop(address)
