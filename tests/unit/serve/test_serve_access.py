"""Who may ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.serve.access import Access, Listen, choose_token, others_can_read, read_token


@pytest.mark.parametrize(
    "text", ["", "8330", "127.0.0.1", ":80", "web:80", "127.0.0.1:", "127.0.0.1:x", "1.2.3.4:70000", "::1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadInput) as error:
        Listen.parse(text)
    assert "127.0.0.1:8330" in error.value.hint


@pytest.mark.parametrize(
    ("text", "loopback"),
    [("localhost:0", True), ("127.3.2.1:1", True), ("[::]:1", False), ("10.0.0.1:1", False)],
)
def test_addresses(text: str, loopback: bool) -> None:
    assert Listen.parse(text).loopback is loopback


def test_others_need_a_token(tmp_path: Path) -> None:
    every = Listen.parse("0.0.0.0:0")
    with pytest.raises(BadInput) as error:
        choose_token(every, None, new=False)
    assert "--new-token" in error.value.hint
    one, other = (choose_token(every, None, new=True) for _ in range(2))
    assert one
    assert other
    assert one != other
    assert len(one) >= 43
    assert choose_token(Listen.parse("[::1]:0"), None, new=False) is None


@pytest.mark.parametrize("text", ["", "\n", "short", "with a space in it, and long", "\n" + "x" * 40])
def test_a_token_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(BadInput):
        read_token(path)
    with pytest.raises(BadInput):
        read_token(tmp_path / "absent")


def test_the_token_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n# a comment\n")
    path.chmod(0o600)
    assert read_token(path) == "0123456789abcdef"
    assert not others_can_read(path)
    path.chmod(0o640)
    assert others_can_read(path)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1",
        "127.0.0.1:x",
        "127.0.0.1@evil",
        "[::1]x",
        "0.0.0.0",
    ],
)
def test_names_of_others(host: str) -> None:
    assert not Access(loopback=True).knows(host)


def test_an_address_is_nobodys_name() -> None:
    assert Access(loopback=False).knows("192.0.2.7:80")
    assert Access(loopback=False).knows("[2001:db8::7]:80")
    assert not Access(loopback=False, names=frozenset({"web"})).knows("web.evil.example")


def test_the_token_or_what_stands_for_it() -> None:
    access = Access(loopback=False, token="t" * 20)
    assert access.admits("Bearer " + "t" * 20, None, "c")
    assert access.admits(None, f"other=1; c={access.session}", "c")
    # Another program on another port of this host has set what http.cookies does not read.
    assert access.admits(None, f'odd={{"a":1}}; b@d=x y; ;c={access.session}; more="', "c")
    assert not access.admits(None, f"cc={access.session}; d=c={access.session}", "c")
    for header, cookie in (
        (None, None),
        ("Bearer x", "c=x"),
        ("Basic " + "t" * 20, None),
        (None, "c=" + "t" * 20),
        ("", ";=;"),
    ):
        assert not access.admits(header, cookie, "c")
    assert not Access(loopback=False, token="é" * 20).admits("Bearer ü", None, "c")
