"""contend installed from its wheels, in an environment of its own and an empty directory: every verb that needs no cloud."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.installed import Installed, built

pytestmark = [pytest.mark.slow, pytest.mark.one_of("cargo")]

PROGRAM = """
import threading, time
lock = threading.Lock()
def job():
    with lock:
        time.sleep(0.01)
for round in range(3):
    threads = [threading.Thread(target=job) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("wheels")
    wheels = built(place / "dist", "contend", "contend-probe")
    return Installed(place / "home", wheels, ["contend"])


def test_nothing_of_the_checkout_is_in_it(installed: Installed) -> None:
    said = installed.run(
        "-c", "import contend, sys; print(contend.__file__); print(sys.path)", program="python"
    )
    assert str(installed.bin.parent) in said.out and "/python/contend" not in said.out, said
    assert installed.run("--version").fine().out.startswith("contend, version ")


def test_it_has_the_probe_and_no_more_than_it_says(installed: Installed) -> None:
    """What a base install takes: docs/adr/0038."""
    there = {path.name.split("-")[0] for path in installed.bin.parent.glob("lib/*/site-packages/*.dist-info")}
    assert {"contend", "contend_probe", "numpy", "duckdb"} <= there
    assert not there & {"vl_convert_python", "scipy", "pyarrow"}
    assert installed.megabytes < 185


def test_two_commands(installed: Installed) -> None:
    said = installed.run(
        "ab", "--blocks", "3", "--target", "none", "--", "true", "--vs", "sh", "-c", ":"
    ).fine()
    assert "report.html" in said.out + said.err


def test_a_run_its_page_and_its_end(installed: Installed) -> None:
    installed.run("run", installed.scenario(blocks=3), timeout=180).fine()
    run = max(installed.runs.iterdir(), key=os.path.getmtime)
    page = run / "report.html"
    assert "vegaEmbed" in page.read_text(encoding="utf-8")
    page.unlink()
    installed.run("report", str(run)).fine()
    assert page.exists()
    installed.run("sql", str(run), "select count(*) as n from trials").fine()
    refused = installed.run("export", str(run), "--to", "svg")
    refused.error(1, "contend[plots]")
    installed.run("destroy", "--all").fine()


def test_a_host_is_sampled_and_watched(installed: Installed) -> None:
    said = installed.run("sample", "--for", "2s", "-o", "seen").fine()
    assert (installed.path / "seen").exists(), said
    if os.geteuid() == 0:
        installed.run("watch", "--for", "2s").no_traceback()


def test_a_program_is_traced_and_hunted(installed: Installed) -> None:
    (installed.path / "mine.py").write_text(PROGRAM)
    installed.run("trace", "-o", "traced", "--", sys.executable, "mine.py").fine()
    said = installed.run("hunt", "traced").no_traceback()
    assert "lock" in said.out, said


def test_a_program_of_contend_that_is_not_there_is_named_before_anything_is_done(
    installed: Installed,
) -> None:
    """The downloader is an extra; without the probe, as `pip install --no-deps` leaves it, nothing is begun."""
    installed.run("fetch", "http://127.0.0.1:9/x").error(
        1, "contend-fetch is not installed", "contend[fetch]"
    )
    installed.runs.mkdir(parents=True, exist_ok=True)
    probe, before = installed.bin / "contend-probe", set(installed.runs.iterdir())
    probe.rename(aside := probe.with_name("aside"))
    try:
        for words in (
            ["run", installed.scenario()],
            ["ab", "--", "true", "--vs", "false"],
            ["sample", "--for", "1s"],
        ):
            installed.run(*words).error(1, "contend-probe is not installed", "pip install contend-probe")
    finally:
        aside.rename(probe)
    assert set(installed.runs.iterdir()) == before


def test_the_wheels_name_their_licences(installed: Installed) -> None:
    for package, of in (("contend", "Vega"), ("contend_probe", "libc")):
        (notices,) = Path(installed.bin.parent).glob(
            f"lib/*/site-packages/{package}-*/licenses/THIRD-PARTY.txt"
        )
        assert of in notices.read_text(encoding="utf-8")
