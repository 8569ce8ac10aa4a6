"""Clients of `image-download`: their commands, what they cannot do, and what a choice needs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from contend.clouds.access import Access
from contend.engine import checks
from contend.errors import BadInput, CannotHonour, HostFailed, ScenarioError, UnknownName
from contend.scenario.yaml_file import read_yaml
from contend.studies.compare import checks as compare_checks
from contend.studies.compare.model import Compare
from contend.studies.scenarios import parse
from contend.workloads import install
from contend.workloads.downloads.clients import CLIENTS, Task, command_of
from contend.workloads.generators.download import Used, at_once, result, server_cpu_s, server_pids
from contend.workloads.generators.download_glance import RandomBytes, authority_of, upload
from contend.workloads.generators.download_server import make
from contend.workloads.load import load
from support.prerequisites import need
from support.wire_servers import serving

TASK = Task("https://127.0.0.1:1", output="x", authority="/ca.pem", sha512="0" * 128)


def test_every_choice_is_a_client_and_every_client_a_choice() -> None:
    for workload in ("image-download", "image-download-glance"):
        client = load(workload).parameters["client"]
        assert set(client.choices) == set(CLIENTS)
        assert set(client.needs) <= set(CLIENTS)
        for name, wanted in client.needs.items():
            assert CLIENTS[name].needs == (wanted,)


def test_what_a_client_cannot_do_is_refused() -> None:
    with pytest.raises(UnknownName, match="crul"):
        command_of("crul", TASK)
    if install.is_here("module openstack"):
        with pytest.raises(BadInput, match="verifies always"):
            command_of("openstacksdk", Task("http://h"))


def test_limits_reach_those_that_keep_them() -> None:
    with pytest.raises(BadInput, match="no limit"):
        command_of("curl", Task("http://h", cpu_max=0.2))
    if install.is_here("contend-fetch"):
        assert "0.2" in command_of("fetch", Task("http://h", cpu_max=0.2)).argv
        assert json.loads(command_of("reader", Task("http://h", cpu_max=0.2)).stdin)["cpu_max"] == 0.2


@pytest.mark.parametrize("name", ["curl", "requests"])
def test_a_command_holds_what_it_was_told(name: str) -> None:
    need(install.is_here(load("image-download").parameters["client"].needs.get(name, name)), name)
    words = " ".join(command_of(name, TASK).argv)
    for word in ("https://127.0.0.1:1", "/ca.pem", "0" * 128, "x"):
        assert word in words


@pytest.mark.parametrize("name", CLIENTS)
def test_a_token_is_on_no_command_line(name: str) -> None:
    chosen = CLIENTS[name]
    need(not chosen.missing(), f"{name}: {', '.join(chosen.missing())}")
    sha512 = "0" * 128 if chosen.verifies == "must" else ""
    command = command_of(name, Task("http://h", token="secret-token", sha512=sha512, programs="/p"))
    assert "secret-token" not in " ".join(command.argv)
    assert "secret-token" in command.stdin


def _scenario(*clients: str) -> Compare:
    variants = [{"name": name, "parameters": {"client": name}} for name in clients]
    text = json.dumps({"study": "compare", "workload": "image-download", "variants": variants})
    made = parse(read_yaml(text, "mine.yaml", ScenarioError))
    assert isinstance(made, Compare)
    return made


def test_variants_that_need_what_is_not_here_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "is_here", lambda need: need != "module requests")
    fits, left_out = checks.fitted(_scenario("curl", "requests", "wget"))
    assert isinstance(fits, Compare)
    assert [variant.name for variant in fits.variants] == ["curl", "wget"]
    assert left_out == ("variant requests: module requests is not installed",)
    with pytest.raises(CannotHonour, match="no variant"):
        checks.fitted(_scenario("curl", "requests"))


@pytest.mark.parametrize("https", [True, False])
def test_a_glance_that_speaks_https_has_no_proxy_put_before_it(
    https: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compare_checks, "speaks_https", lambda cloud, service: https and (cloud, service) == ("c", "image")
    )
    monkeypatch.setattr(install, "is_here", lambda need: True)
    named = {"own": "cloud", "both": "cloud", "proxied": "tls-proxy"}
    variants = [{"name": n, "parameters": {"client": "curl", "scheme": s}} for n, s in named.items()]
    text = {"study": "compare", "workload": "image-download-glance", "variants": variants, "cloud": "c"}
    made = parse(read_yaml(json.dumps(text), "mine.yaml", ScenarioError))
    fits, left_out = checks.fitted(made)
    assert isinstance(fits, Compare)
    assert [variant.name for variant in fits.variants] == [*named][: 2 if https else 3]
    assert left_out == (("variant proxied: the cloud's Glance speaks HTTPS itself",) if https else ())


def test_a_cloud_that_does_not_answer_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(cloud: str, service: str) -> bool:
        raise HostFailed("nobody answers", hint="")

    monkeypatch.setattr(compare_checks, "speaks_https", silent)
    monkeypatch.setattr(install, "is_here", lambda need: True)
    variants = [{"name": s, "parameters": {"scheme": s}} for s in ("cloud", "tls-proxy")]
    text = {"study": "compare", "workload": "image-download-glance", "variants": variants}
    made = parse(read_yaml(json.dumps(text), "mine.yaml", ScenarioError))
    assert checks.fitted(made) == (made, ())


def test_needs_are_of_choices() -> None:
    from contend.workloads.spec import Parameter

    with pytest.raises(ValueError, match="none of the choices"):
        Parameter(default="a", choices=("a",), needs={"b": "x"})


def test_what_is_served_is_what_is_said_of_it(tmp_path: Path) -> None:
    sha512 = make(tmp_path / "place", 3_000_000)
    content = (tmp_path / "place" / "image").read_bytes()
    about = json.loads((tmp_path / "place" / "about").read_text())
    assert len(content) == about["size"] == 3_000_000
    assert hashlib.sha512(content).hexdigest() == sha512 == about["os_hash_value"]
    assert (tmp_path / "place" / "key.pem").exists()
    made = (tmp_path / "place" / "image").stat().st_mtime_ns
    assert make(tmp_path / "place", 3_000_000) == sha512, "another variant's is used again"
    assert (tmp_path / "place" / "image").stat().st_mtime_ns == made
    assert make(tmp_path / "place", 2_000_000) != sha512
    with pytest.raises(HostFailed, match="do not fit"):
        make(tmp_path / "place", 1 << 60)


def test_a_client_that_fails_ends_the_trial() -> None:
    from contend.errors import TrialFailed
    from contend.workloads.downloads.clients import Command

    with pytest.raises(TrialFailed, match="ended with 3: no luck"):
        at_once([Command(("sh", "-c", "echo no luck; exit 3")), Command(("sleep", "60"))])
    used = at_once([Command(("sh", "-c", "cat"), "told")])
    assert used[0].code == 0


def test_a_server_elsewhere_has_no_time_of_its_own(tmp_path: Path) -> None:
    assert server_pids(tmp_path / "missing") == ()
    assert server_cpu_s(()) == 0
    assert "server_cpu_s_per_gb" not in result("curl", 10**9, 1.0, [Used(0, 0.1, 0.1, 9)], None)
    metrics = load("image-download-glance").metrics
    assert metrics["server_cpu"].optional
    assert not metrics["client_cpu"].optional


def test_what_goes_up_is_what_is_verified() -> None:
    sent = []

    def taking(request: bytes) -> bytes:
        sent.append(request)
        return b"HTTP/1.1 204 No Content\r\n\r\n"

    content = RandomBytes(3_000_001)
    with serving(taking, closes=True) as server:
        access = Access("c", "", "secret-token", 0.0, "p", {"image": f"{server.url}/v2"})
        upload(access, "the-image", content)
    head, _, body = sent[0].partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /v2/images/the-image/file HTTP/1.1")
    assert b"Content-Length: 3000001" in head
    assert b"X-Auth-Token: secret-token" in head
    assert hashlib.sha512(body).hexdigest() == content.sha512.hexdigest()
    with serving(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", closes=True) as server:
        access = Access("c", "", "secret-token", 0.0, "p", {"image": f"{server.url}/v2"})
        with pytest.raises(HostFailed, match="413"):
            upload(access, "the-image", RandomBytes(5))


def test_clients_can_only_be_told_of_one_file_of_authorities() -> None:
    access = Access("c", "", "t", 0.0, "p", {"image": "https://h/v2"}, verify="/ca.pem")
    assert authority_of(access) == "/ca.pem"
    assert authority_of(access._replace(endpoints={"image": "http://h/v2"}, verify=False)) == ""
    for other in (access._replace(verify=False), access._replace(certificate=("c", None))):
        with pytest.raises(CannotHonour):
            authority_of(other)


def test_the_cloud_of_a_comparison_is_its_workloads() -> None:
    """`--cloud C` sets `cloud`, in a comparison too."""
    variants = [{"name": name, "parameters": {"client": name}} for name in ("curl", "wget")]
    text = {"study": "compare", "workload": "image-download-glance", "variants": variants, "cloud": "mine"}
    made = parse(read_yaml(json.dumps(text), "mine.yaml", ScenarioError))
    assert isinstance(made, Compare)
    assert made.parameters == {"cloud": "mine"}
