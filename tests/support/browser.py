"""A page of ours in a real Chromium, offline, and what every such page keeps to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"

# Contrast of every visible text against the first opaque background below it (WCAG 2.1, 1.4.3).
CONTRAST = """() => {
  const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const below = (node) => {
    for (; node; node = node.parentElement) {
      const colour = channels(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("script, style, .visually-hidden, noscript")) continue;
    if (!node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const svg = node.closest("svg");
    const ink = channels(svg ? style.fill : style.color);
    const paper = below(svg ? svg.parentElement : node);
    if (svg && String(ink.slice(0, 3)) === String(paper.slice(0, 3))) continue;  // the halo behind a label
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), node.textContent.trim().slice(0, 40), style.color]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""

# Charts are drawn again for another width in a task after the event, and shown with a frame after that.
FOLLOWED = """() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 50))"""


@dataclass
class Opened:
    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def drawn(self, charts: int, least_height: int) -> float:
        """Every chart is there, nothing was said or asked of anybody; when the last was drawn, ms."""
        sizes = self.page.eval_on_selector_all(
            ".chart",
            """nodes => nodes.map(n => { const svg = n.querySelector("svg"); const box = svg.getBoundingClientRect();
               return [n.id, box.width, box.height, svg.querySelectorAll("path, rect, line, text").length]; })""",
        )
        assert len(sizes) == charts
        assert [s for s in sizes if s[1] < 200 or s[2] < least_height or s[3] < 8] == []
        assert self.messages == []
        assert self.requests == [self.page.url]
        return float(self.page.evaluate("performance.getEntriesByName('charts-drawn')[0].startTime"))

    def at(self, *, width: int = 1200, scheme: str = "light") -> Opened:
        """The same page in a window of that width and with those colours of the system: what follows them has followed."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.page.evaluate(FOLLOWED)
        return self

    def picture(self, path: Path) -> None:
        """The whole page, for a person to look at, where CONTEND_SCREENSHOTS is set."""
        if os.environ.get("CONTEND_SCREENSHOTS"):
            self.page.screenshot(path=path, full_page=True)

    def unfold(self) -> None:
        """Open all tables."""
        self.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")

    def readable(self) -> None:
        """Every text has the contrast of WCAG 2.1, 1.4.3, in unfolded tables too."""
        self.unfold()
        found = self.page.evaluate(CONTRAST)
        assert len(found) > 20
        assert [f for f in found if f[0] < 4.5] == []

    def narrow(self, width: int) -> None:
        """Nothing is wider than the window."""
        self.unfold()
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width
        too_wide = self.page.eval_on_selector_all(
            ".chart svg, .matrix td, .card, .command",
            "(nodes, width) => nodes.filter(n => n.getBoundingClientRect().right > width + 1 && !n.closest('.scroll'))"
            ".map(n => n.outerHTML.slice(0, 80))",
            width,
        )
        assert too_wide == []
        assert self.cut() == []

    def cut(self) -> list[str]:
        """Texts of charts that reach beyond their chart."""
        texts: list[str] = self.page.eval_on_selector_all(
            ".chart svg text",
            """nodes => nodes.filter(n => n.textContent.trim() && getComputedStyle(n).opacity !== "0")
            .filter(n => {
              const own = n.getBoundingClientRect(), all = n.ownerSVGElement.getBoundingClientRect();
              return own.width && (own.left < all.left - 2 || own.right > all.right + 2
                || own.top < all.top - 2 || own.bottom > all.bottom + 2);
            }).map(n => n.textContent)""",
        )
        return texts

    def brush(self, start: float, end: float, down: int) -> None:
        """Drag across the strip, `start` and `end` as parts of its width, `down` pixels below its top."""
        page = self.page
        page.locator("#chart-strip").scroll_into_view_if_needed()
        box = page.locator("#chart-strip svg").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * start, box["y"] + down)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, box["y"] + down + 2, steps=5)
        page.mouse.up()


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@contextmanager
def opened_page(browser: Browser, path: Path, **options: Any) -> Iterator[Opened]:
    opened = open_page(browser, path, **options)
    try:
        yield opened
    finally:
        opened.page.context.close()


def open_page(browser: Browser, path: Path, **options: Any) -> Opened:
    context = browser.new_context(offline=True, **{"viewport": {"width": 1200, "height": 900}, **options})
    opened = Opened(context.new_page())
    opened.page.on("console", lambda message: opened.messages.append(message.text))
    opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.page.on("dialog", lambda dialog: (opened.messages.append("dialog"), dialog.dismiss()))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.goto(path.as_uri())
    opened.page.wait_for_selector("html[data-drawn]", timeout=20_000)
    return opened
