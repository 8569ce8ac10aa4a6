"""A forecast's page in a real Chromium: every curve is drawn, in silence, light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.cli.common import load_report
from contend.report.html import render_html
from contend.report.plots import all_plots
from support.browser import CONTRAST, open_page
from support.made_forecast import forecast_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    directory = tmp_path_factory.mktemp("forecast")
    run, _ = forecast_run(directory)
    report = load_report(run)
    path = directory / "forecast.html"
    path.write_text(render_html(report), encoding="utf-8")
    return path, len(all_plots(report))


@pytest.mark.parametrize(("theme", "width"), [("light", 1100), ("dark", 1100), ("light", 390)])
def test_the_forecast_is_drawn_and_can_be_read(
    browser: Browser, page: tuple[Path, int], theme: str, width: int
) -> None:
    path, charts = page
    opened = open_page(browser, path, viewport={"width": width, "height": 900}, color_scheme=theme)
    opened.drawn(charts, 60)
    text = opened.page.inner_text("body")
    assert "Every pair: predicted against measured" in text
    assert "row + column effect" in text
    for name in ("ffmpeg", "redis"):
        assert f"{name}: slowed by each injector" in text
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    worst = opened.page.evaluate(CONTRAST)[0]
    assert worst[0] >= 4.5, worst
    opened.picture(path.parent / f"forecast-{theme}-{width}.png")
    opened.page.context.close()
