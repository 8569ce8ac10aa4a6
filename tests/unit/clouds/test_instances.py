"""Instances as ends of pairs: which there are, the template of them, whether they are where they should be, what they
print."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from contend.clouds.instances import heat, placed
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import Spot, Topology, read
from contend.clouds.openstack import KINDS, body_of, has_mark, mark_of, shown
from contend.errors import BadInput, HostFailed, ScenarioError, TrialFailed
from contend.studies.placement.cells import instance_lines, topology_of
from contend.studies.placement.model import NetworkPlacement
from contend.studies.registry import cells_of, study
from contend.studies.scenarios import dump, load
from contend.workloads.drivers.placement import instances as trial
from contend.workloads.drivers.placement.trial import Traffic

ALL = "ss,sd,ds,dd"
RUN = "network-placement-20260102-101500-7f3a"


def on_cloud(*settings: str) -> NetworkPlacement:
    scenario = load("network-placement", ("cloud=c", *settings))
    assert isinstance(scenario, NetworkPlacement)
    return scenario


def topology(**given: Any) -> Topology:
    return read(**{"places": ALL, "pairs": 2, "means": "groups", **given})


# ---- which there are


def test_by_server_groups_every_pair_and_place_has_two_instances_and_a_group_of_its_own() -> None:
    wanted = topology()
    guests = wanted.guests()
    assert len(guests) == 2 * 4 * 2 == len({guest.role for guest in guests})
    members: dict[str, list[str]] = {}
    for guest in guests:
        members.setdefault(guest.group, []).append(guest.role)
    assert len(members) == 8 and all(len(of) == 2 for of in members.values()), (
        "anti-affinity needs two hosts, not more"
    )
    policies = dict(wanted.groups())
    assert set(policies) == set(members)
    for pair, spot in itertools.product((1, 2), wanted.spots):
        ends = wanted.ends(pair, spot)
        assert sorted(members[f"g{pair}-{spot.short}"]) == sorted(ends)
        assert policies[f"g{pair}-{spot.short}"] == ("affinity" if spot.host == "same" else "anti-affinity")


@pytest.mark.parametrize(("means", "hosts"), [("hints", ""), ("hosts", "nova:a,nova:b")])
def test_otherwise_a_pair_has_one_client_in_all_places(means: str, hosts: str) -> None:
    wanted = topology(means=means, hosts=hosts)
    guests = {guest.role: guest for guest in wanted.guests()}
    assert len(guests) == 2 * (1 + 4)
    assert [role[0] for role in guests] == ["c"] * 2 + ["s"] * 8, "whom others are beside is made first"
    same, apart = guests["s2-sd"], guests["s2-ds"]
    if means == "hints":
        assert (same.beside, same.apart, apart.beside, apart.apart) == ("c2", "", "", "c2")
    else:
        assert (guests["c2"].zone, same.zone, apart.zone) == ("nova:a", "nova:a", "nova:b")
    assert (same.subnet, apart.subnet, guests["c2"].subnet) == (2, 1, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"means": "hosts"}, "need two hosts"),
        ({"hosts": "nova:a,nova:b"}, "nothing uses them"),
        ({"networks": "net"}, "need two networks"),
        ({"cidrs": "10.0.0.0/24,10.0.0.0/25"}, "do not overlap"),
        ({"cidrs": "10.0.0.0/24"}, "two that do not overlap"),
        ({"cidrs": "ten,eleven"}, "cidrs"),
        ({"places": "xx"}, "no place"),
        ({"means": "luck"}, "not one of"),
    ],
)
def test_what_cannot_be_is_one_clear_error(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        topology(**given)
    assert refused.value.hint


# ---- the study


def test_a_cloud_makes_the_ends_instances_and_every_cell_knows_all_places_of_the_run() -> None:
    scenario = on_cloud("pairs=[1,3]")
    cells = cells_of(scenario)
    assert {cell.factors["ends"] for cell in cells} == {"instances of a cloud"}
    assert {cell.factors["encapsulation"] for cell in cells} == {"none"}, (
        "what is between hosts is the cloud's own"
    )
    for cell in cells:
        instance = cell.victim.instance
        assert instance.workload.name == "network-placement-cloud"
        assert (instance.parameters["places"], instance.parameters["most"]) == (ALL, 3)
        assert instance.parameters["cloud"] == "c"
    wanted, _ = topology_of(scenario)
    assert (wanted.pairs, {spot.short for spot in wanted.spots}) == (3, set(ALL.split(",")))


def test_it_reads_back_as_it_was_written() -> None:
    scenario = on_cloud("parameters.means=hints")
    again = study("placement").scenario.model_validate(dump(scenario))
    assert cells_of(again) == cells_of(scenario)
    assert (again.timeout, again.cloud) == (600 * 10**9, "c")


@pytest.mark.parametrize(
    ("setting", "said"),
    [("parameters.most=3", "factor"), ("ends=namespaces", "cloud"), ("parameters.by=hand", "by")],
)
def test_what_the_study_does_not_take(setting: str, said: str) -> None:
    with pytest.raises((ScenarioError, BadInput), match=said):
        cells_of(on_cloud(setting))


def test_without_a_cloud_ends_are_no_instances() -> None:
    with pytest.raises(ScenarioError, match="cloud"):
        load("network-placement", ("ends=instances",))


def test_a_dry_run_tells_what_will_be_made_and_shows_the_template() -> None:
    first, _, text = instance_lines(on_cloud("pairs=1", "parameters.by=heat", "parameters.external=public"))
    assert "8 instances" in first and "4 server groups" in first and "2 networks, a router" in first
    assert "8 floating addresses of public" in first
    assert yaml.safe_load(text)["resources"]["s1-dd"]["type"] == "OS::Nova::Server"


# ---- the template


def references(of: Any) -> set[str]:
    if isinstance(of, dict):
        own = {str(of["get_resource"])} if "get_resource" in of else set()
        own |= set(of.get("depends_on", ()))
        return own.union(*(references(value) for value in of.values()))
    return set().union(*(references(value) for value in of)) if isinstance(of, list) else set()


@pytest.mark.parametrize("means", ["groups", "hints"])
@pytest.mark.parametrize("external", ["", "public"])
@pytest.mark.parametrize("networks", ["", "one,other"])
def test_the_template_holds_together(means: str, external: str, networks: str) -> None:
    wanted = topology(means=means, external=external, networks=networks)
    made = yaml.safe_load(heat.text(heat.template(wanted, "contend-r-1", "r")))
    resources = made["resources"]
    assert made["description"] == "contend_run=r"
    assert references(resources) <= set(resources), "it names what it has not"
    servers = {role: of["properties"] for role, of in resources.items() if of["type"] == "OS::Nova::Server"}
    assert set(servers) == {guest.role for guest in wanted.guests()}
    for guest in wanted.guests():
        properties = servers[guest.role]
        assert properties["name"] == f"contend-r-1-{guest.role}"
        assert properties["metadata"] == {"contend_run": "r"}
        port = resources[properties["networks"][0]["port"]["get_resource"]]["properties"]
        own = {"get_resource": f"net{guest.subnet}"}
        assert port["network"] == (own if not networks else networks.split(",")[guest.subnet - 1])
        hints = properties.get("scheduler_hints", {})
        assert hints.get("group") == ({"get_resource": guest.group} if guest.group else None)
        assert hints.get("same_host") == ([{"get_resource": guest.beside}] if guest.beside else None)
        assert (f"floating-{guest.role}" in resources) == bool(external)
    assert ("router" in resources) == (not networks)
    assert {"way1", "way2"} <= set(resources) or networks


def test_user_data_installs_only_when_it_was_asked_for() -> None:
    of = {
        install: heat.template(topology(install=install), "p", "r")["resources"]["c1-ss"]["properties"]
        for install in (True, False)
    }
    assert yaml.safe_load(of[True]["user_data"])["packages"] == ["iperf3", "python3"]
    assert "user_data" not in of[False]


# ---- whether they are where they should be


def at(host_id: str, network: str = "net1", host: str = "") -> Placed:
    return Placed("i", "10.0.0.1", "10.0.0.1", host_id, host, network)


PLACED = {
    "ss": ("a", "net1", "a", "net1"),
    "sd": ("a", "net1", "a", "net2"),
    "ds": ("a", "net1", "b", "net1"),
    "dd": ("b", "net1", "a", "net2"),
}  # fmt: skip


def found(**other: tuple[str, str, str, str]) -> dict[str, Placed]:
    told: dict[str, Placed] = {}
    for short, (c_host, c_net, s_host, s_net) in {**PLACED, **other}.items():
        ends = topology(pairs=1).ends(1, Spot.read(short))
        told |= {ends.client: at(c_host, c_net), ends.server: at(s_host, s_net)}
    return told


def test_pairs_that_are_where_they_should_be_pass() -> None:
    placed.check(topology(pairs=1), found())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"ss": ("a", "net1", "b", "net1")},
            "c1-ss and s1-ss are to be on one host, .* on host a and host b",
        ),
        ({"dd": ("a", "net1", "a", "net2")}, "to be on different hosts, .* both on host a"),
        ({"sd": ("a", "net1", "a", "net1")}, "different subnets, and are in net1 and net1"),
        ({"ds": ("a", "net1", "b", "net2")}, "same subnets"),
        ({"ss": ("", "net1", "a", "net1")}, "hostId is empty"),
    ],
)
def test_where_the_cloud_placed_otherwise_nothing_is_measured(
    other: dict[str, tuple[str, str, str, str]], said: str
) -> None:
    with pytest.raises(HostFailed, match=said) as refused:
        placed.check(topology(pairs=1), found(**other))
    assert refused.value.hint


def test_what_nova_lists_is_read() -> None:
    addresses = [
        {"addr": "fd00::1", "version": 6, "OS-EXT-IPS:type": "fixed"},
        {"addr": "10.0.0.7", "version": 4, "OS-EXT-IPS:type": "fixed"},
        {"addr": "192.0.2.7", "version": 4, "OS-EXT-IPS:type": "floating"},
    ]
    item = {"id": "1", "name": "n", "hostId": "ff", "addresses": {"net": addresses}}
    assert placed.read(item) == Placed("1", "10.0.0.7", "192.0.2.7", "ff", "", "net")
    assert placed.read({**item, "OS-EXT-SRV-ATTR:host": "compute-1"}).where == "compute-1"
    with pytest.raises(HostFailed, match="no IPv4 address"):
        placed.read({**item, "addresses": {"net": addresses[:1]}})


# ---- the ledger's kinds


@pytest.mark.parametrize("name", ["stack", "keypair", "server-group", "floating-ip", "router"])
def test_what_is_asked_for_is_known_again_and_strangers_are_not(name: str) -> None:
    kind = KINDS[name]
    own = f"contend-{RUN}-1"
    wanted: dict[str, Any] = {"stack": {"template": {}}, "keypair": {"public_key": "ssh-ed25519 AAAA"}}.get(
        name, {}
    )
    body = body_of(kind, own, RUN, wanted)
    inner = body if name == "stack" else body[kind.one]
    listed = {"id": "7", **inner, "description": mark_of(kind, own, RUN)}
    if name == "stack":  # as heat lists it
        listed |= {"description": "", "tags": [inner["tags"]]}
    item = shown(kind, {"keypair": inner} if name == "keypair" else listed)
    assert has_mark(kind, item, own, RUN)
    assert not has_mark(kind, item, own + "0", RUN)
    if kind.mark != "name":
        other = {"description": "", "public_key": "ssh-ed25519 AAAA somebody", "tags": ["somebody's"]}
        assert not has_mark(kind, {**item, **other}, own, RUN)


def test_hints_stand_beside_the_server_in_its_request() -> None:
    body = body_of(
        KINDS["server"], "contend-r-1", "r", {"os:scheduler_hints": {"group": "g"}, "imageRef": "i"}
    )
    assert body["os:scheduler_hints"] == {"group": "g"}
    assert set(body["server"]) == {"imageRef", "name", "metadata"}


def test_what_holds_others_is_removed_first() -> None:
    order = list(KINDS)
    for first, then in itertools.pairwise(
        ["stack", "server", "floating-ip", "port", "router", "subnet", "network"]
    ):
        assert order.index(first) < order.index(then)
    for holder in ("server", "port"):
        assert order.index(holder) < order.index("security-group")
    assert order.index("server") < min(order.index("keypair"), order.index("server-group"))


# ---- what they print


def said(busy: tuple[int, int, int], text: str = "", uptime: tuple[float, ...] = (10.0, 11.0, 14.0)) -> str:
    lines = [
        f"contend-cpu {up} cpu  {ticks} 0 0 9999 0 0 0 0 0 0" for up, ticks in zip(uptime, busy, strict=True)
    ]
    return "\n".join([lines[0], lines[1], text, lines[2]]) + "\n"


TCP = (
    '{"start": {"test_start": {"protocol": "TCP"}},'
    ' "end": {"sum_received": {"bytes": 2e9, "bits_per_second": 8e9, "seconds": 2}}}'
)


def test_cpu_time_of_both_guests_is_what_is_beyond_their_rest() -> None:
    # A client that is busy by 0.1 CPUs at rest and 2.0 s in 3 s of sending; a server at rest by none and 1.1 s.
    told = trial.figures([said((100, 110, 310), TCP)], [said((0, 0, 110), "Server listening on 5201")])
    assert told["throughput"]["bytes_per_s"] == 1e9
    assert told["guests_cpu_s_per_gb"]["all"] == pytest.approx((2.0 - 0.3 + 1.1) / 2)
    assert told["busy_before"] == pytest.approx(0.1)
    assert "cpu_s_per_gb" not in told, "what the hosts spend is not seen"


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (said((1, 2, 3), '{"error": "unable to connect"}'), "unable to connect"),
        (said((1, 2, 3), "sh: iperf3: not found"), "no JSON: 'sh: iperf3: not found'"),
        ("contend-cpu 1 cpu 1", "did not tell its CPU time"),
    ],
)
def test_what_an_instance_cannot_say_fails_the_trial_in_its_words(client: str, words: str) -> None:
    with pytest.raises(TrialFailed, match=words):
        trial.figures([client], [said((0, 0, 1))])


def test_commands_end_by_themselves() -> None:
    asked = Traffic("udp", 1400, 2.4, 500.0, 1)
    client, server = trial.client_words(asked, "10.0.0.2", 30.0), trial.server_words(asked, "10.0.0.2", 30.0)
    assert (
        "timeout 30 iperf3 --client 10.0.0.2 --port 5201 --length 1400 --time 2 --json --udp --bitrate 0"
        in client
    )
    assert "timeout 30 iperf3 --server --bind 10.0.0.2 --one-off" in server
    for words in (client, server):
        assert [word.strip() for word in words.split(";")].count("s") == 3, (
            "before and after a rest, and at the end"
        )
