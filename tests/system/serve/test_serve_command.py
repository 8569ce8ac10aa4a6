"""`contend serve` as a user starts and ends it."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.answers import data_in
from support.command_line import Home
from support.made_many import copies


@pytest.fixture
def home(contend: Home, shared_run: tuple[Home, Path]) -> Home:
    copies(shared_run[1], contend.runs, [1.0, 1.0])
    return contend


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(home: Home, number: int) -> None:
    with home.start("serve", "--listen", "127.0.0.1:0") as process:
        line = process.stdout.readline()
        assert line.startswith(f"serving {home.runs} at http://127.0.0.1:")
        url = re.search(r"http://\S+", line)
        assert url is not None
        with urllib.request.urlopen(url[0], timeout=20) as answer:
            assert b"run-0001" in answer.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")


def test_interrupted_at_once(home: Home) -> None:
    with home.start("serve", "--listen", "127.0.0.1:0", "--json") as process:
        told = data_in(process.stdout.readline())
        assert told["asks_for_token"] is False
        with socket.create_connection(("127.0.0.1", int(told["url"].rpartition(":")[2]))):
            process.send_signal(signal.SIGINT)  # somebody is connected, and says nothing
            assert process.wait(timeout=20) == 0


def test_interrupted_amid_an_answer(home: Home, shared_run: tuple[Home, Path]) -> None:
    copies(shared_run[1], home.runs, [1.0] * 150, name="more")
    with home.start("serve", "--listen", "127.0.0.1:0", "--json") as process:
        port = int(data_in(process.stdout.readline())["url"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nx")
            with socket.create_connection(
                ("127.0.0.1", port), timeout=60
            ) as other:  # taken after the first was
                other.sendall(b"HEAD /assets/page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert other.recv(100)
            process.send_signal(signal.SIGINT)
            answer = b""
            while chunk := peer.recv(1 << 16):
                answer += chunk
        assert process.wait(timeout=60) == 0, process.stderr.read()
    assert b"152 directories" in answer
    assert answer.endswith(b"</html>\n") or answer.rstrip().endswith(b"</html>")


def test_interrupted_while_connections_come(home: Home) -> None:
    for _ in range(3):
        with (
            home.start("serve", "--listen", "127.0.0.1:0", "--json") as process,
            contextlib.ExitStack() as peers,
        ):
            port = int(data_in(process.stdout.readline())["url"].rpartition(":")[2])
            try:
                for number in range(200):  # more than are taken at once
                    peers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                    if number == 100:
                        process.send_signal(signal.SIGINT)
            except ConnectionError:
                pass  # which is how it ends for who comes later
            assert process.wait(timeout=20) == 0
            assert process.stderr.read() == ""


def test_a_new_token_is_printed_and_asked_for(home: Home) -> None:
    with home.start("serve", "--listen", "0.0.0.0:0", "--new-token", "--verbose") as process:
        link = re.search(r"http://\S+/login\?token=(\S+)", process.stdout.readline())
        assert link is not None
        port = re.search(r":(\d+)/", link[0])
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}/"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=20)
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {link[1]}"})
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}login?token=secret-that-is-wrong", timeout=20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "no TLS" in err
    assert "127.0.0.1 GET / 200" in err
    assert "secret-that-is-wrong" not in err
    assert link[1] not in err


def test_the_token_of_a_file_is_not_printed(home: Home) -> None:
    token = home.path / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    token.chmod(stat.S_IRUSR)
    with home.start("serve", "--listen", "127.0.0.1:0", "--token-file", str(token)) as process:
        lines = process.stdout.readline() + process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert "0123456789abcdef" not in lines + err
    assert "TOKEN" in lines


def test_what_cannot_be_served(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        home("serve", "--listen", where).error(2, "in use", "127.0.0.1:0")
    home("serve", "--runs", "absent").error(2, "'absent'", "contend serve DIR")
    home("serve", "--listen", "0.0.0.0:0").error(2, "no token", "--new-token")
    home("serve", "--listen", "192.0.2.1:0", "--new-token").error(2, "192.0.2.1")
    home("serve", "--listen", "nonsense").error(2, "ADDRESS:PORT")
    (home.path / "empty").write_text("")
    home("serve", "--token-file", "empty").error(2, "holds no token")
    home("serve", "--token-file", "empty", "--new-token").error(2, "exclude")
    home("serve", "--token-file", "nothing").error(2, "cannot read")
