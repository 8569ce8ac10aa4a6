"""Every route and every refusal, asked of the real server on loopback."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from contend.serve.changes import available
from contend.serve.index import PAGE, Filter
from contend.serve.server import Server
from support.asking import ask, raw, served
from support.made_many import copies
from support.made_runs import Made
from support.prerequisites import need

SECRET = "a secret that is nowhere below the runs"
TOKEN = "0123456789abcdefghij"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs with a step at the seventh, others beside them, and a secret next to the place."""
    root = tmp_path_factory.mktemp("served")
    made = Made(root / "base", 6, {"ffmpeg|stress-cpu": 2.0}, {})
    made.run.write_json("findings.json", made.analyse().to_json())
    made.run.write_text("report.html", "<p>the report, as it is</p>\n")
    made.run.close()
    runs = copies(made.run.path, root / "runs", [1.0] * 6 + [1.3] * 6)
    (root / "secret").write_text(SECRET)
    (root / "outside").mkdir()
    (root / "outside/report.html").write_text(SECRET)
    (root / "runs/linked").symlink_to(root / "outside")
    (root / "runs/<b>odd & name").mkdir()
    (runs[1] / "report.html").unlink()
    (runs[1] / "report.html").symlink_to(root / "secret")
    return root / "runs"


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with served(place) as started:
        yield started


@pytest.fixture(scope="module")
def guarded(place: Path) -> Iterator[Server]:
    with served(place, TOKEN) as started:
        yield started


def links(text: str) -> list[str]:
    return [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', text)]


def test_every_link_leads_somewhere(server: Server) -> None:
    seen: dict[str, int] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop().partition("#")[0]
        if path in seen or not path or path.startswith("data:"):
            continue
        assert path.startswith("/"), f"to another host: {path}"
        got = ask(server, path)
        seen[path] = got.status
        kind = path.partition("?")[0].partition("/")[2].split("/")[0]
        if got.headers["content-type"].startswith("text/html") and not path.endswith("report.html"):
            many = sum(p.startswith(f"/{kind}") for p in seen)
            waiting += [
                link for link in links(got.text) if many < 25 or link.startswith(("/run/", "/assets"))
            ]
    assert len(seen) > 45
    assert {path: status for path, status in seen.items() if status not in (200, 303)} == {}


@pytest.mark.parametrize(
    ("module", "whose"),
    [
        ("toy_sleeps.study", "a mistake in the study 'sleeps' of the package toy_sleeps"),
        ("contend.serve.pages", "a mistake in contend itself"),
    ],
)
def test_a_mistake_is_told_as_whose_it_is(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: str,
    whose: str,
) -> None:
    named: dict[str, Any] = {"__name__": module}
    exec("def answer(*asked): raise RuntimeError('no figure')", named)
    point = EntryPoint("sleeps", "toy_sleeps:STUDY", "contend.studies")
    monkeypatch.setattr("contend.studies.registry._elsewhere", lambda: (point,))
    monkeypatch.setattr(server.pages, "answer", named["answer"])
    got = ask(server, "/")
    assert got.status == 500 and f"This is {whose}" in got.text
    told = capsys.readouterr().err
    assert f"warning: {whose}, at '/': RuntimeError('no figure')" in told


def test_the_list(server: Server) -> None:
    got = ask(server, "/")
    assert got.status == 200
    assert "14 directories of runs" in got.text
    assert "ffmpeg takes 2.0" in got.text
    assert "&lt;b&gt;odd &amp; name" in got.text
    assert "<b>odd" not in got.text
    few = ask(server, "/?" + urlencode({"text": "run-0003", "page": "9" * 40, "order": "x", "since": "soon"}))
    assert "1 of 14 match" in few.text
    assert ask(server, "/?" + urlencode({"text": "\0%_'\" 😀", "host": "none"})).status == 200


def test_pages_of_the_list(place: Path, tmp_path: Path) -> None:
    copies(place / "run-0000", tmp_path / "many", [1.0] * (PAGE + 3))
    with served(tmp_path / "many") as server:
        assert f"run-{PAGE + 2:04d}" in ask(server, "/").text
        second = ask(server, "/?page=2").text
        assert "Page 2 of 2" in second
        assert second.count('type="checkbox"') == 3
        assert ask(server, "/?page=77").text == second
        assert ">Newer<" in second and ">Previous<" in ask(server, "/?page=2&order=title").text


def test_sparklines(server: Server) -> None:
    """Of the last runs up to each: the step at the seventh run is in the eighth's and in no earlier one's."""

    def heights(run: str) -> list[float]:
        got = ask(server, f"/run/{run}/spark.svg")
        assert (got.status, got.headers["content-type"]) == (200, "image/svg+xml")
        assert got.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        found = re.search(r'points="([^"]*)"', got.text)
        return [float(point.split(",")[1]) for point in found[1].split()] if found else []

    assert heights("run-0000") == [], "one run is no line"
    assert len(heights("run-0003")) == 4
    eighth = heights("run-0007")
    assert len(eighth) == 8 and max(eighth[6:]) < min(eighth[:6]) - 8, "higher is up"
    page = ask(server, "/run/run-0007").text
    assert page.count("<polyline") == 6 and "wall of ffmpeg alone: the last 8 runs, " in page
    assert ask(server, "/").text.count("/spark.svg") == 12
    assert "/run/run-0011/spark.svg" in ask(server, "/trend").text
    assert ask(server, "/run/nobody/spark.svg").status == 404


def test_a_report_is_sent_as_it_is_in_a_sandbox(server: Server, place: Path) -> None:
    got = ask(server, "/run/run-0000/report.html")
    assert got.body == (place / "run-0000/report.html").read_bytes()
    policy = got.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


def test_our_own_pages_run_no_text_as_code(server: Server) -> None:
    for path in ("/", "/trend", "/run/run-0000", "/nowhere"):
        policy = ask(server, path).headers["content-security-policy"]
        scripts = re.search(r"script-src ([^;]*)", policy)
        assert scripts is not None
        assert scripts[1] == "'self'"
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy


def test_a_page_names_no_other_host(server: Server) -> None:
    for path in (
        "/",
        "/trend",
        "/run/run-0000",
        "/compare?first=run-0000&second=run-0001",
        "/assets/page.css",
    ):
        text = ask(server, path).text
        assert not re.search(r"(?:https?:)?//[a-z]", text), path


def test_comparing_two(server: Server) -> None:
    chosen = ask(server, "/compare?run=run-0011&run=run-0000")
    assert (chosen.status, chosen.headers["location"]) == (303, "/compare?first=run-0000&second=run-0011")
    for few in ("/compare", "/compare?run=run-0011", "/compare?run=a&run=b&run=c"):
        assert ask(server, few).status == 400
    assert ask(server, "/compare?first=run-0000&second=nothing").status == 404
    odd = ask(server, "/compare?first=run-0000&second=" + quote("<b>odd & name"))
    assert (odd.status, "cannot be compared" in odd.text) == (422, True)


def test_the_comparison_is_that_of_the_command(server: Server, place: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "contend", "compare", "-v", str(place / "run-0000"), str(place / "run-0011")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    page = html.unescape(re.sub(r"<[^>]+>", "|", ask(server, "/compare?first=run-0000&second=run-0011").text))
    cells = [line for line in said.splitlines() if not line.startswith(("note:", "warning:"))]
    assert len(cells) >= 6
    for line in cells:
        for word in re.split(r"\s{2,}", line.strip()):
            assert word in page, f"{word!r} of {line!r}"
    for line in said.splitlines():
        if line.startswith("note: "):
            assert line.removeprefix("note: ") in page


def test_a_trend(server: Server) -> None:
    need(available(), "Apache Otava: scripts/setup.sh installs it")
    entry = server.pages._index.page(Filter()).entries[0]
    told = {"question": entry.question, "host": entry.host, "cell": "ffmpeg|none", "metric": "wall"}
    page = ask(server, "/trend?" + urlencode(told)).text
    assert "the level of the runs changed once" in page
    assert "From run 7 on" in page
    assert '<a href="/run/run-0006">' in page
    assert "block order by nature" in page
    assert ask(server, "/trend?" + urlencode(told | {"metric": "speed"})).status == 404
    assert ask(server, "/trend?" + urlencode(told | {"host": "x"})).status == 404


TRAVERSALS = [
    "/run/../secret", "/run/%2e%2e/secret", "/run/..%2fsecret/report.html", "/run/run-0000/../../../secret",
    "/run/run-0000%2f..%2f..%2fsecret", "/run/run-0000/trials.ndjson", "/run/run-0000/report.html/", "/run/./report.html",
    "/run/%00/report.html", "/run//report.html", "/run/linked/report.html", "/run/run-0001/report.html",
    "/run/%2e%2e%2foutside/report.html", "/run/..%5coutside/report.html", "/assets/../secret", "/assets/%2e%2e/secret",
    "/assets/..%2f..%2f..%2fsecret", "//run/run-0000/plan.json", "/run/%252e%252e/report.html", "/../secret", "/..%2fsecret",
    "/run/%ff/report.html", "/run/" + "a" * 3000 + "/report.html", "/%2e%2e/%2e%2e/etc/passwd", "/run/run-0000\\..\\secret",
]  # fmt: skip


@pytest.mark.parametrize("path", TRAVERSALS)
def test_nothing_but_reports_can_be_reached(server: Server, path: str) -> None:
    got = ask(server, path)
    assert got.status in (400, 404), got.text[:300]
    assert SECRET.encode() not in got.body
    assert b"root:" not in got.body


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X"]
)
def test_nothing_can_be_changed(server: Server, place: Path, method: str) -> None:
    before = sorted(place.rglob("*"))
    got = ask(server, "/run/run-0000", method=method, Content_Length="0")
    assert got.status == 405
    assert got.headers["allow"] == "GET, HEAD"
    assert sorted(place.rglob("*")) == before


def test_head_is_get_without_the_body(server: Server) -> None:
    for path in ("/", "/run/run-0000/report.html", "/assets/page.css", "/nowhere"):
        got, head = ask(server, path), ask(server, path, method="HEAD")
        assert head.body == b""
        kept = ("content-length", "content-type", "content-security-policy")
        assert [head.headers[k] for k in kept] == [got.headers[k] for k in kept]
        assert head.status == got.status
        assert int(got.headers["content-length"]) == len(got.body)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "", None, "127.0.0.1.evil.example", "192.0.2.1", "user@127.0.0.1"],
)
def test_another_hosts_name_is_refused(server: Server, host: str | None) -> None:
    """A site whose name was made to point here (DNS rebinding) asks under its own name."""
    for path in ("/", "/run/run-0000/report.html", "/assets/page.js", "/login?token=x"):
        got = ask(server, path, host=host)
        assert got.status == 421
        assert b"run-0000" not in got.body


def test_two_names_are_none(server: Server) -> None:
    assert raw(server, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n").status == 421
    assert raw(server, b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").status == 400
    assert raw(server, b"GET / HTTP/1.1\r\nHost: localhost:9\r\n\r\n").status == 200


def test_a_name_can_be_added(place: Path) -> None:
    with served(place, names=frozenset({"bench.example"})) as server:
        assert ask(server, "/", host="Bench.Example:8080").status == 200
        assert ask(server, "/", host="other.example").status == 421


@pytest.mark.parametrize(
    "path", ["/", "/run/run-0000", "/run/run-0000/report.html", "/trend", "/compare", "/assets/page.js", "/x"]
)
def test_without_the_token_nothing_is_said(guarded: Server, path: str) -> None:
    for headers in (
        {}, {"Authorization": "Bearer " + TOKEN[:-1]}, {"Authorization": "Basic " + TOKEN}, {"Authorization": TOKEN},
        {"Cookie": f"{guarded.cookie}={TOKEN}"}, {"Cookie": f"{guarded.cookie}="},
    ):  # fmt: skip
        got = ask(guarded, path, **headers)
        assert got.status == 401
        assert got.headers["www-authenticate"].startswith("Bearer")
        assert b"run-0000" not in got.body
    assert ask(guarded, "/", method="HEAD").status == 401


def test_with_the_token_all_is(guarded: Server) -> None:
    assert ask(guarded, "/", Authorization="Bearer " + TOKEN).status == 200
    for wrong in ("", "?token=", "?token=" + TOKEN[:-1], "?token=" + TOKEN + "x", f"?token={TOKEN}&token=x"):
        got = ask(guarded, "/login" + wrong)
        assert got.status == 401
        assert "set-cookie" not in got.headers
    got = ask(guarded, "/login?token=" + TOKEN)
    assert (got.status, got.headers["location"]) == (303, "/")
    cookie, *flags = got.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} == set(flags)
    assert TOKEN not in cookie
    assert ask(guarded, "/run/run-0000/report.html", Cookie=f"theme=x; {cookie}").status == 200


def test_the_token_of_one_server_opens_no_other(guarded: Server, place: Path) -> None:
    cookie = ask(guarded, "/login?token=" + TOKEN).headers["set-cookie"].split("; ")[0].partition("=")[2]
    with served(place, TOKEN) as other:
        assert ask(other, "/", Cookie=f"{other.cookie}={cookie}").status == 401


@pytest.mark.parametrize(
    "request_bytes",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n",
     b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
     b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n",
     b"GET /?" + b"&".join(b"a=1" for _ in range(500)) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
     b"GET /?text=%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_breaks_nothing(server: Server, request_bytes: bytes) -> None:
    try:
        got = raw(server, request_bytes)
    except (ConnectionError, IndexError, ValueError):
        pass  # closed without a word
    else:
        assert 400 <= got.status < 500 or got.status == 505
    assert ask(server, "/").status == 200


def test_every_answer_says_what_it_is_for(server: Server, guarded: Server) -> None:
    answers = [ask(server, p) for p in ("/", "/nowhere", "/assets/page.js", "/run/run-0000/report.html")]
    answers += [
        ask(server, "/", method="POST"),
        ask(server, "/", host="x"),
        ask(guarded, "/"),
        ask(server, "/", method="X"),
    ]
    for got in answers:
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in got.headers["content-security-policy"]
        assert "python" not in got.headers["server"].lower()
        assert "access-control-allow-origin" not in got.headers


def test_runs_that_go_while_they_are_looked_at(place: Path, tmp_path: Path) -> None:
    copies(place / "run-0000", tmp_path / "runs", [1.0] * 2)
    with served(tmp_path / "runs") as server:
        assert ask(server, "/run/run-0001").status == 200
        shutil.rmtree(tmp_path / "runs/run-0001")
        assert ask(server, "/run/run-0001").status == 404
        assert ask(server, "/run/run-0001/report.html").status == 404
        shutil.rmtree(tmp_path / "runs")
        assert "cannot list" in ask(server, "/").text
