"""Servers below OpenStack: MariaDB and RabbitMQ, the bed's own, on the loopback device."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping

from contend.errors import CannotHonour, HostFailed
from contend.testbed.openstack import daemons
from contend.testbed.openstack.bed import Bed, answers

COUNTING = "counting"
"""The user that may see what the others' statements count, and no data."""
DATABASES = ("keystone", "glance", "placement", "nova_api", "nova", "nova_cell0", "neutron", "cinder", "heat")


def start_database(bed: Bed, environment: Mapping[str, str]) -> None:
    """Bring MariaDB up, with an empty database for each service and a user that owns it.

    Raises HostFailed, CannotHonour.
    """
    program = _find("mariadbd", "mariadb-server")
    data, port = bed.data / "mysql", bed.ports["mariadb"]
    user = _user()
    if not data.exists():
        beside = data.with_name("mysql.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        install = [
            _find("mariadb-install-db", "mariadb-server"),
            "--no-defaults",
            f"--user={user}",
            f"--datadir={beside}",
            # Nobody else on the host is its administrator.
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={user}",
            "--skip-test-db",
        ]
        daemons.run(bed, "mariadb-install", install, environment)
        beside.rename(data)
    daemons.start(
        bed,
        "mariadb",
        [
            program,
            "--no-defaults",
            # It would rather not be root; but the bed may lie where no other user can come by.
            f"--user={user}",
            f"--datadir={data}",
            f"--socket={data}/s.sock",
            "--bind-address=127.0.0.1",
            f"--port={port}",
            "--max-connections=1000",
            # Statements are counted by user.
            "--userstat=1",
            # Once a second to the disk: the bed's data are worth no more, and the disk is not what it studies.
            "--innodb-flush-log-at-trx-commit=2",
        ],
        environment,
    )
    daemons.wait(bed, ["mariadb"], lambda: answers(port), "mariadb does not answer", 60)
    grants = "".join(
        f"CREATE DATABASE IF NOT EXISTS {name};" + _grant(bed, name, f"ALL ON {name}.*") for name in DATABASES
    )
    # Nova's cells are reached as its first database is.
    grants += _grant(bed, "nova", "ALL ON nova_cell0.*") + _grant(bed, COUNTING, "PROCESS ON *.*")
    sql(bed, grants, environment)
    url = f"mysql://{COUNTING}:{bed.password}@127.0.0.1:{port}/"
    bed.write(bed.counted.name, url + "\n")


def _grant(bed: Bed, user: str, what: str) -> str:
    hosts = ("127.0.0.1", "localhost")
    return "".join(f" GRANT {what} TO {user}@'{host}' IDENTIFIED BY '{bed.password}';" for host in hosts)


def sql(bed: Bed, statements: str, environment: Mapping[str, str]) -> str:
    """Run SQL and return its rows, a line each, columns by tabs. Statements go in by stdin: everybody can see arguments."""
    socket = bed.data / "mysql/s.sock"
    done = subprocess.run(
        [_find("mariadb", "mariadb-client"), "--no-defaults", "-N", f"-u{_user()}", "-S", str(socket)],
        input=statements,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HostFailed("MariaDB refuses a statement", hint=done.stderr.strip())
    return done.stdout


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _find(program: str, package: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise CannotHonour(f"{program} is not on this host", hint=f"apt-get install {package}")
    return path
