"""`contend serve` in a real Chromium: list, filter, open a report, compare two, see a trend; wide, narrow, light, dark.

Screenshots go to the test's directory (`--basetemp` keeps them) for a person to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from contend.serve.changes import available
from support.asking import served
from support.browser import CONTRAST, Opened
from support.command_line import Home
from support.made_many import copies
from support.prerequisites import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from contend.serve.server import Server


STEP = 13  # the first run at the new level
PAGES = {
    "list": "/",
    "run": "/run/step-0023",
    "compare": "/compare?first=step-0000&second=step-0023",
    "trends": "/trend",
    "message": "/nowhere",
}


@pytest.fixture(scope="module")
def server(shared_run: tuple[Home, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Copies of a real run, its report among them: 24 with a step, 24 of another host without, one torn, one foreign."""
    need(available(), "Apache Otava: scripts/setup.sh installs it")
    _, base = shared_run
    place = tmp_path_factory.mktemp("served") / "runs"
    kernels = {0: {"kernel": "6.1"}, STEP: {"kernel": "6.2"}}
    copies(base, place, [1.0] * STEP + [1.2] * 11, environments=kernels, name="step")
    copies(base, place, [1.0] * 24, environments={0: {"cpu": "Another CPU"}}, name="flat", seed=4)
    (place / "holidays").mkdir()
    torn = copies(base, place, [1.0], name="torn")[0]
    (torn / "plan.json").write_text('{"schema_version": 1, "ce')
    with served(place) as started:
        yield started


@contextmanager
def browsing(browser: Browser, server: Server, path: str, **options: object) -> Iterator[Opened]:
    """A page of it. Afterwards: nothing was asked of another host, and nothing was complained of."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})  # type: ignore[arg-type]
    opened = Opened(context.new_page())
    opened.page.on("console", lambda message: opened.messages.append(message.text))
    opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    answer = opened.page.goto(server.url + path)
    assert answer is not None
    try:
        yield opened
        expected = [m for m in opened.messages if not ("404" in m and path == PAGES["message"])]
        assert expected == []
        hosts = {urlsplit(url).netloc for url in opened.requests if not url.startswith("data:")}
        assert hosts == {urlsplit(server.url).netloc}
    finally:
        context.close()


def drawn(opened: Opened) -> None:
    opened.page.wait_for_selector("html[data-drawn]", timeout=20_000)


def to_trend(opened: Opened, run: str) -> None:
    opened.page.goto(f"{opened.page.url.split('/run')[0].rstrip('/')}/run/{run}")
    opened.page.locator("#trends ~ .scroll tbody tr").first.get_by_role("link", name="wall").click()
    drawn(opened)


def test_list_filter_and_open_a_report(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/") as opened:
        page = opened.page
        assert page.locator("h1").inner_text() == "50 directories of runs"
        assert page.locator("tbody tr").count() == 50
        assert "cannot be read" in page.locator("tr", has_text="torn-0000").inner_text()
        page.fill("[name=text]", "step-00")
        page.fill("[name=since]", "2026-01-05")
        page.click("text=Show")
        assert page.locator("#count").inner_text() == "20 of 50 match."
        page.locator("tbody tr", has_text="step-0007").locator("a.title").click()
        drawn(opened)
        assert page.url.endswith("/run/step-0007/report.html")
        assert page.locator(".chart svg").count() >= 3, "the report draws its charts under our policy"
        assert page.locator("#theme").is_visible()
        page.click("#theme")
        assert page.inner_text("#theme") == "Colours: light"
        assert page.evaluate("window.origin") == "null", (
            "it is of no origin: it reads nothing else of this server"
        )


@pytest.mark.parametrize("width", [900, 1000, 1400])
def test_a_run_has_one_line(browser: Browser, server: Server, width: int) -> None:
    with browsing(browser, server, "/", viewport={"width": width, "height": 900}) as opened:
        rows = opened.page.locator("tbody tr:not(.off)")
        assert rows.count() == 48
        assert opened.page.locator("tbody td.host").first.is_visible(), "there are two hosts here"
        heights = rows.evaluate_all("rows => rows.map(row => row.getBoundingClientRect().height)")
        assert max(heights) < 50
        opened.narrow(width)


def test_a_report_reaches_nothing(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/run/step-0007/report.html") as opened:
        drawn(opened)
        for attempt in ("fetch('/')", "fetch('http://192.0.2.1/')"):
            assert opened.page.evaluate(f"{attempt}.then(() => 'read', () => 'refused')") == "refused"
        assert (
            opened.page.evaluate("(() => { try { return document.cookie } catch { return 'refused' } })()")
            == "refused"
        )
        assert opened.messages != []
        assert all("Content Security Policy" in m or "connect-src" in m for m in opened.messages), (
            opened.messages
        )
        opened.messages.clear()
        opened.requests[:] = [url for url in opened.requests if "192.0.2.1" not in url]


def test_compare_two(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/?text=step") as opened:
        page = opened.page
        page.check("[value=step-0000]")
        page.check("[value=step-0023]")
        page.click("text=Compare the two chosen")
        assert page.url.endswith("/compare?first=step-0000&second=step-0023")
        assert page.locator("tbody tr").count() >= 2
        assert "unchanged run" in page.locator("main").inner_text()
        page.click("text=The other way round")
        assert page.url.endswith("/compare?first=step-0023&second=step-0000")


def test_a_planted_change_is_seen_at_its_run(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/") as opened:
        to_trend(opened, "step-0023")
        page = opened.page
        assert "the level of the runs changed once" in page.locator(".answer").inner_text()
        assert f"From run {STEP + 1} on, step-00{STEP}" in page.locator("#change-1 h3").inner_text()
        assert "kernel 6.1 → 6.2" in page.locator("#change-1").inner_text()
        points = page.locator(".chart svg .mark-symbol path")
        assert points.count() == 24
        points.first.click()
        page.wait_for_url("**/run/step-0000")
        page.go_back()
        page.locator("#change-1").get_by_role("link", name="Compare the last run before").click()
        assert page.url.endswith(f"first=step-00{STEP - 1}&second=step-00{STEP}")


def test_a_flat_series_has_no_change(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/") as opened:
        to_trend(opened, "flat-0023")
        assert "no change of their level was found" in opened.page.locator(".answer").inner_text()
        assert opened.page.locator(".card").count() == 0


def test_all_but_charts_works_without_javascript(browser: Browser, server: Server) -> None:
    with browsing(browser, server, "/", java_script_enabled=False) as opened:
        page = opened.page
        page.fill("[name=text]", "step-0001")
        page.click("text=Show")
        page.locator("tbody tr").locator("a.line").click()
        page.locator("#trends ~ .scroll tbody tr").first.get_by_role("link", name="wall").click()
        assert page.locator("#each ~ table tbody tr").count() == 24
        assert page.locator("noscript").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1200, "light")])
def test_it_can_be_read(browser: Browser, server: Server, tmp_path: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 844}
    for name, path in {**PAGES, "trend": "/"}.items():
        with browsing(browser, server, path, viewport=size, color_scheme=scheme) as opened:
            if name == "trend":
                to_trend(opened, "step-0023")
            found = opened.page.evaluate(CONTRAST)
            assert found
            assert [f for f in found if f[0] < 4.5] == [], name
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, name
            opened.picture(tmp_path / f"{name}-{width}-{scheme}.png")


def test_the_token_is_taken_once(browser: Browser, server: Server) -> None:
    place = Path(server.pages.folder)
    with served(place, "0123456789abcdefghij") as guarded:
        context = browser.new_context()
        page = context.new_page()
        refused = page.goto(guarded.url)
        assert refused is not None
        assert refused.status == 401
        page.goto(f"{guarded.url}/login?token=0123456789abcdefghij")
        assert page.url == f"{guarded.url}/"
        assert page.locator("tbody tr").count() == 50
        assert page.evaluate("document.cookie") == "", "no script sees it"
        page.locator("tbody tr a.title").nth(0).click()
        assert "report.html" in page.url or "/run/" in page.url
        context.close()
