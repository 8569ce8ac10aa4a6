"""The page of a run on several hosts in a real Chromium: the table of hosts, light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.cli.common import load_report
from contend.report.html import render_html
from contend.report.plots import all_plots
from support.browser import open_page
from support.made_fleets import made_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module", params=[4, 6], ids=["each by itself", "one interval"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    directory = tmp_path_factory.mktemp("fleet")
    names = [
        "db1",
        "root@rack-17.storage.example.org",
        *(f"10.91.7.{n}" for n in range(3, request.param + 1)),
    ]
    ratios = {name: 1.5 + 0.05 * number for number, name in enumerate(names)}
    report = load_report(made_run(directory, ratios, lost=("10.91.7.3",), clocks=True))
    path = directory / "fleet.html"
    path.write_text(render_html(report), encoding="utf-8")
    return path, len(all_plots(report))


@pytest.mark.parametrize(("theme", "width"), [("light", 1200), ("dark", 1200), ("light", 400), ("dark", 400)])
def test_the_hosts_can_be_read(browser: Browser, page: tuple[Path, int], theme: str, width: int) -> None:
    path, charts = page
    opened = open_page(browser, path, viewport={"width": width, "height": 900}, color_scheme=theme)
    opened.drawn(charts, 60)
    section = opened.page.locator("section[aria-labelledby=fleet]")
    text = section.inner_text()
    assert "given up: lost for 120 s" in text and "12 of 24" in text and "ppm" in text
    assert "What each host is" in text and "6.1.0-44-cloud-amd64" in text
    whole = opened.page.inner_text("main")
    assert "This run holds no control" not in whole and "recorded no timelines" not in whole
    opened.readable()
    opened.narrow(width)
    opened.picture(path.parent / f"fleet-{theme}-{width}.png")
    opened.page.context.close()
