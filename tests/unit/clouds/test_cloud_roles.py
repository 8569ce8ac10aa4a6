"""CPU time by role, read from /proc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contend.clouds.storm.roles import Used, between, ports, read, role_of


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("/v/bin/python /v/bin/nova-compute --config-file /e/nova.conf", "compute"),
        ("uwsgi --http-socket 127.0.0.1:18774 --module nova.wsgi.osapi_compute:application", "API"),
        ("uwsgi --module keystone.wsgi.api:application", "keystone"),
        ("uwsgi --module placement.wsgi.api:application", "placement"),
        ("uwsgi --module neutron.wsgi.api:application", "neutron"),
        ("nova-conductor: master process [/v/bin/nova-conductor]", "conductor"),
        ("/usr/sbin/mariadbd --no-defaults", "database"),
        ("/usr/lib/erlang/erts-13/bin/beam.smp -W w -- -root /usr/lib/erlang", "broker"),
        ("vim notes-on-databases.md", ""),
    ],
)
def test_roles_by_command_line(command: str, role: str) -> None:
    assert role_of(command) == role


def test_a_busy_service_is_seen() -> None:
    """A process that calls itself nova-conductor and burns: its time is told, nobody else's."""
    busy = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", busy, "nova-conductor"]
    before = read({})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        service.stdout.readline()
        after = read({})
        mine = {key: used for key, used in after.items() if key[0] == service.pid}
        service.communicate()
    found = between({k: v for k, v in before.items() if k in mine}, mine)
    assert found.keys() == {"conductor"}
    assert found["conductor"] >= 0.25


def test_only_what_was_used_meanwhile_counts(tmp_path: Path) -> None:
    before = {(1, 5): Used("API", 1_000_000_000), (2, 5): Used("database", 10)}
    after = {(1, 5): Used("API", 3_000_000_000), (2, 9): Used("database", 500_000_000)}
    assert between(before, after) == {"API": 2.0, "database": 0.5}
    assert read({}, tmp_path) == {}


def test_a_web_server_has_the_role_of_the_endpoint_it_listens_on() -> None:
    """Its command line says only gunicorn: the port tells, and its child that inherited the socket too."""
    serve = (
        "import os, socket, sys\ns = socket.create_server(('127.0.0.1', 0))\nos.set_inheritable(s.fileno(), True)\n"
        "pid = os.fork()\nif pid: print(s.getsockname()[1], pid, flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", serve, "gunicorn: master"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        port, child = service.stdout.readline().split()
        catalogue = {"identity": f"http://127.0.0.1:{port}/v3", "metric": "http://127.0.0.1:1/"}
        by_port = ports(catalogue)
        found = {key[0]: used.role for key, used in read(by_port).items()}
        service.communicate()
    assert by_port == {int(port): "keystone"}
    assert found[service.pid] == found[int(child)] == "keystone"


def test_endpoints_elsewhere_or_on_a_shared_port_tell_nothing() -> None:
    assert ports({"identity": "https://192.0.2.1:5000/v3"}) == {}
    assert ports({"identity": "http://127.0.0.1/identity", "image": "http://127.0.0.1/image"}) == {}
    assert ports({"compute": "http://127.0.0.1:8774/v2.1"}) == {8774: "API"}
