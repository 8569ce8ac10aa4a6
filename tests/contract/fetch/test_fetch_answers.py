"""`contend fetch` and what servers may answer: nothing is mixed, nothing cut is whole, and no server is asked for ever."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from support.command_line import Said
from support.image_answers import CONTENT, NOTHING_LEFT, SUM, TAGGED, UNTAGGED, first_byte, part
from support.image_servers import Fetch, Images
from support.wire_servers import Authority, serving

ONCE = ("--retries", "0", "-o", "x")


@pytest.mark.parametrize("whole", ["256000", "*"])
def test_a_server_may_send_less_than_was_asked_for(fetch: Fetch, whole: str) -> None:
    """RFC 9110, 15.3.7. Where it does not say how long the whole is, only asking on tells that nothing is left."""
    chunked = (
        b'HTTP/1.1 200 OK\r\nETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n' + CONTENT[:100_000]
    )

    def reply(request: bytes) -> bytes:
        start = first_byte(request)
        if start is None:
            return chunked
        if start == len(CONTENT):
            return NOTHING_LEFT
        return part(start, min(start + 90_000, len(CONTENT)), whole)

    with serving(reply, closes=True) as server:
        told = fetch(f"{server.url}/x", "-o", "x", "--json").fine().json()
    assert (fetch.place / "x").read_bytes() == CONTENT
    assert told["attempts"] == (3 if whole != "*" else 4)


def test_a_part_that_contradicts_itself_is_refused(fetch: Fetch) -> None:
    lie = part(1000, 2000).replace(b"Content-Length: 1000", b"Content-Length: 999")
    with serving(
        lambda request: lie if first_byte(request) else TAGGED + CONTENT[:1000], closes=True
    ) as server:
        fetch(f"{server.url}/x", "-o", "x").error(1, "999 bytes and 1000 bytes")
    assert "x" not in fetch.left()


@pytest.mark.parametrize("tag", [b'ETag: "b"\r\n', b""])
def test_a_server_that_ignores_if_range_mixes_nothing(fetch: Fetch, tag: bytes) -> None:
    """It sends a part of what it has by now, whatever was asked for: its tag is another one, or it says none."""
    asked = iter([TAGGED + CONTENT[::-1][:100_000], part(100_000, 256_000, tag=tag), TAGGED + CONTENT])
    with serving(lambda request: next(asked), closes=True) as server:
        said = fetch(f"{server.url}/x", "-o", "x", "--json")
    assert said.fine().json()["attempts"] == 3
    assert "has changed" in said.err
    assert (fetch.place / "x").read_bytes() == CONTENT


def test_a_whole_part_is_only_taken_by_the_servers_word(fetch: Fetch) -> None:
    """All bytes are there, of another content: a server that ignores If-Range would say that nothing is left."""
    has = [TAGGED.replace(b"256000", b"256001") + CONTENT[::-1]]

    def reply(request: bytes) -> bytes:
        start = first_byte(request)
        if start is None:
            return has[0]
        return NOTHING_LEFT if start == len(CONTENT) else part(start, len(CONTENT), tag=b'ETag: "b"\r\n')

    with serving(reply, closes=True) as server:
        fetch(f"{server.url}/x", *ONCE).error(3, "hung up after 256000")
        state = fetch.place / ".x.part.json"
        state.write_text(state.read_text().replace("256001", "256000"))
        has[0] = TAGGED.replace(b'"a"', b'"b"') + CONTENT
        fetch(f"{server.url}/x", "-o", "x").fine()
    assert (fetch.place / "x").read_bytes() == CONTENT


def test_a_server_that_always_breaks_is_not_asked_for_ever(fetch: Fetch) -> None:
    """Every time from the first byte on: the same bytes again are no progress."""
    with serving(UNTAGGED + CONTENT[:100_000], closes=True) as server:
        fetch(f"{server.url}/x", "-o", "x", "--retries", "2").error(1, "hung up after 100000")
    assert server.connections == 1 + 2
    assert fetch.left() == []


def test_what_came_in_pieces_and_is_wrong_is_fetched_once_more(fetch: Fetch) -> None:
    """Without a tag nobody says that the rest is of the same content: the checksum does."""
    asked = iter([UNTAGGED + CONTENT[::-1][:100_000], part(100_000, 256_000, tag=b""), UNTAGGED + CONTENT])
    with serving(lambda request: next(asked), closes=True) as server:
        said = fetch(f"{server.url}/x", "-o", "x", "--checksum", SUM).fine()
    assert "fetched anew" in said.err
    assert (fetch.place / "x").read_bytes() == CONTENT


def test_more_than_there_should_be_is_not_taken_in(fetch: Fetch) -> None:
    chunk = b"186a0\r\n" + CONTENT[:100_000] + b"\r\n"
    with serving(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 30, closes=True
    ) as server:
        order = {"url": f"{server.url}/x", "output": str(fetch.place / "x"), "size": 150_000}
        fetch.order(**order, checksum={"algorithm": "md5", "value": "0" * 32}).error(
            1, "more than the 150000"
        )
    assert fetch.left() == []


def test_coded_content_is_not_the_image(fetch: Fetch) -> None:
    coded = TAGGED.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + CONTENT
    with serving(coded, closes=True) as server:
        fetch(f"{server.url}/x", *ONCE).error(1, "coded as 'gzip'", "--checksum")
        assert fetch.left() == []
        fetch(f"{server.url}/x", *ONCE, "--checksum", SUM).fine()
        fetch(f"{server.url}/x.gz", "--retries", "0").fine()
    assert (fetch.place / "x.gz").read_bytes() == CONTENT
    assert b"Accept-Encoding: identity" in server.requests[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_cheapest_cipher_is_liked_best(fetch: Fetch, tmp_path: Path, version: ssl.TLSVersion) -> None:
    ciphers: list[str] = []

    def look(spoken: socket.socket, request: bytes) -> None:
        assert isinstance(spoken, ssl.SSLSocket)
        told = spoken.cipher()
        assert told is not None
        ciphers.append(told[0])
        spoken.sendall(TAGGED + CONTENT)

    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    context = authority.server("localhost")
    context.maximum_version = version
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE  # as nginx and httpd are by default
    with serving(tls=context, handle=look) as server:
        fetch(f"https://localhost:{server.port}/x", "--cacert", str(authority.file), *ONCE).fine()
    assert "AES128" in ciphers[0].replace("_", "")


def test_a_certificate_that_signs_itself_is_trusted_where_it_is_named(fetch: Fetch, tmp_path: Path) -> None:
    """As `openssl req -x509` makes it, an authority by its own word: curl takes it, too. Another certificate, another name
    or another day does not pass."""

    def made(file: str, name: str = "localhost", days: str = "2") -> tuple[Path, ssl.SSLContext]:
        own, key = tmp_path / f"{file}.pem", tmp_path / f"{file}.key"
        new = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            str(key),
        ]
        new += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
        for words in (new, ["x509", "-in", str(own), "-signkey", str(key), "-days", days]):
            subprocess.run(["openssl", *words, "-out", own], check=True, capture_output=True)
        shown = subprocess.run(["openssl", "x509", "-in", own, "-text"], check=True, capture_output=True)
        assert b"CA:TRUE" in shown.stdout
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own, key)
        return own, context

    def hand_out(spoken: socket.socket, request: bytes) -> None:
        spoken.sendall(TAGGED + CONTENT)

    def asked(file: Path, context: ssl.SSLContext) -> Said:
        with serving(tls=context, handle=hand_out) as server:
            return fetch(f"https://localhost:{server.port}/x", "--cacert", str(file), *ONCE)

    file, context = made("one")
    asked(file, context).fine()
    asked(made("other")[0], context).error(1, "TLS")
    asked(*made("elsewhere", name="elsewhere")).error(1, "TLS")
    asked(*made("late", days="-1")).error(1, "TLS")


def test_a_body_that_only_the_connection_ends_may_have_been_cut(fetch: Fetch) -> None:
    def cut(spoken: socket.socket, request: bytes) -> None:
        spoken.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + CONTENT[:1000])

    with serving(handle=cut) as server:
        url = f"http://127.0.0.1:{server.port}/x"
        said = fetch(url, "--json", *ONCE).fine()
        assert said.json()["length_known"] is False
        assert "it may have been cut" in fetch(url, *ONCE).fine().err
        fetch(url, *ONCE, "--checksum", SUM).error(1, "checksum")


@pytest.mark.parametrize("farewell", [True, False])
def test_an_end_that_tls_does_not_say_may_be_a_cut(fetch: Fetch, tmp_path: Path, farewell: bool) -> None:
    """A body without a length ends where the connection does: anybody on the way can end TCP, nobody TLS."""

    def cut(spoken: socket.socket, request: bytes) -> None:
        spoken.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + CONTENT)
        if farewell:
            assert isinstance(spoken, ssl.SSLSocket)
            with suppress(OSError):  # the other side just hangs up
                spoken.unwrap()
        spoken.shutdown(socket.SHUT_RDWR)

    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    words = ("--cacert", str(authority.file), *ONCE)
    with serving(tls=authority.server("localhost"), handle=cut) as server:
        url = f"https://localhost:{server.port}/x"
        if farewell:
            fetch(url, *words).fine()
        else:
            fetch(url, *words).error(1, "hung up after 256000")
            assert "x" not in fetch.left()
            fetch(url, *words, "--checksum", SUM).fine()
    assert (fetch.place / "x").read_bytes() == CONTENT


def test_headers_of_the_users(fetch: Fetch) -> None:
    with serving(TAGGED + CONTENT, closes=True) as server:
        fetch(f"{server.url}/x", *ONCE, "--header", "Range: bytes=0-9").error(2, "'Range'")
        fetch(f"{server.url}/x", *ONCE, "--header", "@missing").error(2, "missing")
        (fetch.place / "headers").write_text("X-Auth-Token: token\n\nHost: image.example\n")
        fetch(f"{server.url}/x", *ONCE, "--header", "@headers").fine()
        with fetch.start(f"{server.url}/x", *ONCE, "--header", "@-", stdin=subprocess.PIPE) as process:
            process.communicate(b"X-Auth-Token: other", timeout=60)
        assert process.returncode == 0
    assert b"\r\nX-Auth-Token: token\r\n" in server.requests[0]
    assert b"\r\nHost: image.example\r\n" in server.requests[0]
    assert server.requests[0].count(b"Host:") == 1
    assert b"\r\nX-Auth-Token: other\r\n" in server.requests[1]


def test_a_directory_that_may_not_be_read_takes_a_file(images: Images) -> None:
    """Only to write to: it cannot be synced, and what it holds has its name all the same."""
    program = Path(os.environ.get("CONTEND_FETCH") or Path(sys.executable).with_name("contend-fetch"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        copied = place / "contend-fetch"
        shutil.copy(program, copied)
        box = place / "box"
        box.mkdir()
        place.chmod(0o755)
        box.chmod(0o333)
        order = {"url": f"{images.http}/image.raw", "output": str(box / "x"), "quiet": True}
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [copied], input=json.dumps(order), capture_output=True, text=True, env={}, timeout=60, **who
        )
        box.chmod(0o755)
        assert (done.returncode, done.stderr) == (0, "")
        assert (box / "x").read_bytes() == images.content


@pytest.mark.parametrize("named_by", ["the order", "SSL_CERT_FILE"])
@pytest.mark.parametrize("file", ["/dev/zero", "fifo", "large"])
def test_authorities_that_never_end_are_refused_by_the_program_itself(
    file: str, named_by: str, tmp_path: Path
) -> None:
    """`contend fetch` refuses them before; whoever gives an order to the program directly is as safe."""
    path = tmp_path / file
    if file == "fifo":
        os.mkfifo(path)
    elif file == "large":
        with path.open("wb") as made:
            made.truncate(40 * 10**9)
    order = {
        "url": "https://127.0.0.1:9/x", "headers": [], "output": None, "checksum": None, "size": None, "cpu_max": None,
        "rate": None, "nice": 0, "timeout_s": 3, "retries": 0, "anew": False, "certificate": None,
        "cacert": str(path) if named_by == "the order" else None, "verify": True, "quiet": True, "json": False, "name": None,
    }  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).with_name("contend-fetch")],
        input=json.dumps(order), capture_output=True, text=True, timeout=30, check=False,
        env=os.environ | ({} if named_by == "the order" else {"SSL_CERT_FILE": str(path)}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )  # fmt: skip
    assert done.returncode == 2
    assert "no regular file" in done.stderr or "larger than 16 MiB" in done.stderr
