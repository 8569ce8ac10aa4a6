"""The page of a hunt in a real Chromium: drawn, quiet, readable, bounded, whatever a program calls its locks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.contention.hunt import Batch, hunt
from contend.report.hunt_page import write_page
from support.browser import open_page
from support.made_hunts import HOSTILE, storm

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    batches = [
        Batch(tables.source, (tables,), tables, None, "not recorded")
        for tables in (storm(), storm(0.3, "after"))
    ]
    made, why = write_page(hunt(batches[0], batches[1:]), tmp_path_factory.mktemp("hunt"))
    assert made is not None, why
    return made


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 390)])
def test_the_page_is_whole_and_can_be_read(
    browser: Browser, page: Path, tmp_path: Path, scheme: str, width: int
) -> None:
    opened = open_page(browser, page, color_scheme=scheme, viewport={"width": width, "height": 844})
    opened.drawn(3, 40)
    opened.narrow(width)
    opened.readable()
    seen = opened.page.inner_text("main")
    assert HOSTILE in seen and opened.page.locator("#main b").count() == 0
    assert opened.page.locator("svg.waits:visible").count() == 1
    waits = opened.page.locator("svg.waits:visible")
    assert waits.evaluate("n => n.getBoundingClientRect().width") <= width
    assert waits.locator("path").count() >= 6 and "compute_" in (waits.text_content() or "")
    assert opened.page.locator(".blame td.part").count() == 4
    opened.picture(tmp_path / f"hunt-{scheme}.png")
    opened.page.context.close()
