"""A PostgreSQL of a bench's own: made in a folder, owned by its user, open on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

USER = "bench"
_OWNER = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs, of the newest version that is installed."""
    (binaries,) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    return str(binaries / name)


def made(folder: Path, port: int) -> list[str]:
    """Make its files below a folder that its user can enter, and return the command that serves them. Needs root."""
    data = folder / "data"
    data.mkdir()
    subprocess.run(["chown", "postgres:", data], check=True)
    subprocess.run(
        [*_OWNER, program("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-instructions"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    listens = ("unix_socket_directories=", "listen_addresses=127.0.0.1")
    options = [word for setting in listens for word in ("-c", setting)]
    return [*_OWNER, program("postgres"), "-D", str(data), "-p", str(port), *options]


def client(name: str, port: int) -> list[str]:
    """The command of a client, less the database."""
    return [program(name), "-h", "127.0.0.1", "-p", str(port), "-U", USER]
