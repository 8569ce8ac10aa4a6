"""The network's overhead by platform: which cells, which way in, and what is left out without root."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.engine import checks
from contend.errors import CannotHonour, TrialFailed, WorkloadError
from contend.platforms import network as networks
from contend.platforms.guests import boot
from contend.platforms.guests.qemu import Machine
from contend.platforms.network import Tap, listening
from contend.studies.overhead import result as overheads
from contend.studies.overhead.model import Overhead
from contend.studies.overhead.words import effect_rows
from contend.studies.registry import cells_of
from contend.studies.scenarios import load
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from contend.workloads.load import load_file
from contend.workloads.metrics import read_metrics
from support.intervals import holds
from support.made_runs import Made


def asked(*settings: str) -> Overhead:
    scenario = load("platform-network", ("sizes=1", "provisioning=vanilla", *settings))
    assert isinstance(scenario, Overhead)
    return scenario


def test_a_cell_is_compared_with_the_bare_host_of_the_same_network() -> None:
    found = {cell.id: cell for cell in cells_of(asked("platforms=[container,vm]"))}
    for app, network in (("iperf3", "pair"), ("iperf3[network=host]", "host"), ("http", "pair")):
        for kind in ("container", "vm"):
            cell = found[f"{app}|{kind} vanilla 1 CPU"]
            assert cell.baseline == f"{app}|bare 1 CPU"
            baseline = found[cell.baseline]
            assert (cell.victim.instance.network, baseline.victim.instance.network) == (network, network)


def test_without_root_loopback_is_measured_and_the_rest_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fitted, left_out = checks.fitted(asked())
    assert {cell.victim.instance.label for cell in cells_of(fitted)} == {
        "iperf3[network=host]",
        "http[network=host]",
    }
    assert [line.split(":")[0] for line in left_out] == ["app iperf3", "app http"]
    assert all("root" in line for line in left_out)
    assert (
        "app http: a network pair (two network namespaces) needs root (sudo contend …, or {http: {network: host}} for"
        in left_out[1]
    )
    # What alone was asked for is refused, not run without it.
    kept, left_out = checks.fitted(asked("apps=iperf3"))
    assert isinstance(kept, Overhead) and (len(kept.apps), left_out) == (1, ())


def test_without_root_it_says_what_asked_for_namespaces_and_what_does_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(checks.install, "missing", lambda _: ())
    with pytest.raises(CannotHonour, match=r"^hosts made of network namespaces of this machine need root$"):
        checks.check(load("network-placement", ()))
    with pytest.raises(CannotHonour, match=r"^iperf3: a network pair .* needs root$") as refused:
        checks.check(load("noisy-neighbour", ["victims=iperf3", "neighbours=stress-cpu"]))
    assert refused.value.hint == "sudo contend …, or {iperf3: {network: host}} for loopback"


def test_with_root_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "check_rights", lambda *_: None)
    fitted, left_out = checks.fitted(asked())
    assert isinstance(fitted, Overhead) and (len(fitted.apps), left_out) == (4, ())


def test_a_latency_at_a_stated_rate_is_not_twice_as_long_on_half_a_cpu() -> None:
    http, iperf3 = load_workload("http").metrics, load_workload("iperf3").metrics
    assert overheads.part(0.5, http["latency_p50"].loop) == 1.0
    assert overheads.part(0.5, iperf3["throughput"].loop) == 0.5


@pytest.mark.parametrize(("chosen", "network"), [({}, "pair"), ({"network": "host"}, "host")])
def test_a_parameter_says_where_a_server_stands(chosen: dict[str, str], network: str) -> None:
    assert resolve(load_workload("iperf3"), chosen).network == network
    assert resolve(load_workload("nginx"), {}).network == "host"


FILE = """\
name: mine
{parameters}network: {network}
serve: {{run: "serve", ready: {{tcp: 80}}}}
run: "load"
metrics: {{cpu: {{builtin: server_cpu, per: {{from: r.json, path: {path}}}, scale: 1000, unit: ms, better: lower}}}}
dominant: network
trial: 1s
"""


def written(place: Path, network: str = "pair", parameters: str = "", path: str = "$.n") -> Path:
    file = place / "mine.yaml"
    file.write_text(FILE.format(network=network, parameters=parameters, path=path))
    return file


@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        ("both", ""),
        ("'{where}'", ""),
        ("'{where}'", "parameters: {where: {default: pair}}\n"),
        ("'{where}'", "parameters: {where: {default: pair, choices: [pair, moon]}}\n"),
    ],
)
def test_a_network_that_there_is_not(tmp_path: Path, network: str, parameters: str) -> None:
    with pytest.raises(WorkloadError, match="network"):
        load_file(written(tmp_path, network, parameters))


def test_cpu_time_of_the_server_for_what_it_served(tmp_path: Path) -> None:
    workload = load_file(written(tmp_path))
    (tmp_path / "r.json").write_text('{"n": 400}')
    (reading,) = read_metrics(workload, tmp_path, [], [], {"server_cpu": 0.2})
    assert reading.value == pytest.approx(0.5)
    (tmp_path / "r.json").write_text('{"n": 0}')
    with pytest.raises(TrialFailed, match="divided by is 0"):
        read_metrics(workload, tmp_path, [], [], {"server_cpu": 0.2})
    with pytest.raises(TrialFailed, match="server_cpu was not measured"):
        read_metrics(workload, tmp_path, [], [], {})
    with pytest.raises(WorkloadError, match="is not a JSONPath"):
        load_file(written(tmp_path, path="'$.a['"))


def test_cpu_time_of_no_server(tmp_path: Path) -> None:
    file = written(tmp_path, "''")
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "serve:" not in line))
    with pytest.raises(WorkloadError, match="server_cpu needs a server"):
        load_file(file)


@pytest.mark.parametrize("address", ["127.7.7.7", "::ffff:127.7.7.7"])
def test_what_listens_where_no_client_is_sent_serves_nobody(address: str) -> None:
    with (
        socket.socket() as kept,
        socket.socket(socket.AF_INET6) as kept_v6,
        socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server,
    ):
        # Bound and silent: a port is given out once for each address, and another's server may have it at these.
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        kept_v6.bind(("::1", port))
        server.bind((address, port))
        server.listen()
        assert not listening(None, port)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"])
def test_whatever_clients_reach_serves(address: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        server.bind((address, 0))
        server.listen()
        assert listening(None, server.getsockname()[1])


def test_who_listens_is_seen_without_a_connection() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not listening(None, port), "bound is not listening"
        server.listen()
        server.settimeout(0.05)
        assert listening(None, port)
        with pytest.raises(TimeoutError):
            server.accept()
    assert not listening(None, port)


def test_how_a_guest_gets_its_packets(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("x")
    booted = boot.Boot(tmp_path / "disk", tmp_path / "vmlinuz", tmp_path / "initramfs", "6.1")

    def machine(accel: str, tap: Tap | None) -> tuple[str, str]:
        made = Machine(booted, accel, 1, 512, tap=tap)
        return made.network, " ".join(made.command(("agent",)))

    network, words = machine("kvm", None)
    assert network == "user" and "-netdev user,id=net" in words and boot.ADDRESS not in words
    network, words = machine("kvm", Tap("t0", "10.200.0.1/30", vhost=True))
    assert network == "tap, vhost" and "tap,id=net,ifname=t0,script=no,downscript=no,vhost=on" in words
    assert f"{boot.ADDRESS}=10.200.0.1/30" in words
    # vhost needs the guest's memory as KVM has it: an emulated one is QEMU's to serve.
    network, words = machine("tcg", Tap("t0", "10.200.0.1/30", vhost=True))
    assert network == "tap" and "vhost=off" in words


NETWORKS = """
study: overhead
title: What does the network cost?
apps: [{http: {network: host}}, http]
sizes: [1, 2]
provisioning: vanilla
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""


def test_what_a_pair_costs_by_itself_and_in_a_container(tmp_path: Path) -> None:
    """A pair costs 1.25 bare, and in a container of one CPU 1.3 beside; of two CPUs nothing beside."""
    bare = 1.25
    slow = {
        "http|bare 1 CPU": bare,
        "http|bare 2 CPUs": bare,
        "http|bare 2 CPUs (control)": bare,
        "http|container vanilla 1 CPU": bare * 1.1 * 1.3,
        "http|container vanilla 2 CPUs": bare * 1.1,
        "http[network=host]|container vanilla 1 CPU": 1.1,
        "http[network=host]|container vanilla 2 CPUs": 1.1,
    }
    made = Made(tmp_path, 15, slow, {}, environment={"cpus": 2}, text=NETWORKS)
    analysis = made.analyse()
    assert analysis.result is not None
    found = {(e.over[0].platform, e.over[0].size): e for e in analysis.result.effects if e.kind == "network"}
    assert found.keys() == {("bare", 1), ("bare", 2), ("container", 1), ("container", 2)}
    for where, truth in ((("bare", 1), 1.25), (("bare", 2), 1.25), (("container", 1), 1.3)):
        ratio = found[where].ratio
        assert holds(ratio, truth) and ratio.verdict == "higher", where
    assert found["container", 2].ratio.verdict == "unaffected"
    assert (found["bare", 1].over[0].application, found["bare", 1].under[0].application) == (
        "http", "http[network=host]",
    )  # fmt: skip
    # The bare host's own figures are in no other table.
    assert {d.platform for d in analysis.result.decompositions} == {"container"}
    jsonschema.validate(json.loads(json.dumps(analysis.to_json())), analysis_schema())
    shown = [row[:2] for row in effect_rows(analysis.result, ("network",))]
    assert ("network", "http, bare, 1 CPU") in shown and (
        "network",
        "http, container vanilla, 2 CPUs",
    ) in shown


def test_what_a_pair_costs_is_a_finding_by_itself_and_where_it_costs_more(tmp_path: Path) -> None:
    slow = {
        "http|bare 1 CPU": 1.25,
        "http|bare 2 CPUs": 1.5,
        "http|bare 2 CPUs (control)": 1.5,
        "http|container vanilla 1 CPU": 1.25 * 1.3,
        "http|container vanilla 2 CPUs": 1.5 * 0.8,
    }
    made = Made(tmp_path, 15, slow, {}, environment={"cpus": 2}, text=NETWORKS)
    found = [f for f in made.analyse().findings if f.kind == "network-pair"]
    bare, dearer, cheaper = sorted(found, key=lambda f: ("bare host:" not in f.sentence, -f.estimate.value))
    assert {f.subject for f in found} == {"http"} and {f.resource for f in found} == {"network"}
    assert bare.sentence.startswith("http over a network pair takes 1.2")
    assert (
        " at 1 CPU, 1.5" in bare.sentence
        and " at 2 CPUs, of what it takes over loopback on the bare" in bare.sentence
    )
    assert bare.estimate.value == pytest.approx(1.5, rel=0.05) and len(bare.evidence) == 2
    assert "--network host" in bare.advice and bare.verify.endswith("--set sizes=[1,2]")
    assert "--set apps" not in bare.verify  # one application alone is over one network alone
    assert dearer.sentence.startswith("http in a vanilla container over a network pair takes 1.3")
    assert "beyond what the pair changes on the bare host" in dearer.sentence
    assert dearer.verify.endswith("--set sizes=[1]")
    assert cheaper.estimate.value == pytest.approx(0.8, rel=0.05)
    assert "costs it nothing here" in cheaper.advice


def test_a_pair_that_changes_nothing_is_no_finding(tmp_path: Path) -> None:
    made = Made(tmp_path, 15, {}, {}, environment={"cpus": 2}, text=NETWORKS)
    assert [f for f in made.analyse().findings if f.kind == "network-pair"] == []


def test_one_network_alone_has_no_effect_of_it(tmp_path: Path) -> None:
    text = NETWORKS.replace("{http: {network: host}}, ", "")
    analysis = Made(tmp_path, 8, {}, {}, environment={"cpus": 2}, text=text).analyse()
    assert analysis.result is not None
    assert "network" not in {e.kind for e in analysis.result.effects}
