"""Where instances stand: cells and baselines, names and addresses, and what cannot be had here."""

from __future__ import annotations

import ipaddress
import os
import re

import pytest

from contend.engine import checks
from contend.engine.plan import make_plan
from contend.errors import BadInput, CannotHonour, ScenarioError
from contend.platforms import network
from contend.studies.placement.model import NetworkPlacement
from contend.studies.registry import cells_of
from contend.studies.scenarios import dump, load
from contend.testbed.placement import layout as layouts
from contend.testbed.placement import ovs
from contend.testbed.placement.layout import Layout, gateway, hosts_commands, instance_commands
from contend.workloads.drivers.placement.trial import iperf
from contend.workloads.generators import placement as generator


def asked(*settings: str) -> NetworkPlacement:
    scenario = load("network-placement", settings)
    assert isinstance(scenario, NetworkPlacement)
    return scenario


def test_each_place_is_compared_with_one_host_and_subnet_under_the_same_conditions() -> None:
    cells = cells_of(asked())
    places = {"same/same", "same/different", "different/same", "different/different"}
    assert {f"{c.factors['host']}/{c.factors['subnet']}" for c in cells} == places
    by_id = {cell.id: cell for cell in cells}
    for cell in cells:
        if not cell.baseline:
            assert (cell.factors["host"], cell.factors["subnet"], cell.factors["encapsulation"]) == (
                "same",
                "same",
                "none",
            )
            continue
        baseline = by_id[cell.baseline]
        for key in ("protocol", "message", "pairs"):
            assert baseline.factors[key] == cell.factors[key]
    assert all(cell.factors["ends"] == "namespaces of one machine" for cell in cells)
    # Within a host nothing is encapsulated.
    assert {c.factors["host"] for c in cells if c.factors["encapsulation"] != "none"} == {"different"}


def test_every_baseline_has_its_control_in_the_same_namespaces() -> None:
    cells = cells_of(asked())
    baselines = [c for c in cells if not c.baseline]
    controls = {c.baseline: c for c in cells if c.control}
    assert set(controls) == {c.id for c in baselines}
    for baseline in baselines:
        assert controls[baseline.id].victim == baseline.victim


def test_more_pairs_go_with_the_first_protocol_and_message() -> None:
    of = {
        (c.factors["protocol"], c.factors["message"])
        for c in cells_of(asked("pairs=[1,8]"))
        if c.factors["pairs"] == "8"
    }
    assert of == {("tcp", "1400")}
    assert {c.factors["message"] for c in cells_of(asked("messages=[64, 4k]"))} == {"64", "4096"}


def test_every_block_holds_every_cell_in_an_order_of_its_own() -> None:
    plan = make_plan(asked(), 3)
    blocks = list(plan.rounds("counted"))
    orders = {tuple(trial.cell for trial in block) for block in blocks}
    assert len(orders) == len(blocks)
    assert all(sorted(order) == sorted(cell.id for cell in plan.cells) for order in orders)


def test_it_reads_back_as_it_was_written() -> None:
    from contend.studies.registry import study

    scenario = asked("pairs=[2]", "encapsulation=vxlan", "parameters.rate=100")
    again = study("placement").scenario.model_validate(dump(scenario))
    assert cells_of(again) == cells_of(scenario)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("hosts=different", "need same"),
        ("messages=70000", "65507"),
        ("messages=8", "16 to"),
        ("pairs=0", "pairs"),
        ("parameters.pairs=3", "factor"),
        ("platform=container", "bare"),
        ("encapsulation=gre", "encapsulation"),
    ],
)
def test_what_makes_no_sense_is_one_clear_error(setting: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        load("network-placement", (setting,))


def test_without_root_it_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotHonour, match="root") as refused:
        checks.check(asked())
    assert "sudo" in refused.value.hint


def test_open_vswitch_is_left_out_with_the_reason_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovs, "find_command", lambda name: None)
    scenario = asked("encapsulation=[none,vxlan,ovs]")
    fitted, left_out = checks.fitted(scenario)
    assert isinstance(fitted, NetworkPlacement)
    assert fitted.encapsulation == ("none", "vxlan")
    (line,) = left_out
    assert "ovs-vswitchd" in line and "openvswitch-switch" in line
    with pytest.raises(CannotHonour, match="ovs"):
        checks.fitted(asked("encapsulation=ovs"))


RUNS = ("network-placement-20260102-101500-7f3a", "network-placement-20260102-101500-7f3b")


def test_two_runs_at_once_share_no_name_and_destroy_knows_them_all() -> None:
    names = [
        {
            name
            for encapsulation in layouts.ENCAPSULATIONS
            for of in (Layout(run, encapsulation),)
            for name in (
                *of.frame(),
                *(
                    i.namespace
                    for host in ("same", "different")
                    for subnet in ("same", "different")
                    for i in of.instances(layouts.MOST_PAIRS, host, subnet)  # type: ignore[arg-type]
                ),
            )
        }
        for run in RUNS
    ]
    # 3 of the frame, 1 client and 4 servers of each pair, in each of 3 beds.
    assert [len(of) for of in names] == [3 * (3 + 5 * layouts.MOST_PAIRS)] * 2
    assert not names[0] & names[1]
    pattern = network._OWN_NAME  # the one by which strays are found
    assert all(pattern.fullmatch(name) for of in names for name in of)
    # Not those of a run's network pairs.
    assert not [name for of in names for name in of if re.search(r"-[0-9]+[sc]$", name)]


def test_addresses_are_in_their_subnets_and_all_different() -> None:
    of = Layout(RUNS[0], "none")
    ends = [
        of.ends(pair, host, subnet)
        for pair in (1, 2, layouts.MOST_PAIRS)
        for host in ("same", "different")
        for subnet in ("same", "different")
    ]  # type: ignore[misc]
    instances = {i.namespace: i for each in ends for i in (each.client, each.server)}
    addresses = [i.address for i in instances.values()] + [gateway(1), gateway(2)]
    assert len(set(addresses)) == len(addresses)
    for i in instances.values():
        subnet = ipaddress.ip_network(f"{gateway(i.subnet)}/16", strict=False)
        assert ipaddress.ip_address(i.address) in subnet
        assert len(i.port) <= 15
    assert {(each.client.host, each.client.subnet) for each in ends} == {("a", 1)}


def test_what_is_between_hosts_is_encapsulated_and_nothing_else() -> None:
    commands = {
        way: [line for _, lines in hosts_commands(Layout(RUNS[0], way)) for line in lines]
        for way in ("none", "vxlan")
    }  # type: ignore[arg-type]
    assert not any("vxlan" in line for line in commands["none"])
    assert sum("type vxlan" in line for line in commands["vxlan"]) == 2
    assert sum("type bridge" in line for line in commands["vxlan"]) == 2
    of = Layout(RUNS[0], "vxlan")
    server = of.ends(1, "different", "different").server
    lines = [line for _, lines in instance_commands(of, server) for line in lines]
    assert f"route add default via {gateway(2)}" in lines


def test_the_generator_refuses_what_makes_no_sense() -> None:
    with pytest.raises(BadInput, match="datagram"):
        generator.check("udp", 65508, "none", "same")
    with pytest.raises(BadInput, match="within a host"):
        generator.check("tcp", 1400, "vxlan", "same")
    generator.check("udp", 65507, "vxlan", "different")


def test_what_arrived_of_datagrams_is_without_the_lost() -> None:
    total = {"packets": 1000, "lost_packets": 250, "bytes": 1_400_000, "seconds": 2.0}
    told = iperf({"start": {"test_start": {"protocol": "UDP"}}, "end": {"sum": total}})
    assert told == {"bytes": 1_050_000, "rate": 525_000, "sent": 1000, "lost": 250}
