"""What statements and requests are called: the same for the same, and never what they carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.trace.patches.http_names import flow, folded, requested, requested_whole, served
from contend.trace.patches.processes import _program
from contend.trace.patches.sql_text import title, without_values


@pytest.mark.parametrize(
    ("statement", "dialect", "expected"),
    [
        ("SELECT 1", "", "SELECT ?"),
        ("SELECT  a\n FROM t1\tWHERE x2 = 7", "", "SELECT a FROM t1 WHERE x2 = ?"),
        ("SELECT t.a FROM t WHERE t.b = 'it''s' AND c=-1.5e-3", "sqlite", "SELECT t.a FROM t WHERE t.b = ? AND c=-?"),
        ("INSERT INTO t (a, b) VALUES (?, ?), (?, ?)", "sqlite", "INSERT INTO t (a, b) VALUES (?)"),
        ("SELECT a FROM t WHERE b IN (1, 2, 3)", "", "SELECT a FROM t WHERE b IN (?)"),
        ("SELECT a FROM t WHERE b = :b_1 AND c = $2::uuid", "postgresql", "SELECT a FROM t WHERE b = ? AND c = ?::uuid"),
        ("SELECT a FROM t WHERE b = %(b_1)s LIMIT %s", "mysql", "SELECT a FROM t WHERE b = ? LIMIT ?"),
        ('SELECT "order".id FROM "order" WHERE name = "secret"', "sqlite", 'SELECT "order".id FROM "order" WHERE name = ?'),
        ('SELECT "Name" FROM t WHERE "Id" = 3', "postgresql", 'SELECT "Name" FROM t WHERE "Id" = ?'),
        ("SELECT `a` FROM `t` WHERE b = \"secret\"", "mysql", "SELECT `a` FROM `t` WHERE b = ?"),
        ("SELECT ARRAY['secret', 2]", "postgresql", "SELECT ARRAY[?, ?]"),
        ("SELECT $tag$ it's secret $tag$, 2", "postgresql", "SELECT ?, ?"),
        ("SELECT a /* key=secret */ FROM t -- secret", "", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE b = 'secret", "", "SELECT a FROM t WHERE b = …"),
        (r"SELECT a FROM t WHERE b = 'x\' AND c = 'secret'", "", "SELECT a FROM t WHERE b = …"),
        ("SELECT a FROM t WHERE b = q'[it's secret]'", "oracle", "SELECT a FROM t WHERE b = q…"),
        ('CREATE USER bob IDENTIFIED BY "a secret"', "oracle", "CREATE USER bob IDENTIFIED BY ?"),
        ("ALTER USER bob IDENTIFIED WITH x BY 'secret'", "mysql", "ALTER USER bob IDENTIFIED WITH x BY ?"),
        ("ALTER USER bob IDENTIFIED BY secret", "oracle", "ALTER USER bob IDENTIFIED BY ?"),
        ("SELECT [order].[id] FROM [order] WHERE x = N'secret'", "mssql", "SELECT [order].[id] FROM [order] WHERE x = ?"),
        ("UPDATE t SET a=0xFF, b=x'00FF' WHERE id=12", "", "UPDATE t SET a=?, b=? WHERE id=?"),
    ],
)  # fmt: skip
def test_values_are_left_out(statement: str, dialect: str, expected: str) -> None:
    assert without_values(statement, dialect) == expected


@given(st.text(max_size=30), st.sampled_from(["", "sqlite", "mysql", "postgresql"]))
def test_no_string_comes_through(value: str, dialect: str) -> None:
    """Whatever is in it, as the drivers quote it."""
    quoted = "'" + value.replace("'", "''") + "'"
    for text in (
        f"SELECT a FROM t WHERE b = {quoted} AND c = 1",
        f"SELECT a FROM t WHERE b IN ({quoted}, {quoted})",
    ):
        begin = "SELECT a FROM t WHERE b "
        assert without_values(text, dialect) in (
            f"{begin}= ? AND c = ?",
            f"{begin}IN (?)",
            f"{begin}= …",
            f"{begin}IN (…",
        )


def test_titles() -> None:
    many = ", ".join(f"t.column_{n}" for n in range(20))
    inner = f"SELECT a, (SELECT max(b) FROM u WHERE u.id = t.id) AS most, {many} FROM t WHERE t.x = ?"
    assert title(inner) == "SELECT … FROM t WHERE t.x = ?"
    assert title(f"INSERT INTO t ({many}) VALUES (?)") == "INSERT INTO t (…) VALUES (?)"
    assert title("SELECT a FROM t") == "SELECT a FROM t"
    assert title(f"SELECT {many}") == f"SELECT {many}"[:159] + "…"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("", ""),
        ("/v2.1/servers/detail", "/v2.1/servers/detail"),
        ("/users/17/", "/users/*/"),
        ("/oauth2/token", "/oauth2/token"),
        ("/reset/GxYpQmRtKlWvBnZsDfHjUeIoA", "/reset/*"),
        ("/images/9f86d081884c7d65", "/images/*"),
        ("/x;jsessionid=secret/y", "/x/y"),
        ("/a/alice@example.org/ü", "/a/*/*"),
        ("/a?password=secret#top", "/a"),
        ("/" + "a/" * 40, "/" + "a/" * 11 + "a/…"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert folded(path) == expected


def test_requests() -> None:
    assert served("GET", "/users/1") == served("GET", "/users/2") == "GET /users/*"
    assert served("B\x00D", "/") == "other /"
    assert requested("get", "h", 80, b"/p") == "HTTP GET h*/*"  # not a text: nothing of it is told
    assert (
        requested("POST", "h", 9292, "http://me:secret@h:9292/v2/images?token=secret")
        == "HTTP POST h:9292/v2/images"
    )
    assert requested_whole("GET", "https://me:sec/ret@h/p?u=http://x@y/") == "GET */*/p"
    assert requested_whole("GET", "https://h?token=secret") == "GET h/"


def test_a_connection_is_known_on_this_machine_only() -> None:
    assert flow(("127.0.0.1", 4711), 80) == "http 127.0.0.1:4711>80"
    assert flow(("::1", 4711), "80") == "http ::1:4711>80"
    assert flow(("192.0.2.1", 4711), 80) is None


@pytest.mark.parametrize(
    ("args", "shell", "expected"),
    [
        (["/usr/bin/curl", "-u", "me:secret"], False, "curl"),
        ([b"ls"], False, "ls"),
        ("curl -u me:secret http://h/secret", True, "curl"),
        (["curl -u me:secret http://h/secret"], True, "curl"),
        ("TOKEN=secret curl", True, "sh"),
        ("TOKEN='a secret' curl", True, "sh"),
        ("'secret'", True, "sh"),
        ("curl secret/secret", False, "curl"),
        ([], False, ""),
        (None, False, ""),
    ],
)
def test_programs(args: object, shell: bool, expected: str) -> None:
    assert _program(args, shell) == expected
