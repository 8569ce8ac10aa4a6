"""The TLS proxy that is put before a Glance which speaks HTTP only: a real nginx, and clients that are told to trust it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contend.engine.seating import downloads
from contend.errors import CannotHonour, HostFailed, TrialFailed
from contend.platforms.programs import find_command
from contend.workloads.downloads.clients import CLIENTS, Task, put_program
from contend.workloads.generators import download_proxy
from contend.workloads.generators.download import trial
from contend.workloads.generators.download_proxy import Proxy
from contend.workloads.load import catalogue
from support.glance_answers import CONTENT, ID, SHA512, TOKEN, answer, corrupted
from support.prerequisites import need
from support.wire_servers import Server, serving

CONF = catalogue() / "image-download-proxy.conf"


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> None:
    need(find_command("nginx"), "nginx")
    need(shutil.which("openssl"), "openssl")
    download_proxy.prepare(tmp_path / "tls")
    (tmp_path / "out").mkdir()


@pytest.fixture
def glance() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def proxy(glance: Server, tmp_path: Path) -> Iterator[Proxy]:
    with download_proxy.before(glance.url, tmp_path / "tls", CONF, tmp_path / "out") as made:
        yield made


def task_of(proxy: Proxy) -> Task:
    programs = str(Path(proxy.authority).parents[1])
    return Task(
        proxy.base, programs=programs, authority=proxy.authority, sha512=SHA512, image=ID, token=TOKEN
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_downloads_by_https_through_it(
    client: str, proxy: Proxy, glance: Server, tmp_path: Path
) -> None:
    """Though Glance knows nothing of TLS, and names itself by HTTP in the links of its versions."""
    need(not CLIENTS[client].missing(), f"client {client}: {', '.join(CLIENTS[client].missing())}")
    put_program(client, tmp_path, downloads())
    assert proxy.base.startswith("https://127.0.0.1:")
    # It writes no other number of bytes, else the trial fails.
    told = trial(client, task_of(proxy), len(CONTENT), "file", 2, tmp_path / "out", lambda: 0.0, proxy.cpu_s)
    download_proxy.check_passed(proxy, 2 * len(CONTENT))
    assert told["proxy_cpu_s_per_gb"] > 0
    both = told["cpu_s_per_gb"] + told["proxy_cpu_s_per_gb"]
    assert told["both_cpu_s_per_gb"] == pytest.approx(both), "the server's time is 0 here"
    files = [request for request in glance.requests if b"/file " in request.partition(b"\r\n")[0]]
    assert len(files) == 2
    assert all(b"X-Forwarded-Proto: https" in request for request in files)


def test_who_is_not_told_of_its_certificate_does_not_trust_it(proxy: Proxy, tmp_path: Path) -> None:
    need(shutil.which("curl"), "curl")
    with pytest.raises(TrialFailed, match=r"curl: \(60\)"):  # curl(1): the peer cannot be authenticated
        trial(
            "curl", replace(task_of(proxy), authority=""), len(CONTENT), "nothing", 1, tmp_path / "out", None
        )


def test_what_is_corrupt_is_refused_behind_it_too(tmp_path: Path) -> None:
    need(not CLIENTS["glanceclient"].missing(), "python-glanceclient")
    with (
        serving(lambda request: answer(request, corrupted())) as glance,
        download_proxy.before(glance.url, tmp_path / "tls", CONF, tmp_path / "out") as proxy,
        pytest.raises(TrialFailed, match="Corrupt image download"),
    ):
        trial("glanceclient", task_of(proxy), len(CONTENT), "nothing", 1, tmp_path / "out", None)


def test_who_goes_past_it_is_found_out(
    proxy: Proxy, glance: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(shutil.which("curl"), "curl")
    past = replace(task_of(proxy), base=glance.url, authority="")
    trial("curl", past, len(CONTENT), "nothing", 1, tmp_path / "out", None, proxy.cpu_s)
    monkeypatch.setattr(download_proxy, "_END_S", 0.2)
    with pytest.raises(TrialFailed, match=r"only 0 B of 128 kB came through"):
        download_proxy.check_passed(proxy, len(CONTENT))


def test_nothing_of_it_stays(glance: Server, tmp_path: Path) -> None:
    with download_proxy.before(f"{glance.url}/image", tmp_path / "tls", CONF, tmp_path / "out") as proxy:
        assert proxy.base.endswith("/image"), "a Glance below a path stays there"
        pids = proxy.pids
        assert len(pids) == 2, "nginx and its worker"
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert list((tmp_path / "out" / "tmp-proxy").rglob("*")) == [], "nothing is kept in files"


def test_a_glance_that_speaks_https_gets_none(tmp_path: Path) -> None:
    made = download_proxy.before("https://h:9292", tmp_path / "tls", CONF, tmp_path / "out")
    with pytest.raises(CannotHonour, match="speaks HTTPS itself"):
        made.__enter__()


def test_one_that_does_not_start_is_told(glance: Server, tmp_path: Path) -> None:
    broken = tmp_path / "broken.conf"
    broken.write_text("no_such_directive;")
    made = download_proxy.before(glance.url, tmp_path / "tls", broken, tmp_path / "out")
    with pytest.raises(HostFailed, match="does not start"):
        made.__enter__()
