"""What `contend serve` takes over 1,000 runs: files that it opens and time, for the first page, the second, and a trend.

    python bench/serve_pages.py [--runs 1000]

The runs are copies of one small run, made up, a day apart. The first list has to read all of them; the second reads none.
Beside it, in the same run, the peer: `contend list runs` in a process of its own, which is what there was before.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from contend.serve.access import Access, Listen
from contend.serve.index import Filter, Index
from contend.serve.server import Server
from support.made_many import copies
from support.made_runs import Made

_opened: list[str] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        name = Path(os.fsdecode(arguments[0])).name
        if name.endswith((".json", ".ndjson", ".yaml")):
            _opened.append(name)


@contextmanager
def told(what: str) -> Iterator[None]:
    before, began = len(_opened), time.perf_counter()
    yield
    print(f"{what:<44} {time.perf_counter() - began:7.3f} s   {len(_opened) - before:6} files opened")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as home:
        made = Made(Path(home) / "base", 6, {"ffmpeg|stress-cpu": 2.0}, {})
        made.run.write_json("findings.json", made.analyse().to_json())
        made.run.close()
        place = Path(home) / "runs"
        copies(made.run.path, place, [1.0] * (count // 2) + [1.1] * (count - count // 2))
        size = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
        print(f"{count} runs, {size / 2**20:.0f} MiB")
        sys.addaudithook(_hook)
        server = Server(Listen("127.0.0.1", 0), Index(place), Access(True))
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def get(path: str) -> None:
            peer = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
            peer.request("GET", path)
            answer = peer.getresponse()
            answer.read()
            assert answer.status == 200, (path, answer.status)

        with told("the first page"):
            get("/")
        with told("the second page"):
            get("/?page=2")
        with told("a filter by text and metric"):
            get("/?text=suffers&metric=iops")
        entry = server.pages._index.page(Filter()).entries[0]
        asked = {"question": entry.question, "host": entry.host, "cell": "ffmpeg|none", "metric": "wall"}
        with told("the first trend, its chart's compiler started"):
            get("/trend?" + urlencode(asked))
        with told("the same of another cell"):
            get("/trend?" + urlencode(asked | {"cell": "fio|none", "metric": "iops"}))
        with told("two runs compared"):
            get(f"/compare?first=run-0000&second=run-{count - 1:04d}")
        server.shutdown()
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "contend", "list", "runs", "--runs", str(place)],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        print(f"{'contend list runs, a process of its own':<44} {time.perf_counter() - began:7.3f} s")


if __name__ == "__main__":
    main()
