"""Every workload of the catalogue, run for real, alone and as a neighbour, without contend's platforms."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contend.platforms import programs
from contend.workloads import install
from contend.workloads.instance import resolve
from contend.workloads.load import catalogue, load
from support import prerequisites
from support.bare_trials import Party, Place, finish, prepare, serve, trial, values

pytestmark = pytest.mark.system

# What others do the work of needs them: tests/system/testbed/test_openstack_bed.py has a cloud. What is downloaded is
# for tests/accept/test_cassandra.py; what contend itself builds is not.
NAMES = sorted(
    p.stem
    for p in catalogue().glob("*.yaml")
    if not load(p.stem).elsewhere and all("{native}" in str(command) for command in load(p.stem).fetch)
)
ROOT = ("network-placement",)  # it makes network namespaces
# What is made there is of no live run: a test that removes such things is not to run beside it.
EACH = [pytest.param(name, marks=pytest.mark.one_of("strays")) if name in ROOT else name for name in NAMES]
# Of those that are long, as much as shows that they work.
SMALL: dict[str, dict[str, str | int]] = {
    "wordpress": {"requests": 20, "loader": "ab"},
    "image-download": {"size": "64M", "checksum": "sha512"},
    # Every metric is there: of datagrams, and of a thousand requests and more.
    "network-placement": {"protocol": "udp", "rate": 1500.0, "host": "different", "encapsulation": "vxlan"},
    "rpc-failures": {"fault": "stop", "before": "1s", "lasts": "1s", "timeout": "3s", "rate": 50.0},
}
# What went wrong, which may be nothing.
MAY_BE_ZERO = {
    "softirq_per_gb",
    "busy_before",
    "recovery_low",
    "lost",
    "lost_low",
    "failed",
    "duplicated",
    "done_unheard",
    "late",
}


def _fio(told: Path, **options: str) -> bool:
    asked = json.loads(re.sub(r"\A[^{]*", "", (told / "fio.json").read_text()))["jobs"][0]["job options"]
    return {name: asked.get(name) for name in options} == options


def _wrk_page(told: Path) -> float:
    """Bytes a request."""
    found = re.search(r"(\d+) requests in [\w.]+, ([\d.]+)([KMG])B read", (told / "run-0.out").read_text())
    assert found, told
    return float(found[2]) * 1024.0 ** " KMG".index(found[3]) / int(found[1])


def _iperf3(told: Path) -> tuple[int, int]:
    asked = json.loads((told / "iperf3.json").read_text())["start"]["test_start"]
    return asked["num_streams"], asked["reverse"]


def _download(told: Path) -> bool:
    said = json.loads((told / "run-0.out").read_text())
    return said["bytes"] == 3 * (4 << 20) and said["client"] == "curl"


# What shows in the tool's own words, or in what it did, that it was told.
VARIANTS: list[tuple[str, dict[str, str | int], Callable[[Path], bool]]] = [
    ("fio", {"read": 0}, lambda told: _fio(told, rwmixread="0", rw="randrw")),
    (
        "fio",
        {"read": 50, "pattern": "rw", "block": "64k", "engine": "io_uring"},
        lambda told: _fio(told, rwmixread="50", rw="rw", bs="64k", ioengine="io_uring"),
    ),
    ("fio", {"engine": "psync"}, lambda told: _fio(told, ioengine="psync", rwmixread="100")),
    (
        "nginx",
        {"page": 65536, "workers": 2},
        lambda told: (
            65536 < _wrk_page(told) < 66600 and "worker_processes 2;" in (told / "nginx.conf").read_text()
        ),
    ),
    ("iperf3", {"direction": "down", "streams": 2}, lambda told: _iperf3(told) == (2, 1)),
    (
        "http",
        {"rate": 200, "page": 4096},
        lambda told: (
            json.loads((told / "pace.json").read_text())["rate_asked"] == 200
            and {path.stat().st_size for path in told.parent.glob("pages/*")} == {4096}
        ),
    ),
    (
        "sysbench-memory",
        {"operation": "read", "block": "4k"},
        lambda told: (
            {"block size: 4KiB", "operation: read"}
            <= {line.strip() for line in (told / "run-0.out").read_text().splitlines()}
        ),
    ),
    ("mpi-prime", {"ranks": 1}, lambda told: json.loads((told / "run-0.out").read_text())["ranks"] == 1),
    (
        "image-download",
        {"size": "4M", "client": "curl", "scheme": "https", "to": "file", "checksum": "sha512", "at_once": 3},
        _download,
    ),
]

PACKETS = ("-select_streams", "v:0", "-show_entries", "stream=nb_read_packets", "-of", "csv=p=0")


def need(name: str) -> None:
    """The test's workload can run here; in CI it must."""
    hint = install.hint([load(name)])
    if (resolve(load(name), {}).network == "pair" or name in ROOT) and os.geteuid() != 0:
        hint = hint or "run as root: it makes network namespaces"
    prerequisites.need(not hint, f"{name}: {hint}")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    name = request.getfixturevalue("name")
    need(name)
    monkeypatch.setenv("PATH", programs.search_path())
    if resolve(load(name), {}).network != "pair":
        yield Place(tmp_path)
        return
    ip = str(programs.find_command("ip"))
    left, right = f"ct{os.getpid()}a", f"ct{os.getpid()}b"

    def run(*arguments: str) -> None:
        subprocess.run([ip, *arguments], check=True, capture_output=True)

    def sent() -> int:
        text = subprocess.check_output([ip, "-n", left, "-s", "-o", "link", "show", "dev", left], text=True)
        counts = [int(part.split()[0]) for part in text.split("\\")[3::2]]
        return sum(counts)

    try:
        for namespace in (left, right):
            run("netns", "add", namespace)
        run("link", "add", left, "netns", left, "type", "veth", "peer", "name", right, "netns", right)
        for namespace, address in ((left, "10.213.0.1/30"), (right, "10.213.0.2/30")):
            run("-n", namespace, "address", "add", address, "dev", namespace)
            run("-n", namespace, "link", "set", namespace, "up")
            run("-n", namespace, "link", "set", "lo", "up")
        enter = (ip, "netns", "exec")
        yield Place(tmp_path, "10.213.0.1", (*enter, left), (*enter, right), sent)
    finally:
        for namespace in (left, right):
            subprocess.run([ip, "netns", "delete", namespace], check=False, capture_output=True)


@pytest.mark.parametrize("name", EACH)
def test_every_metric_of_a_trial_is_read_and_positive(name: str, place: Place) -> None:
    instance = resolve(load(name), SMALL.get(name, {}))
    readings = trial(instance, place)
    assert [r.name for r in readings] == list(instance.workload.metrics)
    assert all(r.value > 0 or r.name in MAY_BE_ZERO for r in readings), readings
    assert [r.primary for r in readings] == [True] + [False] * (len(readings) - 1)


@pytest.mark.parametrize(
    ("name", "parameters", "reached"), VARIANTS, ids=[f"{v[0]}-{v[1]}" for v in VARIANTS]
)
def test_parameters_reach_the_tool(
    name: str, parameters: dict[str, str | int], reached: Callable[[Path], bool], place: Place
) -> None:
    trial(resolve(load(name), parameters), place)
    assert reached(place.work / "out with space")
    assert not reached_by_default(name, reached, place), "it is so anyway: this test cannot fail"


def reached_by_default(name: str, reached: Callable[[Path], bool], place: Place) -> bool:
    (place.work / "default").mkdir()
    other = replace(place, work=place.work / "default")
    trial(resolve(load(name), SMALL.get(name, {})), other)
    return reached(other.work / "out with space")


@pytest.mark.parametrize("name", EACH)
def test_a_neighbour_burns_until_it_is_stopped(name: str, place: Place) -> None:
    instance = resolve(load(name), SMALL.get(name, {}))
    known = values(instance, place)
    out = Path(str(known["out"]))
    prepare(instance, place, known)
    least = instance.workload.neighbour.burning
    assert least, f"{name} does not say at which rate it burns"
    server = serve(instance, place, known, out)
    load_ = Party((*place.client, *instance.commands(known).neighbour), out, "neighbour")
    parties = [load_, *([server] if server else [])]

    def used() -> float:
        if instance.workload.dominant == "disk":
            return sum(p.disk_bytes() for p in parties)
        if instance.workload.dominant == "network":
            return place.link()
        # What it would use were it alone: other tests may keep it waiting.
        return sum(p.cpu_s() + p.waited_s() for p in parties)

    try:
        rate, deadline = 0.0, time.monotonic() + 30
        while rate < least and time.monotonic() < deadline:
            first, at = used(), time.monotonic()
            time.sleep(0.7)
            rate = (used() - first) / (time.monotonic() - at)
        assert rate >= least, load_.log.read_text()
        assert load_.process.poll() is None, "it ended by itself"
    finally:
        for party in parties:
            party.stop()
        finish(instance, place, known)
    assert not [pid for party in parties for pid in party.pids()]


@pytest.mark.parametrize(
    ("name", "parameters"), [("mpi-prime", {"limit": 10**9}), ("mpi-search", {"rounds": 10**6})]
)
def test_killed_ranks_leave_nothing_outside_their_directory(
    name: str, parameters: dict[str, str | int], place: Place
) -> None:
    """Open MPI's segments, which only ranks that end in order remove, are among the trial's files."""
    instance = resolve(load(name), parameters)
    known = values(instance, place)
    prepare(instance, place, known)

    def shared() -> set[str]:
        return {path.name for path in Path("/dev/shm").glob("vader_segment*")}

    before = shared()
    party = Party(instance.commands(known).run[0], Path(str(known["out"])), "ranks")
    try:
        deadline = time.monotonic() + 30
        while not (own := list(place.work.rglob("vader_segment*"))) and time.monotonic() < deadline:
            assert party.process.poll() is None, party.log.read_text()
            time.sleep(0.02)
    finally:
        os.killpg(party.process.pid, signal.SIGKILL)
        party.stop()
    assert own, "no segment was made: this test cannot fail"
    assert not party.pids() and shared() <= before


@pytest.mark.parametrize("name", ["ffmpeg"])
def test_a_single_threaded_ffmpeg_has_one_decoder_and_one_encoder(name: str, place: Place) -> None:
    """They take turns: what makes its slowdown beside a burner the fair half, and not a sixth."""
    most = {}
    for threads in ("single", "default"):
        instance = resolve(load(name), {"threads": threads})
        known = values(instance, place)
        prepare(instance, place, known)
        party = Party(instance.commands(known).neighbour, Path(str(known["out"])), threads)
        seen = [0]
        try:
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline and party.process.poll() is None:
                seen.append(len(list(Path(f"/proc/{party.process.pid}/task").iterdir())))
                time.sleep(0.01)
        finally:
            party.stop()
        most[threads] = max(seen)
    assert most["single"] == 2 < most["default"], most


@pytest.mark.parametrize("name", ["ffmpeg"])
def test_pieces_of_a_clip_hold_the_frames_of_the_whole(name: str, place: Place) -> None:
    frames, files = {}, {}
    for pieces in (1, 2, 3):
        own = Place(place.work / str(pieces))
        own.work.mkdir()
        trial(resolve(load(name), {"pieces": pieces, "length": 3, "preset": "ultrafast"}), own)
        made = sorted((own.work / "out with space").glob("*.mp4"))
        files[pieces] = len(made)
        frames[pieces] = sum(
            int(subprocess.check_output(["ffprobe", "-v", "error", "-count_packets", *PACKETS, path]))
            for path in made
        )
    assert files == {1: 1, 2: 2, 3: 3}
    assert frames == {1: 75, 2: 75, 3: 75}


@pytest.mark.parametrize("name", ["ffmpeg"])
def test_a_clip_is_not_cut_into_more_pieces_than_it_has_keyframes(name: str, place: Place) -> None:
    instance = resolve(load(name), {"pieces": 5, "length": 4})
    with pytest.raises(AssertionError, match="a clip of 4 s has keyframes for 4 pieces, not for 5"):
        prepare(instance, place, values(instance, place))


@pytest.mark.parametrize("name", ["ffmpeg"])
def test_a_piece_that_cannot_be_transcoded_fails_the_trial(name: str, place: Place) -> None:
    instance = resolve(load(name), {"pieces": 2, "length": 2, "preset": "ultrafast"})
    known = values(instance, place)
    prepare(instance, place, known)
    (place.work / "pieces" / "001.mp4").write_bytes(b"no video")
    done = subprocess.run(instance.commands(known).run[0], capture_output=True, cwd=known["out"], timeout=30)
    assert done.returncode == 1
    assert b"001.mp4" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_latencies_say_whether_their_loop_is_open(name: str) -> None:
    for metric_name, metric in load(name).metrics.items():
        if "latency" in metric_name:
            assert metric.loop in ("open", "closed"), metric_name


@pytest.mark.parametrize(("limit", "count"), [(2, 1), (10, 4), (600, 109), (100000, 9592)])
@pytest.mark.parametrize("name", ["mpi-prime"])
def test_the_primes_are_counted_right_by_any_number_of_ranks(
    name: str, limit: int, count: int, place: Place
) -> None:
    for ranks in (1, 2, 3):
        instance = resolve(load(name), {"ranks": ranks, "limit": limit})
        known = values(instance, place)
        prepare(instance, place, known)
        done = subprocess.run(instance.commands(known).run[0], capture_output=True, text=True, timeout=30)
        assert json.loads(done.stdout)["primes"] == count
