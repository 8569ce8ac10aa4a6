"""Make the pictures of the guides, from real runs on this host: scripts/pictures.py [NAME…], about a minute, as root.

Each is the top of the page that a guide's command writes, as a browser shows it. Machine and figures are those of the day.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CONTEND = ROOT / ".venv" / "bin" / "contend"
WIDTH, HEIGHT = 1100, 760
DRAWN_S = 30
SERVICE = """
import threading, time
from contend import trace

ledger = trace.Lock(name="ledger")

def job(number):
    with trace.job("order"), trace.span("POST /orders"):
        with trace.span("price"):
            end = time.thread_time() + 0.004
            while time.thread_time() < end: pass
        with ledger, trace.span("rpc call write", kind="remote"):
            time.sleep(0.02)

for _ in range(4):
    workers = [threading.Thread(target=job, args=(n,), name=f"worker {n}") for n in range(8)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""


def contend(*words: str, at: Path) -> None:
    """Run a command of contend; its output is the reader's."""
    print("contend", *words)
    subprocess.run([str(CONTEND), *words], cwd=at, check=True, stdout=subprocess.DEVNULL)


def watch(at: Path) -> Path:
    """Two programs on one CPU, of which the one waits for the other."""
    programs = {
        "backup.py": "while True: sum(range(1000))",
        "shop.py": "import time\nwhile True: sum(range(200000)); time.sleep(0.005)",
    }
    started = []
    try:
        for name, text in programs.items():
            (at / name).write_text(text, encoding="utf-8")
            started.append(subprocess.Popen(["taskset", "-c", "0", sys.executable, name], cwd=at))
        contend("watch", "--by", "process", "--for", "12s", "-o", "seen", at=at)
    finally:
        for process in started:
            process.kill()
            process.wait()
    contend("report", "seen", at=at)
    return at / "seen" / "report.html"


def sample(at: Path) -> Path:
    """A compressor, whose limit is one CPU."""
    (at / "data").write_bytes(os.urandom(60 << 20))
    contend("sample", "-i", "100ms", "-o", "recorded", "--", "gzip", "-9", "-k", "-f", "data", at=at)
    return at / "recorded" / "report.html"


def hunt(at: Path) -> Path:
    """A service that holds a lock across a remote call."""
    (at / "service.py").write_text(SERVICE, encoding="utf-8")
    contend("trace", "--sample", "-o", "slow", "--", sys.executable, "service.py", at=at)
    contend("hunt", "slow", at=at)
    return at / "slow" / "hunt.html"


MADE: dict[str, Callable[[Path], Path]] = {
    "watch": watch,
    "sample": sample,
    "hunt": hunt,
}


@contextmanager
def browser() -> Iterator[Page]:
    chromium = shutil.which("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--hide-scrollbars"]
        )
        try:
            yield started.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        finally:
            started.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MADE)}; all without one")
    names = parser.parse_args().names or list(MADE)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder, browser() as page:
        for name in names:
            path = MADE[name](Path(folder))
            page.goto(path.as_uri())
            page.wait_for_function(
                "[...document.querySelectorAll('.chart')].slice(0, 1).every(n => n.querySelector('svg'))",
                timeout=1000 * DRAWN_S,
            )
            page.screenshot(path=IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
