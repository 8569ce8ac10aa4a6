"""`contend fetch` against a real nginx: what it promises on good days, and that it goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import stat
import time
from pathlib import Path

import pytest

from support.image_servers import Fetch, Images


def test_the_whole_verified_and_nothing_beside_it(images: Images, fetch: Fetch) -> None:
    said = fetch(f"{images.http}/image.raw", "--checksum", images.sha512).fine()
    assert "sha512 verified" in said.err
    assert (fetch.place / "image.raw").read_bytes() == images.content
    assert fetch.left() == ["image.raw"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((fetch.place / "image.raw").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("how", [(), ("--checksum", "own")])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_way_there_gives_the_same_bytes(
    images: Images, fetch: Fetch, scheme: str, how: tuple[str, ...]
) -> None:
    options = [images.sha512 if word == "own" else word for word in how]
    url = f"{getattr(images, scheme)}/image.raw"
    fetch(url, "--cacert", str(images.authority), "-o", "x", *options).fine()
    assert (fetch.place / "x").read_bytes() == images.content
    code, out, err = fetch.raw(url, "--insecure", "-o", "-", *options)
    assert (code, out) == (0, images.content), err


def test_one_document_for_machines(images: Images, fetch: Fetch) -> None:
    said = fetch(f"{images.http}/image.raw", "--json", "-o", "x").fine()
    told = said.json()
    assert told["bytes"] == len(images.content)
    assert (told["verified"], told["output"], told["attempts"], told["resumed_bytes"]) == (False, "x", 1, 0)
    assert told["cpu_ns"] > 0


def test_a_device_keeps_its_place(images: Images, fetch: Fetch) -> None:
    fetch(f"{images.http}/image.raw", "-o", "/dev/null", "-q").fine()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    said = fetch(f"{images.http}/image.raw", "-o", "/dev/full")
    said.error(1, "/dev/full", "No space left")


def test_empty_content(images: Images, fetch: Fetch) -> None:
    images.put("empty", b"")
    fetch(f"{images.http}/empty", "--checksum", "md5:d41d8cd98f00b204e9800998ecf8427e").fine()
    assert (fetch.place / "empty").read_bytes() == b""
    assert fetch.left() == ["empty"]


def test_redirects_are_followed(images: Images, fetch: Fetch) -> None:
    fetch(f"{images.http}/away/", "--insecure", "-o", "x").fine()
    assert (fetch.place / "x").read_bytes() == images.content
    fetch(f"{images.https}/down/", "--insecure", "-o", "y").error(1, "https to http")
    fetch(f"{images.http}/circle/", "-o", "y").error(1, "circle")
    assert fetch.left() == ["x"]


def _interrupted(fetch: Fetch, images: Images, name: str, bytes_there: int) -> None:
    """What a kill leaves after some bytes: made by one, and then cut or filled to the byte."""
    process = fetch.start(f"{images.http}/slow/image.raw", "-o", name, "-q", "--rate", "4MB/s")
    deadline = time.monotonic() + 20
    part = fetch.part(name)
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert part.stat().st_size, "nothing came"
    assert not (fetch.place / name).exists()
    part.write_bytes(images.content[:bytes_there])


@pytest.mark.parametrize("seed", range(6))
def test_it_goes_on_at_any_byte(images: Images, fetch: Fetch, seed: int) -> None:
    size = len(images.content)
    draws = random.Random(seed)
    there = draws.choice([1, size - 1, size, draws.randrange(1, size), 1 << 18, (1 << 18) + 1])
    _interrupted(fetch, images, "x", there)
    options = ["--checksum", images.sha512] if seed % 2 else []
    url = f"{images.http if seed % 3 else images.https}/slow/image.raw"
    if not options and url.startswith("https"):
        url = f"{images.http}/slow/image.raw"  # without a checksum another URL is another content
    told = fetch(url, "--insecure", "-o", "x", "--json", *options).fine().json()
    assert (fetch.place / "x").read_bytes() == images.content
    # Without a checksum the last byte is asked for again: with it comes the server's word that it is still the same.
    kept = min(there, size - 1)
    assert told["resumed_bytes"] == (kept if url.startswith("http:") else 0) or options
    assert fetch.left() == ["x"]


def test_a_wrong_part_is_found_out_by_the_checksum(images: Images, fetch: Fetch) -> None:
    _interrupted(fetch, images, "x", 1000)
    fetch.part("x").write_bytes(b"\0" * 1000)
    said = fetch(f"{images.http}/slow/image.raw", "-o", "x", "--checksum", images.sha512)
    said.fine()
    assert "anew" in said.err
    assert (fetch.place / "x").read_bytes() == images.content


def test_a_changed_file_is_fetched_anew(images: Images, fetch: Fetch) -> None:
    images.put("changing", images.content)
    _interrupted(fetch, images, "x", 5000)
    part, state = fetch.part("x"), fetch.place / ".x.part.json"
    told = json.loads(state.read_text())
    state.write_text(json.dumps(told | {"etag": '"of-another-day"'}))
    assert part.stat().st_size == 5000
    told = fetch(f"{images.http}/slow/image.raw", "-o", "x", "--json").fine().json()
    assert told["resumed_bytes"] == 0
    assert (fetch.place / "x").read_bytes() == images.content


def test_anew_and_another_boot_start_over(images: Images, fetch: Fetch) -> None:
    _interrupted(fetch, images, "x", 5000)
    told = fetch(f"{images.http}/slow/image.raw", "-o", "x", "--json", "--anew").fine().json()
    assert told["resumed_bytes"] == 0
    _interrupted(fetch, images, "y", 5000)
    state = fetch.place / ".y.part.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"boot": "another"}))
    told = fetch(f"{images.http}/slow/image.raw", "-o", "y", "--json").fine().json()
    assert told["resumed_bytes"] == 0
    assert (fetch.place / "y").read_bytes() == images.content


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_at_any_moment_leaves_nothing_under_the_name(images: Images, fetch: Fetch, seed: int) -> None:
    url = f"{images.http}/slow/image.raw"
    draws = random.Random(seed)
    for _ in range(8):
        process = fetch.start(url, "-o", "x", "-q", "--rate", "6MB/s", "--checksum", images.sha512)
        time.sleep(draws.uniform(0.05, 0.5))
        process.kill()
        process.communicate()
        if (fetch.place / "x").exists():
            break
    if (fetch.place / "x").exists():
        assert (fetch.place / "x").read_bytes() == images.content
    fetch(url, "-o", "x", "--checksum", images.sha512).fine()
    assert (fetch.place / "x").read_bytes() == images.content
    assert fetch.left() == ["x"]


def test_an_interrupt_says_what_is_left(images: Images, fetch: Fetch) -> None:
    process = fetch.start(f"{images.http}/slow/image.raw", "--rate", "1MB/s")
    deadline = time.monotonic() + 20
    while not (fetch.part().exists() and fetch.part().stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    assert b"interrupted" in err
    assert b"kept in .image.raw.part" in err
    assert fetch.left() == [".image.raw.part", ".image.raw.part.json"]


def test_two_at_once_to_one_file(images: Images, fetch: Fetch) -> None:
    url = f"{images.http}/slow/image.raw"
    first = fetch.start(url, "-q", "--rate", "2MB/s")
    deadline = time.monotonic() + 20
    while not fetch.part().exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    fetch(url).error(1, "another contend fetch")
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert (fetch.place / "image.raw").read_bytes() == images.content


def test_somebody_elses_part_is_not_written_to(images: Images, fetch: Fetch) -> None:
    fetch.part().symlink_to("victim")
    fetch(f"{images.http}/image.raw").error(1, ".image.raw.part")
    fetch.part().unlink()
    other = fetch.place / "other"
    other.write_bytes(b"precious")
    os.link(other, fetch.part())
    fetch(f"{images.http}/image.raw").error(1, "not ours")
    assert other.read_bytes() == b"precious"


def test_the_rate_holds(images: Images, fetch: Fetch) -> None:
    told = fetch(f"{images.http}/image.raw", "-o", "/dev/null", "--rate", "2MB/s", "--json").fine().json()
    rate = told["bytes"] / told["wall_ns"] * 1e9
    assert 1.5e6 <= rate <= 2.1e6  # slower only where this host is busy


@pytest.mark.parametrize("output", ["x", "/dev/null"])
def test_the_cpu_limit_holds_for_the_whole_process(images: Images, fetch: Fetch, output: str) -> None:
    images.put("half", images.content * 30)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    sha512 = hashlib.sha512(images.content * 30).hexdigest()
    url = f"{images.https}/half"
    words = ("--insecure", "-o", output, "--cpu-max", "10%", "--checksum", f"sha512:{sha512}", "--json")
    told = fetch.anew(url, *words).fine().json()
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # What the kernel says of all of it: the interpreter's start, the file's way to the disk, and the end. Less only
    # where this host is busy: what is not used is not saved up.
    assert used / wall <= 1.05 * 0.1
    # What it says itself: of the same time, but for the end, of which a little is allowed for.
    assert told["cpu_ns"] / told["wall_ns"] <= 0.1
    assert told["cpu_ns"] / 1e9 == pytest.approx(used, rel=0.05)
    assert told["wall_ns"] / 1e9 <= wall


def test_memory_is_flat(images: Images, fetch: Fetch) -> None:
    images.put("large", images.content * 60)
    peaks = []
    for name in ("image.raw", "large"):
        done = fetch.start(f"{images.https}/{name}", "--insecure", "-o", "x", "-q")
        _, status, usage = os.wait4(done.pid, 0)
        assert status == 0
        peaks.append(usage.ru_maxrss)
        done.returncode = 0
        done.communicate()
    assert peaks[1] < peaks[0] + 4096  # KiB
