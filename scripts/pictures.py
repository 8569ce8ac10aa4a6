"""Make the pictures of the guides, from real runs on this host: scripts/pictures.py [NAME…], about six minutes, as root.

Each is the top of the page that a guide's command writes, as a browser shows it. Machine and figures are those of the day.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CONTEND = ROOT / ".venv" / "bin" / "contend"
WIDTH, HEIGHT = 1100, 760
DRAWN_S, FLEET_S = 30, 400
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
LEDGER = """
import sys, threading, time
from contend import trace

ledger = trace.Lock(name="ledger")

def job(number):
    with trace.job("order"), trace.span("POST /orders"):
        with ledger, trace.span("write"):
            time.sleep(float(sys.argv[1]))

workers = [threading.Thread(target=job, args=(n,), name=f"worker {n}") for n in range(24)]
for worker in workers: worker.start()
for worker in workers: worker.join()
"""
BUSY = {
    "backup.py": "while True: sum(range(1000))",
    "shop.py": "import time\nwhile True: sum(range(200000)); time.sleep(0.005)",
}
STORMS = 6
RUNS = 6
HOSTS = 5
PART = {"fleet": "#fleet"}
"""What a picture is of, where that is not the top of the page."""
AT_THE_END = ExitStack()


def contend(*words: str, at: Path) -> None:
    """Run a command of contend; its output is the reader's."""
    print("contend", *words)
    subprocess.run([str(CONTEND), *words], cwd=at, check=True, stdout=subprocess.DEVNULL)


def watch(at: Path) -> Path:
    """Two programs on one CPU, of which the one waits for the other."""
    with busy(at):
        contend("watch", "--by", "process", "--for", "12s", "-o", "seen", at=at)
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


def whatif(at: Path) -> Path:
    """A lock that is held for half as long, predicted, then changed and measured."""
    (at / "ledger.py").write_text(LEDGER, encoding="utf-8")
    for name, held_s in (("storm", "0.02"), ("after", "0.01")):
        for number in range(STORMS):
            contend("trace", "-o", f"{name}-{number}", "--", sys.executable, "ledger.py", held_s, at=at)
    storms = [f"storm-{number}" for number in range(STORMS)]
    page = ("-o", "predicted.json", "--page", "whatif.html")
    contend("whatif", *storms, "--hold", "ledger=0.5", *page, at=at)
    after = [word for number in range(2) for word in ("--verify", f"after-{number}")]
    subprocess.run([str(CONTEND), "whatif", "predicted.json", *after], cwd=at, check=False)
    return at / "whatif.html"


def prove(at: Path) -> Path:
    """Who has the CPU that a program waits for, held back for moments."""
    with busy(at):
        words = ("shop.py", "--against", "backup.py", "--consent", "--for", "90s")
        contend("prove", *words, "--runs", "proved", at=at)
    return next((at / "proved").iterdir()) / "report.html"


def fleet(at: Path) -> Path:
    """One scenario on five hosts: network namespaces of this one, by SSH, so what is compared needs no CPU."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.fleet_lab import lab

    with lab(at / "lab", HOSTS) as hosts:
        variants = [
            {"name": f"{batch} at a time", "command": f"sleep {wait}"}
            for batch, wait in ((8, 0.05), (16, 0.06))
        ]
        measure = {"blocks": 10, "target": None}
        scenario = {"study": "compare", "title": "Larger batches on five hosts", "variants": variants}
        (hosts.path / "batches.yaml").write_text(json.dumps(scenario | {"measure": measure}))
        words = ("--hosts", ",".join(hosts.hosts))
        said = hosts(*hosts.run_words("batches.yaml", *words), timeout=FLEET_S)
        print(said.out, said.err)
        return hosts.the_run() / "report.html"


def serve(at: Path) -> str:
    """Some runs of one comparison, and their trend."""
    for _ in range(RUNS):
        contend("ab", "-q", "-n", "10", "gzip -1 -k -c /bin/bash", "gzip -4 -k -c /bin/bash", at=at)
    command = [str(CONTEND), "serve", "runs", "--listen", "127.0.0.1:0", "--json"]
    served = AT_THE_END.enter_context(subprocess.Popen(command, cwd=at, stdout=subprocess.PIPE, text=True))
    AT_THE_END.callback(served.terminate)
    assert served.stdout is not None
    return str(json.loads(served.stdout.readline())["data"]["url"])


MADE: dict[str, Callable[[Path], Path | str]] = {
    "watch": watch,
    "sample": sample,
    "hunt": hunt,
    "whatif": whatif,
    "prove": prove,
    "fleet": fleet,
    "serve": serve,
}


@contextmanager
def busy(at: Path) -> Iterator[None]:
    """Programs on one CPU."""
    started = []
    try:
        for name, text in BUSY.items():
            (at / name).write_text(text, encoding="utf-8")
            started.append(subprocess.Popen(["taskset", "-c", "0", sys.executable, name], cwd=at))
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


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
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder, AT_THE_END, browser() as page:
        for name in names:
            made = MADE[name](Path(folder))
            page.goto(f"{made.as_uri()}{PART.get(name, '')}" if isinstance(made, Path) else made)
            page.wait_for_load_state("networkidle")
            page.wait_for_function(
                "[...document.querySelectorAll('.chart')].slice(0, 1).every(n => n.querySelector('svg'))",
                timeout=1000 * DRAWN_S,
            )
            page.screenshot(path=IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
