"""`contend fetch` on bad days: one clear error, the right exit code, nothing incomplete under the file's name."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.image_answers import CONTENT, SUM, TAGGED, UNTAGGED, first_byte
from support.image_servers import Fetch, Images
from support.wire_servers import Authority, connecting, serving

ONCE = ("--retries", "0", "-o", "x")


def test_nothing_is_started_for_what_cannot_be(fetch: Fetch) -> None:
    url = "http://127.0.0.1:9/x"
    fetch("ftp://host/x").error(2, "ftp")
    fetch("http://").error(2)
    fetch(url, "--checksum", "md5:12").error(2, "'12'")
    fetch(url, "--checksum", "crc32:12").error(2, "sha512")
    fetch(url, "--rate", "fast").error(2, "fast")
    fetch(url, "--rate", "0").error(2)
    fetch(url, "--cpu-max", "0%").error(2)
    fetch(url, "--timeout", "0").error(2)
    fetch(url, "--header", "no colon").error(2, "no colon")
    fetch("http://127.0.0.1:9/").error(2, "-o")
    fetch(url, "--cloud", "c").error(2, "--cloud")
    fetch(url, "-o", str(fetch.place)).error(2, "directory")
    fetch(url, "--cacert", "missing").error(2, "missing")
    fetch("some-image", "--cloud", "nowhere").error(2, "nowhere")
    assert fetch.left() == []


def test_nobody_there(fetch: Fetch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    fetch(f"http://127.0.0.1:{port}/x", *ONCE).error(1, "Connection refused", str(port))
    fetch("http://no.such.host.invalid/x", *ONCE).error(1, "no.such.host.invalid")
    fetch(f"http://127.0.0.1:{port}/x", "-o", "missing/x").error(1, "missing")
    assert fetch.left() == []


def test_refusals(images: Images, fetch: Fetch) -> None:
    fetch(f"{images.http}/missing", *ONCE).error(1, "404")
    fetch(f"{images.http}/refused/", *ONCE).error(1, "401", "does not let us in")
    said = fetch(
        "http://user:secret@127.0.0.1:" + images.http.rpartition(":")[2] + "/refused/?token=t", *ONCE
    )
    said.error(1, "401")
    assert "secret" not in said.err
    assert "token" not in said.err.partition("hint")[0]
    assert fetch.left() == []


def test_tls_refused(images: Images, fetch: Fetch, tmp_path: Path) -> None:
    url = f"{images.https}/image.raw"
    fetch(url, *ONCE).error(1, "authority is not trusted", "--cacert")
    fetch(url.replace("https", "http"), *ONCE).error(1, "400")
    fetch(f"{images.http}/image.raw".replace("http:", "https:"), *ONCE).error(1, "speaks no TLS")
    (tmp_path / "ca").mkdir()
    other = Authority(tmp_path / "ca")
    fetch(url, "--cacert", str(other.file), *ONCE).error(1, "not trusted")
    (tmp_path / "ca" / "no.pem").write_text("no")
    fetch(url, "--cacert", str(tmp_path / "ca" / "no.pem"), *ONCE).error(2, "no.pem")
    with serving(tls=other.server("elsewhere.example")) as server:
        fetch(server.url + "/x", "--cacert", str(other.file), *ONCE).error(1, "another name")
    assert "x" not in fetch.left()


def test_a_wrong_checksum_leaves_nothing(images: Images, fetch: Fetch) -> None:
    (fetch.place / "x").write_bytes(b"the old one")
    wrong = "sha512:" + "0" * 128
    fetch(f"{images.http}/image.raw", *ONCE, "--checksum", wrong).error(1, "checksum", images.sha512[7:])
    assert (fetch.place / "x").read_bytes() == b"the old one"
    assert fetch.left() == ["x"]
    code, _, err = fetch.raw(f"{images.http}/image.raw", "-o", "-", "--checksum", wrong)
    assert code == 1
    assert "must not be used" in err


def _cutting(at: int, head: bytes = TAGGED) -> Callable[[bytes], bytes]:
    """Sends so much of the content, then hangs up; goes on where it is asked to."""

    def reply(request: bytes) -> bytes:
        start = first_byte(request)
        if start is None:
            return head + CONTENT[:at]
        rest = CONTENT[start : start + at]
        return (
            b'HTTP/1.1 206 Partial Content\r\nETag: "a"\r\n'
            + f"Content-Range: bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}\r\n".encode()
            + f"Content-Length: {len(CONTENT) - start}\r\n\r\n".encode()
            + rest
        )

    return reply


def test_a_truncated_body_is_kept_and_gone_on_from(fetch: Fetch) -> None:
    with serving(_cutting(100_000), closes=True) as server:
        said = fetch(f"{server.url}/x", *ONCE).error(3, "hung up after 100000 of 256000", "goes on")
        assert "100 kB are kept in .x.part" in said.err
        assert fetch.left() == [".x.part", ".x.part.json"]
        told = fetch(f"{server.url}/x", "-o", "x", "--json", "--checksum", SUM)
    told.fine()
    assert (fetch.place / "x").read_bytes() == CONTENT
    assert b'If-Range: "a"' in server.requests[1]
    assert fetch.left() == ["x"]


def test_it_goes_on_by_itself(fetch: Fetch) -> None:
    with serving(_cutting(100_000), closes=True) as server:
        told = fetch(f"{server.url}/x", "-o", "x", "--json").fine().json()
        assert told["attempts"] == 3
        assert fetch.raw(f"{server.url}/x", "-o", "-", "-q")[:2] == (0, CONTENT)
    assert (fetch.place / "x").read_bytes() == CONTENT


def test_without_tag_and_checksum_nothing_is_gone_on_from(fetch: Fetch) -> None:
    with serving(_cutting(100_000, UNTAGGED), closes=True) as server:
        said = fetch(f"{server.url}/x", *ONCE).error(1, "hung up")
        assert "kept" not in said.err
        assert fetch.left() == []
        code, out, err = fetch.raw(f"{server.url}/x", "-o", "-", "--retries", "1")
        assert (code, out) == (1, CONTENT[:100_000])
        assert "cannot go on" in err or "hung up" in err
        told = fetch(f"{server.url}/x", "-o", "x", "--json", "--checksum", SUM).fine().json()
        assert told["attempts"] == 3
    assert (fetch.place / "x").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + CONTENT[:1000] + b"\r\n",
            "hung up",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", "garbled"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", "length"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"", "without an answer"),
        (b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-6/7\r\nContent-Length: 2\r\n\r\nab", "206"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "no content"),
    ],
)
def test_nonsense(fetch: Fetch, said: bytes, what: str) -> None:
    with serving(lambda request: said or None, closes=True) as server:
        fetch(f"{server.url}/x", *ONCE).error(1, what)
    assert fetch.left() == []


def test_chunks_and_a_body_to_the_end(fetch: Fetch) -> None:
    pieces = [CONTENT[k : k + 7777] for k in range(0, len(CONTENT), 7777)]
    chunked = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
    for head, body in (
        (b"Transfer-Encoding: chunked\r\n", chunked),
        (b"Connection: close\r\n", CONTENT),
    ):
        with serving(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body, closes=True) as server:
            fetch(f"{server.url}/x", *ONCE, "--checksum", SUM).fine()
        assert (fetch.place / "x").read_bytes() == CONTENT


def test_a_part_of_another_place_is_refused(fetch: Fetch) -> None:
    answers = [
        TAGGED + CONTENT[:1000],
        b'HTTP/1.1 206 P\r\nETag: "a"\r\nContent-Range: bytes 5-255999/256000\r\nContent-Length: 255995\r\n\r\n',
    ]
    with serving(lambda request: answers[first_byte(request) is not None], closes=True) as server:
        fetch(f"{server.url}/x", "--retries", "1", "-o", "x").error(1, "another part")
    assert "x" not in fetch.left()


def test_an_overloaded_server_is_asked_again(fetch: Fetch) -> None:
    answers = [
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        TAGGED + CONTENT,
    ]
    with serving(lambda request: answers.pop(0), closes=True) as server:
        said = fetch(f"{server.url}/x", "-o", "x").fine()
    assert "503; again in" in said.err
    with serving(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", closes=True) as server:
        fetch(f"{server.url}/y", "--retries", "1", "-o", "y").error(1, "503")
    assert server.connections == 2
    assert fetch.left() == ["x"]


def test_a_server_that_stalls(fetch: Fetch) -> None:
    over = threading.Event()

    def stalling(spoken: socket.socket, request: bytes) -> None:
        spoken.sendall(TAGGED + CONTENT[:1000])
        over.wait(20)

    with serving(handle=stalling) as server:
        said = fetch(f"{server.url}/x", *ONCE, "--timeout", "300ms").error(
            3, "sent nothing for 0.3 s", "--timeout"
        )
        over.set()
    assert "1.00 kB are kept" in said.err
    assert fetch.left() == [".x.part", ".x.part.json"]


def test_a_server_that_never_answers(fetch: Fetch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        for scheme in ("http", "https"):
            fetch(f"{scheme}://{place}/x", *ONCE, "--timeout", "300ms").error(1, "sent nothing")
    assert fetch.left() == []


def test_a_full_disk_is_found_out_before_anything_is_sent(full_disk: Path, images: Images) -> None:
    fetch = Fetch(full_disk)
    fetch(f"{images.http}/image.raw", "-o", "x").error(1, "No space left", "free some space")
    assert fetch.left() == []


def test_a_full_disk_at_the_end_keeps_what_is_there(full_disk: Path, tmp_path: Path) -> None:
    room = os.statvfs(full_disk)
    content = bytes(room.f_bavail * room.f_frsize)  # a page of which the state takes
    chunked = f"{len(content):x}\r\n".encode() + content + b"\r\n0\r\n\r\n"
    head = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n'
    fetch = Fetch(full_disk)
    with serving(head + chunked, closes=True) as server:
        said = fetch(f"{server.url}/x", "-o", "x").error(3, "No space left", "free some space", "goes on")
    assert "are kept in .x.part" in said.err
    assert fetch.left() == [".x.part", ".x.part.json"]
    assert fetch.part("x").stat().st_size > 0.98 * len(content)


def test_a_reader_that_goes_away(images: Images, fetch: Fetch) -> None:
    process = fetch.start(f"{images.http}/image.raw", "-o", "-", "--rate", "10MB/s")
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read().decode()
    assert process.wait(20) == 1
    assert "nobody reads" in err
    process.stderr.close()


def test_redirects_without_end(fetch: Fetch) -> None:
    def onward(request: bytes) -> bytes:
        number = int(request.split()[1].strip(b"/"))
        return f"HTTP/1.1 302 Found\r\nLocation: /{number + 1}\r\nContent-Length: 0\r\n\r\n".encode()

    with serving(onward, closes=True) as server:
        fetch(f"{server.url}/1", *ONCE).error(1, "more than 10 times")
        assert server.connections == 11
    with serving(
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/shadow\r\nContent-Length: 0\r\n\r\n"
    ) as server:
        fetch(f"{server.url}/1", *ONCE).error(1, "file:")


def test_credentials_go_to_no_other_host(fetch: Fetch) -> None:
    with serving(TAGGED + CONTENT, closes=True) as other:
        to_other = f"HTTP/1.1 307 Away\r\nLocation: {other.url}/y\r\nContent-Length: 0\r\n\r\n"
        with serving(to_other.encode(), closes=True) as server:
            url = server.url.replace("//", "//user:secret@") + "/x"
            fetch(url, *ONCE, "--header", "X-Auth-Token: token").fine()
    assert b"X-Auth-Token: token" in server.requests[0]
    assert b"Authorization: Basic" in server.requests[0]
    assert b"token" not in other.requests[0]
    assert b"Authorization" not in other.requests[0]


def test_secrets_are_on_no_command_line(fetch: Fetch) -> None:
    seen: list[bytes] = []
    pids: list[int] = []

    def looking(request: bytes) -> bytes:
        seen.append(Path(f"/proc/{pids[0]}/cmdline").read_bytes())
        seen.append(Path(f"/proc/{pids[0]}/environ").read_bytes())
        return TAGGED + CONTENT

    with serving(looking, closes=True) as server:
        process = fetch.start(f"{server.url}/x", "--header", "X-Auth-Token: token", "-o", "x")
        pids.append(process.pid)
        process.communicate(timeout=20)
    assert seen[0].startswith(os.fsencode(os.environ.get("CONTEND_FETCH") or seen[0]))
    assert b"token" not in b"".join(seen)


def test_through_proxies(images: Images, fetch: Fetch) -> None:
    with serving(handle=connecting) as proxy:
        way = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
        said = fetch(f"{images.https}/image.raw", "--insecure", "-o", "x", env={"https_proxy": way})
        said.fine()
        assert proxy.requests[0].startswith(b"CONNECT 127.0.0.1:")
        assert b"Proxy-Authorization: Basic" in proxy.requests[0]
        fetch(
            f"{images.https}/image.raw",
            "--insecure",
            "-o",
            "x",
            env={"https_proxy": way, "no_proxy": "127.0.0.1"},
        )
        assert len(proxy.requests) == 1
    assert (fetch.place / "x").read_bytes() == images.content
    with serving(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n", closes=True) as proxy:
        for scheme in ("http", "https"):
            env = {f"{scheme}_proxy": f"127.0.0.1:{proxy.port}"}
            fetch(f"{scheme}://elsewhere.example/x", *ONCE, env=env).error(1, "407", "proxy")
    fetch("http://elsewhere.example/x", *ONCE, env={"http_proxy": "socks5://127.0.0.1:1"}).error(2, "socks5")


def test_without_the_program(fetch: Fetch, tmp_path: Path) -> None:
    missing = {"CONTEND_FETCH": str(tmp_path / "no")}
    fetch("http://127.0.0.1:9/x", env=missing).error(1, "cannot start", "make setup")


def test_an_order_that_is_none(fetch: Fetch) -> None:
    fetch.order(nothing=1).error(2, "nothing")
