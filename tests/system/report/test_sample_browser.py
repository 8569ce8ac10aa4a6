"""The page of a recording in a real Chromium: drawn, quiet, readable, and its brush chooses what everything shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.report.sample_page import render_sample
from contend.report.sample_plots import sample_plots
from contend.report.sample_series import read_sample
from contend.sample.summary import summarise
from support.browser import Opened, open_page, opened_page
from support.made_samples import made_sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser


LONG = 3 * 3600


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Half a minute and three hours, and how many charts each has."""
    directory = tmp_path_factory.mktemp("samples")
    written = {}
    for name, seconds in {"short": 30, "long": LONG}.items():
        run = made_sample(directory / name, seconds, stacks=name == "short")
        summary = summarise(run)
        path = directory / f"{name}.html"
        path.write_text(render_sample(run, summary, shown_as="runs/made"), encoding="utf-8")
        written[name] = path, len(sample_plots(read_sample(run.series), summary.cpus)) + (name == "short")
    return written


@pytest.fixture(scope="module")
def opened(
    request: pytest.FixtureRequest, browser: Browser, pages: dict[str, tuple[Path, int]]
) -> Iterator[Opened]:
    """One of them, opened once for all tests that do nothing to it but look."""
    with opened_page(browser, pages[request.param][0]) as page:
        yield page


@pytest.mark.parametrize(("opened", "name"), [("short", "short"), ("long", "long")], indirect=["opened"])
def test_every_chart_is_drawn_in_silence_and_without_a_request(
    opened: Opened, pages: dict[str, tuple[Path, int]], name: str
) -> None:
    path, charts = pages[name]
    assert charts >= 10
    drawn = opened.at().drawn(charts, 50)
    print(f"{name}: {charts} charts drawn by {drawn:.0f} ms, {path.stat().st_size} bytes")
    assert path.stat().st_size < 4_000_000


@pytest.mark.parametrize("width", [320, 390, 700])
@pytest.mark.parametrize("opened", ["long"], indirect=True)
def test_a_narrow_page_never_scrolls_sideways(opened: Opened, tmp_path: Path, width: int) -> None:
    opened.at(width=width).narrow(width)
    opened.picture(tmp_path / f"sample-{width}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", ["short"], indirect=True)
def test_every_text_can_be_read_in_light_and_dark(opened: Opened, tmp_path: Path, scheme: str) -> None:
    opened.at(scheme=scheme).readable()
    opened.picture(tmp_path / f"sample-{scheme}.png")


def test_a_brushed_range_is_what_every_chart_and_the_table_show(
    browser: Browser, pages: dict[str, tuple[Path, int]]
) -> None:
    """wait used its CPU in the first half only."""
    opened = open_page(browser, pages["short"][0])
    page = opened.page

    def labels() -> list[str]:
        return page.eval_on_selector_all(
            "#chart-timeline-cpu svg .role-axis-label text, #chart-timeline-latency svg .role-axis-label text",
            "nodes => nodes.map(n => n.textContent)",
        )

    def used(name: str) -> float:
        row = page.locator("#users-rows tr", has=page.locator("th", has_text=name))
        return float(row.locator("td").first.inner_text())

    whole = labels()
    assert used("wait") == pytest.approx(0.5)
    opened.brush(0.7, 0.9, 25)
    page.wait_for_function("document.querySelector('#users-range').textContent.includes(' s to ')")
    assert labels() != whole
    assert (used("wait"), used("burn")) == (0.0, pytest.approx(1.0))
    page.select_option("#window-block", label="0 – 2.5 s")
    page.wait_for_function("document.querySelector('#users-range').textContent.startsWith('0.0 s to 2.5')")
    assert used("wait") == pytest.approx(1.0)
    page.select_option("#window-block", label="the whole recording")
    page.wait_for_timeout(300)
    assert labels() == whole
    page.context.close()


def test_a_click_on_a_call_shows_it_as_wide_as_the_page(
    browser: Browser, pages: dict[str, tuple[Path, int]]
) -> None:
    """And one on what is as wide already goes back; the list does the same for a keyboard."""
    opened = open_page(browser, pages["short"][0])
    page, chart = opened.page, "#chart-stacks-off-cpu"

    def calls() -> set[str]:
        return set(page.locator(f"{chart} .mark-text text").all_text_contents())

    whole = calls()
    assert {"read<&>'\"", "wait", "__x64_sys_read", "futex_wait", "[unknown]"} <= whole
    assert "kthread" not in whole, "idle is not of the command"
    page.locator(f"{chart} text", has_text="__x64_sys_futex").first.click()
    page.wait_for_function(
        "document.querySelector('#chart-stacks-off-cpu').textContent.includes('read') === false"
    )
    assert {"wait", "futex_wait"} <= calls()
    assert "__x64_sys_read" not in calls()
    page.locator(f"{chart} text", has_text="__x64_sys_futex").first.click()
    page.wait_for_function("document.querySelector('#chart-stacks-off-cpu').textContent.includes('sys_read')")
    assert calls() == whole
    page.select_option("#stacks-program", label="wait")
    page.wait_for_function(
        "document.querySelector('#chart-stacks-off-cpu').textContent.includes('sys_read') === false"
    )
    assert "wait" in page.inner_text("#status")
    assert opened.messages == []
    page.context.close()


def test_a_name_is_text_whatever_it_holds(browser: Browser, pages: dict[str, tuple[Path, int]]) -> None:
    opened = open_page(browser, pages["short"][0])
    assert "read<&>'\"" in opened.page.inner_text("#users-rows")
    assert opened.messages == []
    opened.page.context.close()
