"""The page of a trace in a real Chromium: drawn, quiet, readable, bounded, and its brush chooses what is shown."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from contend.report.trace_page import write_page
from support import ctrace_files as c
from support.browser import Opened, open_page, opened_page
from support.ctrace_files import Made, event

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HOSTILE = "</script><b>query</b> & 'more'"
MS = 1_000_000


def service(threads: int, rounds: int) -> Made:
    """Threads that share a lock, call out again and again, and have names that are hard to bear."""
    rng = random.Random(threads)
    made = Made(4242)
    made.track(900, c.PROCESS, "nova-compute")
    made.lock(1, c.LOCK, "ResourceTracker.lock", "nova/compute/resource_tracker.py:91")
    made.lock(2, c.QUEUE, "inbox")
    names = {
        name: made.string(name) for name in (HOSTILE, "nova.compute.manager:ComputeManager.build", "claim")
    }
    build, claim, query = names["nova.compute.manager:ComputeManager.build"], names["claim"], names[HOSTILE]
    kind, remote = made.string("kind"), made.string("remote")
    for ring in range(1, threads + 1):
        made.track(ring, c.THREAD, f"Thread-{ring} (worker)", parent=900, tid=4242 + ring)
        events, now = [], rng.randrange(50 * MS)
        for _ in range(rounds):
            events.append(event(now, c.BEGIN, build))
            for _ in range(6):
                events += [event(now + MS, c.BEGIN, query), event(0, c.ARG, kind, remote)]
                now += rng.randrange(2 * MS, 6 * MS)
                events.append(event(now, c.END, query))
            events += [event(now, c.BEGIN, claim), event(now, c.LOCK_WAIT, 1, rng.randrange(threads) + 1)]
            now += rng.randrange(20 * MS)
            events.append(event(now, c.LOCK_ACQUIRED, 1, 1))
            now += rng.randrange(5 * MS)
            events += [event(now, c.LOCK_RELEASED, 1), event(now, c.END, claim), event(now, c.END, build, 1)]
            now += rng.randrange(30 * MS)
        made.events(ring, events)
    made.dropped(1, 1234, 5, 6)
    return made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A few threads, and many more than there are lines; one that recorded nothing."""
    found = {}
    made = {"few": service(5, 30), "many": service(200, 60), "empty": Made(1)}
    for name, file in made.items():
        directory = c.save_all(tmp_path_factory.mktemp("traces") / name, [file])
        _, page, why = write_page(directory)
        assert page is not None, why
        found[name] = page
    return found


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Path]) -> Iterator[Opened]:
    """One of them, opened once for all tests that do nothing to it but look."""
    with opened_page(browser, pages[request.param]) as page:
        yield page


@pytest.mark.parametrize(
    ("opened", "name", "charts"),
    [("few", "few", 2), ("many", "many", 2), ("empty", "empty", 0)],
    indirect=["opened"],
)
def test_every_chart_is_drawn_in_silence_and_without_a_request(
    opened: Opened, pages: dict[str, Path], name: str, charts: int
) -> None:
    opened.at().drawn(charts, 50)
    assert pages[name].stat().st_size < 2_000_000
    if charts:
        words = opened.page.inner_text("main")
        assert HOSTILE in words
        assert "1,234 events were not recorded" in words
        assert "ResourceTracker.lock" in words
        assert opened.page.locator("#main b").count() == 0
    else:
        assert "nothing to draw" in opened.page.inner_text("main")


@pytest.mark.parametrize("width", [320, 390, 700])
@pytest.mark.parametrize("opened", ["many"], indirect=True)
def test_a_narrow_page_never_scrolls_sideways(opened: Opened, tmp_path: Path, width: int) -> None:
    opened.at(width=width).narrow(width)
    opened.picture(tmp_path / f"trace-{width}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", ["few"], indirect=True)
def test_every_text_can_be_read_in_light_and_dark(opened: Opened, tmp_path: Path, scheme: str) -> None:
    opened.at(scheme=scheme).readable()
    opened.picture(tmp_path / f"trace-{scheme}.png")


def test_a_brushed_range_is_what_the_tracks_show(browser: Browser, pages: dict[str, Path]) -> None:
    opened = open_page(browser, pages["few"])
    page = opened.page

    def labels() -> list[str]:
        return page.eval_on_selector_all(
            "#chart-timeline-tracks svg .role-axis-label text", "nodes => nodes.map(n => n.textContent)"
        )

    whole = labels()
    opened.brush(0.5, 0.6, 25)
    page.wait_for_function(
        "before => [...document.querySelectorAll('#chart-timeline-tracks svg .role-axis-label text')]"
        ".map(n => n.textContent).join() !== before",
        arg=",".join(whole),
    )
    page.select_option("#window-block", index=0)
    page.wait_for_timeout(300)
    assert labels() == whole
    assert opened.messages == []
    page.context.close()
