"""Results of the real tools, made here in moments: what they say is what is imported. And the page, in a real browser."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from contend.cli.common import write_report
from contend.imports.read import Import, read_files
from contend.imports.write import write_run
from contend.report.plots import all_plots
from support import foreign_files as made
from support.browser import open_page
from support.prerequisites import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def tool(name: str) -> str:
    path = shutil.which(name)
    need(path is not None, f"{name}: apt-get install {name}")
    assert path is not None
    return path


def call(*words: str, **options: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(found: Import, cell: str, metric: str) -> list[float]:
    return [
        r.value
        for p in found.placed
        if p.cell == cell and not p.run.error
        for r in p.run.readings
        if r.name == metric
    ]


def test_fio(tmp_path: Path) -> None:
    fio = tool("fio")
    files = []
    for number, form in enumerate(("json", "json+", "normal,json")):
        file = tmp_path / f"{number}.json"
        call(
            fio, "--name=mix", f"--filename={tmp_path}/data", "--size=1M", "--rw=randrw", "--bs=4k", "--ioengine=psync",
            "--time_based", "--runtime=300ms", f"--output-format={form}", f"--output={file}",
        )  # fmt: skip
        files.append(file)
    found = read_files(files)
    texts = [f.read_text(encoding="utf-8") for f in files]
    documents = [json.JSONDecoder().raw_decode(text, text.index("{\n"))[0] for text in texts]
    for way in ("read", "write"):
        told = [d["jobs"][0][way] for d in documents]
        assert values(found, "mix", f"{way}_iops") == [t["iops"] for t in told]
        p99 = [t["clat_ns"]["percentile"]["99.000000"] / 1e9 for t in told]
        assert values(found, "mix", f"{way}_clat_p99") == pytest.approx(p99)
    assert len(found.cells) == 1, "the three asked for the same"
    assert found.versions == (documents[0]["fio version"],)
    for placed in found.placed:
        assert placed.run.began_s is not None
        assert abs(time.time() - placed.run.began_s) < 600


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_iperf3(protocol: str, tmp_path: Path) -> None:
    iperf3 = tool("iperf3")
    files = []
    for number in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        with subprocess.Popen(
            [iperf3, "-s", "-1", "--forceflush", "-p", port], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                while "listening" not in server.stdout.readline():
                    assert server.poll() is None
                udp = ("-u", "-b", "50M") if protocol == "UDP" else ()
                file = tmp_path / f"{number}.json"
                text = call(iperf3, "-c", "127.0.0.1", "-p", port, "-t", "1", "--json", *udp)
                file.write_text(text, encoding="utf-8")
                files.append(file)
            finally:
                server.kill()
    found = read_files(files)
    ends = [json.loads(f.read_text())["end"] for f in files]
    expected = [e["sum_received"]["bits_per_second"] for e in ends]
    if protocol == "TCP":
        assert values(found, "TCP", "retransmits") == [e["sum_sent"]["retransmits"] for e in ends]
    else:
        assert values(found, "UDP", "lost_percent") == [e["sum"]["lost_percent"] for e in ends]
        # Sent at 50 Mbit/s, whatever of it a busy host received.
        assert all(1e6 < bits < 60e6 for bits in expected)
    assert values(found, protocol, "throughput") == expected
    assert len(found.cells) == 1


def test_hyperfine(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    call(tool("hyperfine"), "-N", "-i", "-r", "6", "--export-json", str(file), "true", "sleep 0.01", "false")
    found = read_files([file])
    results = json.loads(file.read_text())["results"]
    for result in results[:2]:
        assert values(found, result["command"], "wall") == result["times"]
    assert values(found, "false", "wall") == []
    assert sum("exit status 1" in p.run.error for p in found.placed) == 6


def test_sysbench(tmp_path: Path) -> None:
    sysbench = tool("sysbench")
    tests: dict[str, tuple[str, ...]] = {
        "cpu": ("cpu",),
        "memory": ("memory", "--memory-total-size=64M"),
        "threads": ("threads",),
        "fileio": ("fileio", "--file-total-size=2M", "--file-num=2", "--file-test-mode=rndrw"),
    }
    call(sysbench, *tests["fileio"], "prepare", cwd=tmp_path)
    for label, words in tests.items():
        text = call(sysbench, *words, "--time=1", "--report-interval=1", "run", cwd=tmp_path)
        file = tmp_path / label
        file.write_text(text, encoding="utf-8")
        (placed,) = read_files([file]).placed
        run = placed.run
        assert run.label == label
        told = {r.name: r.value for r in run.readings}
        events = re.search(r"total number of events: +(\d+)", text)
        average = re.search(r"avg: +([\d.]+)", text)
        assert events is not None
        assert average is not None
        assert run.samples == int(events[1])
        assert told["latency_avg"] == pytest.approx(float(average[1]) / 1000)
        assert run.settings["Number of threads"] == "1"
        if label == "cpu":
            assert told["events"] == float(re.findall(r"events per second: +([\d.]+)", text)[0])
        elif label == "memory":
            assert told["bandwidth"] == float(re.findall(r"\(([\d.]+) MiB/sec\)", text)[0])
        elif label == "fileio":
            assert told["reads"] == float(re.findall(r"reads/s: +([\d.]+)", text)[0])
    text = call(sysbench, "cpu", "--time=1", "--rate=50", "run")
    file = tmp_path / "rate"
    file.write_text(text, encoding="utf-8")
    (placed,) = read_files([file]).placed
    assert {r.loop for r in placed.run.readings if r.name.startswith("latency")} == {"open"}


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[list[str], Path]]:
    """A server of this module's own on a socket, and the words to call a client as its user."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    need(binaries, "postgresql: apt-get install postgresql")
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    asuser = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="contend-pg-") as name:
        place = Path(name)
        if asuser:
            shutil.chown(place, user)
        here = {"cwd": place}
        data, server = str(place / "data"), [*asuser, str(binaries[-1] / "pg_ctl"), "-D", str(place / "data")]
        call(*asuser, str(binaries[-1] / "initdb"), "-D", data, "-A", "trust", "-N", **here)
        settings = f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
        call(*server, "-w", "-o", settings, "-l", f"{place}/log", "start", **here)
        try:
            yield [*asuser, str(binaries[-1] / "pgbench"), "-h", str(place)], place
        finally:
            call(*server, "-w", "-m", "immediate", "stop", **here)


def test_pgbench(database: tuple[Sequence[str], Path], tmp_path: Path) -> None:
    words, place = database
    call(*words, "-q", "-i", "-s", "1", "postgres", cwd=place)
    cases: dict[str, tuple[str, ...]] = {
        "plain": (), "progress": ("-P", "1", "-r"), "rate": ("-R", "50"), "select": ("-S", "-C"),
    }  # fmt: skip
    for name, options in cases.items():
        done = subprocess.run(
            [*words, "-T", "1", *options, "postgres"], cwd=place, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        text = done.stderr + done.stdout  # progress goes to the one, results to the other
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        (placed,) = (found := read_files([file])).placed
        told = {r.name: r.value for r in placed.run.readings}
        assert told["tps"] == float(re.findall(r"^tps = ([\d.]+)", text, re.M)[-1])
        assert told["latency_avg"] == pytest.approx(
            float(re.findall(r"latency average = ([\d.]+)", text)[0]) / 1000
        )
        assert found.versions, text
        loop = {r.loop for r in placed.run.readings if r.name == "latency_avg"}
        assert loop == ({"open"} if name == "rate" else {"closed"})
        if name == "progress":
            assert any(metric.startswith("UPDATE pgbench_accounts") for metric in told)
        if name == "rate":
            assert "schedule_lag_avg" in told


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Imported runs as pages, each with its number of charts: with a ratio, and with a refusal."""
    place = tmp_path_factory.mktemp("imported")
    contents: dict[str, list[Any]] = {
        "turns": [
            made.fio(iops + n, at=made.NOON + 60 * (2 * n + turn), bs=size)
            for n in range(8)
            for turn, (size, iops) in enumerate((("4k", 86_000.0), ("8k", 61_000.0)))
        ],
        "refused": [
            made.hyperfine(
                {c: [t + n / 100 for n in range(8)] for c, t in (("gzip -6", 1.0), ("gzip -9", 1.4))}
            )
        ],
    }
    written = {}
    for name, files in contents.items():
        paths = [made.write(place / name / f"file-{n:02d}", content) for n, content in enumerate(files)]
        run = write_run(read_files(paths), place / "runs", name)
        written[name] = run.path / "report.html", len(all_plots(write_report(run)))
    return written


@pytest.mark.parametrize("name", ["turns", "refused"])
def test_the_page_is_drawn_and_can_be_read(
    browser: Browser, pages: dict[str, tuple[Path, int]], tmp_path: Path, name: str
) -> None:
    path, charts = pages[name]
    assert charts
    opened = open_page(browser, path)
    opened.drawn(charts, 60)
    opened.readable()
    assert opened.page.locator("#levels").is_visible()
    assert opened.page.locator("p.alarm").count() == (1 if name == "refused" else 0)
    assert opened.page.locator("#matrix").count() == (0 if name == "refused" else 1)
    opened.page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
    opened.page.context.close()
    narrow = open_page(browser, path, viewport={"width": 390, "height": 844})
    narrow.narrow(390)
    narrow.page.screenshot(path=tmp_path / f"{name}-390.png", full_page=True)
    narrow.page.context.close()
