"""`contend run storage-sweep` on this host: it goes on after any end, nothing of it stays, a device is only read, and of
two pools the one that is really limited is found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.store.ledger import leftovers, read_rows
from support.command_line import Home, rows, wait_for
from support.prerequisites import need

CEILING = 400  # requests a second
# A leaky bucket lets a tenth of a second's worth through at once when it was idle before (QEMU, util/throttle.c).
BURST_S = 0.1
TINY = (
    "size=16M", "block_sizes=[4k,16k]", "depths=8", "reads=[0,100]", "engines=[async]", "patterns=[random]",
    "points=4", "focus=1", "table={block_sizes: [4k], depth: 8}", "measure.trial=100ms", "measure.target=null",
    "measure.pilot=0", "measure.budget=null",
)  # fmt: skip


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    need(shutil.which("fio"), "fio")
    home = Home(tmp_path)
    yield home
    home.nothing_left()


def words(*settings: str) -> list[str]:
    return ["run", "storage-sweep", *(word for setting in (*TINY, *settings) for word in ("--set", setting))]


def document(run: Path) -> Any:
    found = json.loads((run / "findings.json").read_text())
    jsonschema.validate(found, analysis_schema())
    return found


def test_a_sweep_goes_on_after_an_interrupt_at_any_step(contend: Home, tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    pool.mkdir()
    arguments = words(f"pools=[{pool}]", "measure.blocks=2", "measure.seed=3")

    def interrupted(process: Any, when: Any, what: str) -> None:
        with process:
            wait_for(when, what)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == 3
        assert not list(pool.iterdir()), "the files go at an interrupt too"

    def trials(phase: str) -> int:
        found = [row for run in contend.run_directories() for row in rows(run)]
        return sum(row["phase"] == phase and row["status"] == "ok" for row in found)

    interrupted(contend.start(*arguments), lambda: trials("screening") >= 3, "three trials")
    run = contend.the_run()
    plan = json.loads((run / "plan.json").read_text())
    assert plan["focus"] is None, "nothing is chosen yet, and the plan says so"
    assert document(run)["answer"].startswith("No verdict yet")
    interrupted(
        contend.start("run", "--resume", str(run)), lambda: trials("counted") >= 2, "two trials of a block"
    )
    chosen = json.loads((run / "plan.json").read_text())
    assert chosen["trials"][: len(plan["trials"])] == plan["trials"]
    assert set(chosen["focus"].values()) >= {"the table"}
    contend("run", "--resume", str(run), timeout=240).fine()
    after = json.loads((run / "plan.json").read_text())
    assert after["focus"] == chosen["focus"]
    done = [row["trial"] for row in rows(run) if row["status"] == "ok"]
    assert sorted(done) == list(range(len(after["trials"]))), "no trial twice, none missing"
    assert document(run)["sweep"]["screening"] == {"done": 4, "planned": 4}


def test_a_killed_sweep_leaves_files_that_destroy_removes(contend: Home, tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    pool.mkdir()
    (pool / "mine").write_text("not of any run")
    process = contend.start(*words(f"pools=[{pool}]", "measure.blocks=2"))
    with process:
        wait_for(lambda: contend.run_directories() and len(rows(contend.the_run())) >= 3, "three trials")
        process.kill()
    run = contend.the_run()
    assert len(list(pool.iterdir())) == 2
    announced = [r["name"] for r in leftovers(run / "ledger.ndjson") if r["kind"] == "directory"]
    assert any(name.startswith(str(pool)) for name in announced)
    contend("destroy", str(run)).fine()
    assert [p.name for p in pool.iterdir()] == ["mine"]


def test_a_device_is_only_read_unless_it_is_named_to_be_destroyed(contend: Home, tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root")
    need(shutil.which("losetup"), "losetup")
    image = tmp_path / "disk.img"
    content = b"precious" * 128
    with image.open("wb") as file:
        file.write(content * (48 << 10))
    with loop_device(image) as loop:
        pool = f"pools=[{{name: disk, path: {loop}}}]"
        few = ("focus=0", "measure.blocks=1", "points=2")
        said = contend(*words(pool, *few), timeout=240).fine()
        run = contend.the_run()
        assert {row["factors"]["read"] for row in rows(run)} == {"100"}
        assert "only read without `destroy: true`" in " ".join(said.out.split())
        subprocess.run(["sync", loop], check=True)
        assert image.read_bytes() == content * (48 << 10), "not one byte of it has changed"
        destroyed = f"pools=[{{name: disk, path: {loop}, destroy: true}}]"
        contend(*words(destroyed, *few), timeout=240).fine()
        assert image.read_bytes()[: 32 << 20] != (content * (48 << 10))[: 32 << 20]
        events = [e for r in contend.run_directories() for e in read_rows(r / "ledger.ndjson")]
        assert sorted(e["written"] for e in events if e["event"] == "pool-device") == [False, True]


@contextmanager
def loop_device(file: Path, *options: str) -> Iterator[str]:
    made = subprocess.run(
        ["losetup", "--find", "--show", *options, str(file)], capture_output=True, text=True, check=False
    )
    need(made.returncode == 0, f"a loop device: {made.stderr.strip()}")
    loop = made.stdout.strip()
    try:
        yield loop
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


@contextmanager
def limited(image: Path, iops: int) -> Iterator[Path]:
    """The image as a file that gives so many requests a second, whoever asks: QEMU's storage daemon holds them back.

    A control group's limit would be of one party; this is what a device at its ceiling, or a volume with a QoS, does.
    """
    place = image.with_name("limited")
    place.touch()
    words = ["qemu-storage-daemon", "--object", f"throttle-group,id=limit,x-iops-total={iops}"]
    words += ["--blockdev", f"driver=file,node-name=file,filename={image},read-only=on"]
    words += ["--blockdev", "driver=throttle,node-name=held,throttle-group=limit,file=file,read-only=on"]
    words += ["--export", f"type=fuse,id=export,node-name=held,mountpoint={place},writable=off"]
    daemon = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: place.stat().st_size > 0 or daemon.poll() is not None, "the export")
        assert daemon.poll() is None, daemon.stderr and daemon.stderr.read()
        yield place
    finally:
        daemon.terminate()
        daemon.communicate(timeout=20)
        with suppress(FileNotFoundError):  # it unmounts itself, unless it was killed
            subprocess.run(["umount", str(place)], check=False, capture_output=True)


@pytest.mark.alone
def test_of_two_pools_the_one_that_is_limited_is_found(contend: Home, tmp_path: Path) -> None:
    """The ceiling is known: what the limited pool gives, alone and for two, what that does to each, and which it is."""
    need(os.geteuid() == 0, "root")
    for program in ("losetup", "qemu-storage-daemon"):
        need(shutil.which(program), program)
    need(Path("/dev/fuse").exists(), "/dev/fuse")
    images = [tmp_path / f"{name}.img" for name in ("free", "held")]
    for image in images:
        image.write_bytes(os.urandom(1 << 20) * 33)
    trial_s = 0.4
    # Directly: what this host's page cache answers is not held back.
    with (
        loop_device(images[0]) as free,
        limited(images[1], CEILING) as file,
        loop_device(file, "--read-only", "--direct-io=on") as held,
    ):
        pools = f"pools=[{{name: free, path: {free}}}, {{name: held, path: {held}}}]"
        few = ("block_sizes=4k", "depths=4", "table={block_sizes: [4k], depth: 4}", "points=2", "focus=0")
        said = contend(
            *words(pools, *few, "measure.blocks=6", f"measure.trial={trial_s}s"), timeout=240
        ).fine()
    found = document(contend.the_run())
    (between,) = found["sweep"]["between"]
    assert (between["first"], between["second"]) == ("free", "held")
    assert between["serves"]["verdict"] == "lower", "held serves less, and it is shown"
    assert between["suffers"]["verdict"] != "lower", "nor does a neighbour cost free more"
    told = " ".join(said.out.split())
    assert "free serves more than held at every block size" in told

    of = {m["pool"]: m for m in found["sweep"]["measured"]}
    burst = CEILING * BURST_S / trial_s
    assert 0.8 * CEILING < of["held"]["alone"] < 1.1 * CEILING + burst
    # Who is beside has taken the burst before; each has half of what there is.
    assert of["held"]["beside"] == pytest.approx(CEILING / 2, rel=0.35)
    assert of["held"]["slowdown"]["low"] > 1.3
    assert of["free"]["alone"] > 5 * of["held"]["alone"]
    (finding,) = [f for f in found["findings"] if f["subject"].startswith("held ")]
    assert "that is its ceiling at this load" in finding["sentence"]
    most = found["sweep"]["pools"][1]["ceiling"]["4096"]
    assert most < 1.1 * CEILING + burst, "the device under it never did more than it can"


def test_a_dry_run_says_how_much_is_ahead_and_makes_nothing(contend: Home, tmp_path: Path) -> None:
    said = contend(
        "run",
        "storage-sweep",
        "--set",
        f"pools=[{tmp_path}]",
        "--set",
        "size=16M",
        "--budget",
        "10m",
        "--dry-run",
    ).fine()
    text = " ".join(said.out.split())
    assert "800 points in the full factorial" in text
    assert "laid out first: 32M in 2 files" in text
    assert "blocks in the budget of 10 min 00 s" in text
    assert not contend.run_directories()
    assert not list(tmp_path.glob("contend-*"))
    contend(
        "run", "storage-sweep", "--set", f"pools=[{tmp_path}]", "--set", "size=1048576G", "--dry-run"
    ).error(2, "MiB to give")
