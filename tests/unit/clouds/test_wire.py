"""Requests and answers on real sockets: message syntax, connections kept and lost, TLS, proxies, IPv6, time-outs."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.access import Access
from contend.clouds.http import Api, RequestFailed, tls_context
from contend.clouds.wire import Lost, NotSent, Untrusted, Wire
from contend.errors import BadInput
from support.prerequisites import need
from support.wire_servers import OK, Authority, connecting, serving


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    made: list[Wire] = []

    def make(
        *, context: Callable[[], ssl.SSLContext] = ssl.create_default_context, proxy: str = "", **more: Any
    ) -> Wire:
        bounds = {"keep": 4, "connect_s": 5.0, "read_s": 5.0} | more
        made.append(Wire(context=context, proxy=lambda url: proxy, **bounds))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def trusting(authority: Authority, **more: Any) -> Callable[[], ssl.SSLContext]:
    return lambda: tls_context(Access("c", "", "t", 2e9, "p", {}, verify=str(authority.file), **more))


ANSWERS = {
    "length": OK,
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
    "empty": b"HTTP/1.1 202 Accepted\r\ncontent-length:0\r\n\r\n",
    "none": b"HTTP/1.1 204 No Content\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nup to here",
    "old": b"HTTP/1.0 200 OK\r\n\r\nold",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0A\r\n, worlds!!\r\n0\r\n\r\n",
    "trailer": b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nMD5: 1\r\nX: 2\r\n\r\n",
    "chunks and length": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "go on": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n1",
    "large": b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"0123456789" * 30000,
    "error": b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno",
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("dribbled", [False, True])
def test_answers_are_read_as_the_standard_library_does(name: str, dribbled: bool, wire: Any) -> None:
    answer = ANSWERS[name]

    def handle(spoken: socket.socket, request: bytes) -> None:
        step = 7 if dribbled and len(answer) < 1000 else len(answer)
        for start in range(0, len(answer), step):
            spoken.sendall(answer[start : start + step])

    with serving(handle=handle) as server:
        got = wire().exchange("GET", f"{server.url}/a", {"X-Auth-Token": "t"}, None)
        oracle = http.client.HTTPConnection(server.host, server.port, timeout=5)
        oracle.request("GET", "/a")
        expected = oracle.getresponse()
        assert (got.status, got.body) == (expected.status, expected.read())
        for header, value in expected.getheaders():
            assert got.headers[header] == got.headers.get(header.upper()) == value
        oracle.close()


def test_what_is_sent(wire: Any) -> None:
    with serving() as server:
        one = wire()
        one.exchange("POST", f"{server.url}/v2/servers?x=1", {"Accept": "application/json"}, b"{}")
        one.exchange("POST", server.url, {}, None)
        one.exchange("DELETE", f"{server.url}/v2/servers/1", {}, None)
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    assert server.requests == [
        b"POST /v2/servers?x=1 HTTP/1.1\r\n"
        + host
        + b"Accept: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 0\r\n\r\n",
        b"DELETE /v2/servers/1 HTTP/1.1\r\n" + host + b"\r\n",
    ]


def test_connections_are_kept(wire: Any) -> None:
    with serving() as server:
        one = wire()
        assert [one.exchange("GET", server.url, {}, None).body for _ in range(5)] == [b"ok"] * 5
        assert server.connections == 1


@pytest.mark.parametrize("said", [True, False])
def test_a_connection_that_was_closed_meanwhile_is_not_used(said: bool, wire: Any) -> None:
    answer = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") if said else OK
    with serving(answer, closes=True) as server:
        one = wire()
        for _ in range(5):
            assert one.exchange("POST", server.url, {}, b"x").body == b"ok"
            time.sleep(0.01)  # until its end has come here
        assert server.connections == 5


def test_what_a_server_says_unasked_is_no_answer(wire: Any) -> None:
    with serving(lambda request: OK + (OK.replace(b"ok", b"no") if b"/1" in request else b"")) as server:
        one = wire()
        one.exchange("GET", f"{server.url}/1", {}, None)
        time.sleep(0.01)
        assert one.exchange("GET", f"{server.url}/2", {}, None).body == b"ok"


def test_no_more_than_so_many_are_kept_and_threads_do_not_mix(wire: Any) -> None:
    def reply(request: bytes) -> bytes:
        path = request.split()[1]
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path)

    wrong: list[bytes] = []
    with serving(reply) as server:
        one = wire(keep=2)

        def work(number: int) -> None:
            for turn in range(20):
                path = f"/{number}/{turn}"
                body = one.exchange("GET", server.url + path, {}, None).body
                if body != path.encode():
                    wrong.append(body)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(server.requests) == 160
        assert sum(len(idle) for idle in one._idle.values()) <= 2 + 6, "a race may keep one more a thread"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nokoko",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ],
)  # fmt: skip
def test_half_an_answer_is_none(answer: bytes | None, wire: Any) -> None:
    with serving(lambda request: answer, closes=True) as server, pytest.raises(Lost):
        wire().exchange("GET", server.url, {}, None)


def test_an_answer_before_the_requests_end_is_read(wire: Any) -> None:
    """As to an image that is too large: the server answers after its head, and closes."""

    def run() -> None:
        taken, _ = listener.accept()
        with taken:
            taken.recv(100)
            taken.sendall(b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            taken.shutdown(socket.SHUT_WR)
            while taken.recv(1 << 16):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/image"
        got = wire().exchange("PUT", url, {}, b"x" * (1 << 22))
        thread.join()
    assert (got.status, got.body) == (413, b"no")


def test_what_never_left_is_told_apart(wire: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    for url in (
        f"http://127.0.0.1:{free}/", "http://no-such-host.invalid/", "ftp://127.0.0.1/", "http://127.0.0.1:x/",
        "http://127.0.0.1/a b", "http:///x", "http://127.0.0.1/\N{SNOWMAN}",
    ):  # fmt: skip
        with pytest.raises(NotSent):
            wire().exchange("GET", url, {}, None)


def test_silence_ends(wire: Any) -> None:
    with (
        serving(handle=lambda spoken, request: time.sleep(0.2)) as server,
        pytest.raises(Lost, match="timed out"),
    ):
        wire(read_s=0.1).exchange("GET", server.url, {}, None)


def test_silence_before_tls_ends(wire: Any, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotSent, match="timed out"):
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        wire(connect_s=0.1, context=trusting(authority)).exchange("GET", url, {}, None)


def test_ipv6(wire: Any) -> None:
    need(socket.has_ipv6 and Path("/proc/net/if_inet6").exists(), "IPv6 on the loopback device")
    with serving(host="::1") as server:
        assert wire().exchange("GET", f"{server.url}/x", {}, None).body == b"ok"
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0]


def test_tls(wire: Any, authority: Authority) -> None:
    with serving(tls=authority.server("127.0.0.1", "localhost")) as server:
        one = wire(context=trusting(authority))
        assert [one.exchange("GET", server.url, {}, None).body for _ in range(3)] == [b"ok"] * 3
        assert one.exchange("GET", server.url.replace("127.0.0.1", "localhost"), {}, None).body == b"ok"
        assert server.connections == 2
        with pytest.raises(Untrusted, match="CERTIFICATE_VERIFY_FAILED"):
            wire().exchange("GET", server.url, {}, None)
        unverified = Access("c", "", "t", 2e9, "p", {}, verify=False)
        assert (
            wire(context=lambda: tls_context(unverified)).exchange("GET", server.url, {}, None).body == b"ok"
        )


def test_tls_of_another_host(wire: Any, authority: Authority) -> None:
    with (
        serving(tls=authority.server("elsewhere")) as server,
        pytest.raises(Untrusted, match="not valid for"),
    ):
        wire(context=trusting(authority)).exchange("GET", server.url, {}, None)


def test_tls_with_a_client_certificate(wire: Any, authority: Authority) -> None:
    pair = tuple(str(file) for file in authority.certificate("me"))
    with serving(tls=authority.server("127.0.0.1", client_wanted=True)) as server:
        known = wire(context=trusting(authority, certificate=pair))
        assert known.exchange("GET", server.url, {}, None).body == b"ok"
        # The refusal comes after the handshake, and may meet a connection that is closed already.
        with pytest.raises((Untrusted, Lost)):
            wire(context=trusting(authority)).exchange("GET", server.url, {}, None)


def test_tls_where_there_is_none(wire: Any, authority: Authority) -> None:
    with serving(b"no", closes=True) as server, pytest.raises((Untrusted, NotSent)):
        wire(context=trusting(authority), connect_s=0.2).exchange("GET", f"https{server.url[4:]}", {}, None)


def test_certificates_that_cannot_be_read() -> None:
    with pytest.raises(BadInput) as caught:
        tls_context(Access("mine", "", "t", 2e9, "p", {}, verify="/no/such/file"))
    assert "clouds.yaml" in caught.value.hint


def test_a_proxy_is_asked_for_the_whole_url(wire: Any) -> None:
    with serving() as proxy:
        way = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
        assert wire(proxy=way).exchange("GET", "http://cloud:8774/v2?x=1", {}, None).body == b"ok"
    head = proxy.requests[0]
    assert head.startswith(b"GET http://cloud:8774/v2?x=1 HTTP/1.1\r\nHost: cloud:8774\r\n")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in head


def test_tls_goes_through_a_proxy(wire: Any, authority: Authority) -> None:
    with serving(tls=authority.server("127.0.0.1")) as server, serving(handle=connecting) as proxy:
        one = wire(context=trusting(authority), proxy=f"me:secret@127.0.0.1:{proxy.port}")
        assert [one.exchange("GET", f"{server.url}/x", {}, None).body for _ in range(2)] == [b"ok"] * 2
    assert proxy.requests[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization" in proxy.requests[0]
    assert b"Proxy-Authorization" not in server.requests[0], "the proxy's password is for the proxy"
    assert (proxy.connections, server.connections) == (1, 1)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses(scheme: str, wire: Any) -> None:
    with serving(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n") as proxy:
        one = wire(proxy=proxy.url)
        if scheme == "http":
            assert one.exchange("GET", "http://cloud/", {}, None).status == 407
        else:
            with pytest.raises(NotSent, match="407"):
                one.exchange("GET", "https://cloud/", {}, None)


def test_other_kinds_of_proxies(wire: Any) -> None:
    for proxy, url in (("socks5://127.0.0.1:1", "http://cloud/"), ("https://127.0.0.1:1", "https://cloud/")):
        with pytest.raises(NotSent, match=r"another kind|not supported"):
            wire(proxy=proxy).exchange("GET", url, {}, None)


def api(url: str, **more: Any) -> Api:
    return Api(Access("c", "", "secret", 2e9, "p", {"compute": url}, **more), sleep=lambda s: None)


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server, serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.0/8,other")
        api(server.url).request("GET", "compute", "/direct")
        monkeypatch.setenv("no_proxy", "other")
        api(server.url).request("GET", "compute", "/through")
        monkeypatch.delenv("http_proxy")
        api(server.url).request("GET", "compute", "/direct")
    assert [request.split()[1] for request in server.requests] == [b"/direct", b"/direct"]
    assert [request.split()[1] for request in proxy.requests] == [f"{server.url}/through".encode()]


def moved(status: int, where: str) -> Callable[[bytes], bytes]:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()
    return lambda request: head if b" /old" in request else OK


@pytest.mark.parametrize(
    ("method", "status", "followed"),
    [("GET", 301, True), ("GET", 302, True), ("GET", 308, True), ("GET", 303, False),
     ("POST", 307, True), ("POST", 308, True), ("POST", 302, False), ("DELETE", 301, False)],
)  # fmt: skip
def test_redirects_on_the_same_host(method: str, status: int, followed: bool) -> None:
    with serving(moved(status, "/new?x=1")) as server:
        asked = {"body": {"a": 1}} if method == "POST" else {}
        if followed:
            assert api(server.url).request(method, "compute", "/old", **asked).body == b"ok"
            assert server.requests[1].startswith(f"{method} /new?x=1 ".encode())
            assert server.requests[0].partition(b"\r\n")[2] == server.requests[1].partition(b"\r\n")[2]
        else:
            with pytest.raises(RequestFailed, match=str(status)):
                api(server.url).request(method, "compute", "/old", **asked)


def test_a_token_is_not_carried_elsewhere(authority: Authority) -> None:
    with serving() as other:
        for where in (other.url.replace("127.0.0.1", "localhost"), "//localhost/x", "ftp://127.0.0.1/"):
            with serving(moved(301, where)) as server, pytest.raises(RequestFailed, match="redirected to"):
                api(server.url).request("GET", "compute", "/old")
        with (
            serving(moved(301, other.url), tls=authority.server("127.0.0.1")) as server,
            pytest.raises(RequestFailed, match="redirected to"),
        ):
            api(server.url, verify=str(authority.file)).request("GET", "compute", "/old")
        assert other.requests == []


def test_redirects_in_a_circle_end() -> None:
    with serving(moved(302, "/old")) as server, pytest.raises(RequestFailed, match="302"):
        api(server.url).request("GET", "compute", "/old")
    assert len(server.requests) == 6


def test_a_refused_certificate_is_not_tried_again(authority: Authority) -> None:
    with (
        serving(tls=authority.server("127.0.0.1")) as server,
        pytest.raises(RequestFailed, match="TLS") as caught,
    ):
        api(server.url).request("GET", "compute", "/")
    assert "cacert" in caught.value.hint
    assert server.connections == 1
