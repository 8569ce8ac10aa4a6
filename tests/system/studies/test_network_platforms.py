"""`contend run platform-network` on this host: each server stands where it was asked to, and nothing of that stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from support.command_line import Home, check_files, rows, wait_for
from support.prerequisites import need

SETTINGS = (
    "sizes=1",
    "provisioning=pinned",
    "measure.target=null",
    "measure.pilot=0",
    "measure.design=pairs",
)


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    need(os.geteuid() == 0, "root")
    for program in ("iperf3", "nginx", "ip"):
        need(shutil.which(program), program)
    home = Home(tmp_path)
    yield home
    home.nothing_left()


def words(blocks: int, *settings: str) -> list[str]:
    asked = [*SETTINGS, f"measure.blocks={blocks}", *settings]
    return ["run", "platform-network", *(word for setting in asked for word in ("--set", setting))]


def trials(contend: Home, *settings: str) -> dict[str, dict[str, Any]]:
    """The last row of each cell of a run of one block."""
    contend(*words(1, *settings), timeout=400).fine()
    run = contend.the_run()
    check_files(run)
    jsonschema.validate(json.loads((run / "findings.json").read_text()), analysis_schema())
    return {row["cell"]: row for row in rows(run)}


def figures(row: dict[str, Any]) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in row["metrics"]}


def test_bare_and_container_differ_in_nothing_but_the_container(contend: Home) -> None:
    need(shutil.which("podman") or shutil.which("runc"), "podman or runc")
    found = trials(contend)
    for app in ("iperf3", "http"):
        for place in ("bare 1 CPU", "container pinned 1 CPU"):
            own, host = found[f"{app}|{place}"], found[f"{app}[network=host]|{place}"]
            assert own["honoured"]["netns"].startswith("contend-") and host["honoured"]["netns"] is None
            assert own["honoured"]["cpus"] == host["honoured"]["cpus"] and len(own["honoured"]["cpus"]) == 1
    for name, row in found.items():
        told = figures(row)
        if name.startswith("http"):
            assert told["answered"] > 0.99 and told["lateness_p99"] >= 0
            assert 1e-6 < told["latency_p50"] <= told["latency_p99"]
            assert 1e-6 < told["server_cpu_per_request"] < 0.01
        else:
            # iperf3's own word for the same CPU time, in % of the test's length: what is moved in a second.
            own_s = told["server_cpu"] / 100 / (told["throughput"] * 1e6) * 1e9
            assert told["throughput"] > 1 and 0.3 * own_s < told["server_cpu_per_gb"] < 3 * own_s + 0.2


# A container in a guest has the guest's network: one application shows that it does.
@pytest.mark.parametrize(("platform", "apps"), [("vm", ("iperf3", "http")), ("container-in-vm", ("http",))])
def test_guests_are_reached_both_ways(contend: Home, platform: str, apps: tuple[str, ...]) -> None:
    need(shutil.which("qemu-system-x86_64"), "qemu-system-x86_64")
    need(os.access("/dev/net/tun", os.W_OK), "/dev/net/tun")
    both = ", ".join(f"{{{app}: {{network: host}}}}, {app}" for app in apps)
    found = trials(contend, f"platforms=[{platform}]", f"apps=[{both}]")
    for app in apps:
        own = found[f"{app}|{platform} pinned 1 CPU"]
        host = found[f"{app}[network=host]|{platform} pinned 1 CPU"]
        assert own["honoured"]["network"] in ("tap", "tap, vhost") and host["honoured"]["network"] == "user"
        for row in (own, host):
            told = figures(row)
            assert told["throughput"] > 0.1 if app == "iperf3" else told["answered"] > 0.5


def test_what_a_killed_run_made_is_removed(contend: Home) -> None:
    """SIGKILL while a server serves in its namespace; a guest's tap and bridge stand in it."""
    need(shutil.which("qemu-system-x86_64"), "qemu-system-x86_64")
    asked = words(50, "apps=http", "platforms=[vm]")
    with contend.start(*asked) as process:
        wait_for(lambda: any(rows(run) for run in contend.run_directories()), "trial", 300)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    left = contend.left()
    assert sum(line.startswith("netns ") for line in left) >= 4, (
        "a pair for the bare server, one for the guest"
    )
    contend("destroy", str(contend.the_run())).fine()
    contend.nothing_left()
    assert not [link for link in Path("/sys/class/net").iterdir() if link.name in ("contend0", "contend1")]
