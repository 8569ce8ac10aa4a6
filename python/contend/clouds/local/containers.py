"""A storm's containers: one call of the engine each; the program inside writes into a FIFO that all of them share.

When each stage was passed is told by what the engine and its helpers leave on this host, all by its own clock: the
engine's record (Created, StartedAt), the network namespace, the runtime's specification, the pid file.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend import names
from contend.clouds.local import cpu
from contend.clouds.local.removal import CONTAINER
from contend.clouds.storm.stamps import ACTIVE, NS, Interval, Track
from contend.errors import CannotHonour, ContendError
from contend.platforms import bundles, engines, procfs
from contend.platforms.calls import Ended, call
from contend.platforms.engines import Engine
from contend.store.ledger import Record

if TYPE_CHECKING:
    from contend.clouds.storm.storm import Happened

_LOOK_S = 0.1
_WITHIN_S = 120.0
REST = "all the rest"


@dataclass(frozen=True, slots=True)
class Made:
    """How every container of a run is made: by which engine, of which image, or of a root directory with the host's own
    programs where `image` is empty."""

    engine: Engine
    rootfs: str
    image: str = ""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Made:
        """Read what `asdict` put into JSON."""
        engine: dict[str, Any] = {**kept["engine"]}
        engine |= {key: tuple(engine[key]) for key in ("command", "rlimits")}
        return cls(Engine(**engine), kept["rootfs"], kept["image"])

    @property
    def of_host(self) -> bool:
        """True if its programs are this host's own; docker takes them by an image of mount points."""
        return not self.image or self.image.startswith(f"{names.PREFIX}-")

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases of a start, as far as the engine lets them be told apart."""
        if self.engine.low_level:
            return "runtime create", REST, "runtime start"
        if self.engine.name == "docker":
            return "engine", REST, "set-up", "runtime start"
        return "engine", REST, "root filesystem", "network", "runtime create", "runtime start"


def check_network(engine: str, network: str) -> None:
    """Check that the engine can give that network. Raises CannotHonour."""
    if engine in ("runc", "crun") and network not in ("none", "host"):
        raise CannotHonour(
            f"{engine} makes no networks: '{network}' is not one of none, host",
            hint="parameters.engine=podman",
        )


class Containers:
    """Containers as the machines of a storm (see `clouds.base.Machines`). door: a directory for the FIFO, seen inside
    under the same path. network: none, host, auto (the engine's default), or the name of one of the engine's."""

    awaited = "served"

    def __init__(self, made: Made, record: Record, door: Path, network: str) -> None:
        self._made, self._record, self._network = made, record, network
        self._engine = made.engine
        self._door = door
        self.phases = made.phases
        self.counts: dict[str, int] = {"requests": 0}
        self._numbers: dict[str, int] = {}
        self._cpu_ns = 0
        self._lock = threading.Lock()
        self._fifo = -1

    def announce(self, tracks: Sequence[Track]) -> None:
        self._numbers = {track.name: number for number, track in enumerate(tracks)}
        self._record.intend(CONTAINER, self._numbers, engine=self._engine.name)
        os.mkfifo(self._door / "door")
        (self._door / "door").chmod(0o666)
        # Open for both: containers never find it without a reader, and its end never comes.
        self._fifo = os.open(self._door / "door", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        if self._engine.low_level:
            for track in tracks:
                self._write_bundle(track.name)

    def _program(self, name: str) -> tuple[str, ...]:
        """Says that it is there, and when by this host's clock where its shell can tell (bash can)."""
        says = f"echo \"{self._numbers[name]} ${{EPOCHREALTIME:-}}\" > '{self._door}/door'"
        shell = "bash" if self._made.of_host and Path("/bin/bash").exists() else "sh"
        return shell, "-c", f"{says}; exec sleep 1000000"

    def _write_bundle(self, name: str) -> None:
        bundle = bundles.Bundle(self._door / name)
        bundle.path.mkdir()
        config = bundles.oci_config(
            Path(self._made.rootfs),
            self._program(name),
            bundles.host_mounts((self._door,)),
            {},
            run_id=self._record.run,
        )
        if self._network == "none":
            config["linux"]["namespaces"].append({"type": "network"})
        bundle.write_config(config)

    def _create_words(self, name: str) -> list[str]:
        if self._engine.low_level:
            folder = self._door / name
            return ["run", "--detach", "--pid-file", str(folder / "pid"), "--bundle", str(folder), name]
        words = ["run", "--detach", "--name", name, "--label", f"{engines.LABEL_RUN}={self._record.run}"]
        words += self._engine.rlimits
        if self._network != "auto":
            words += ["--network", self._network]
        mounts = [bundles.Mount(self._door, writable=True)]
        if self._made.of_host:
            mounts = bundles.host_mounts((self._door,))
        words += engines.mount_arguments(mounts)
        root = [self._made.image] if self._made.image else ["--rootfs", self._made.rootfs]
        return [*words, *root, *self._program(name)]

    def _call(self, words: Sequence[str]) -> Ended:
        done = call([*self._engine.command, *words], _WITHIN_S)
        with self._lock:
            self._cpu_ns += done.cpu_ns
            self.counts["requests"] += 1
        return done

    def count_cpu(self) -> Callable[[], dict[str, float]]:
        before, already_ns = cpu.read(), self._cpu_ns

        def used() -> dict[str, float]:
            own = {self._engine.name: (self._cpu_ns - already_ns) / NS}
            by_role = own | cpu.between(before, cpu.read())
            others = (
                {cpu.LIBVIRT} if self._engine.name == "docker" else {cpu.LIBVIRT, "engine daemon", "shim"}
            )
            by_role = {role: s for role, s in by_role.items() if role not in others}
            return dict(sorted(by_role.items(), key=lambda item: -item[1]))

        return used

    def create(self, track: Track) -> None:
        """Create a container. The request is accepted when the engine's client has returned."""
        try:
            done = self._call(self._create_words(track.name))
        except OSError as error:
            track.problem = f"refused: {error}"
            return
        if done.code != 0:
            track.problem = f"refused: {done.why}"
            return
        track.accepted_ns = done.ended_ns
        track.id = done.out.strip()[:64] or track.name

    def watch(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        poll, heard = select.poll(), b""
        poll.register(self._fifo, select.POLLIN)
        while (now_ns := time.monotonic_ns()) < until_ns:
            if all(track.problem or track.active for track in tracks):
                return
            if not poll.poll(min(_LOOK_S * 1e3, (until_ns - now_ns) / 1e6)):
                continue
            *lines, heard = (heard + os.read(self._fifo, 65536)).split(b"\n")
            now_ns = time.monotonic_ns()
            offset = time.time_ns() - now_ns
            for line in lines:
                word = _word(line, len(tracks))
                if word is None:
                    self.counts["odd words at the door"] = self.counts.get("odd words at the door", 0) + 1
                    continue
                track = tracks[word[0]]
                stamped_ns = word[1] - offset if word[1] else now_ns
                low = stamped_ns if track.sent_ns <= stamped_ns <= now_ns else now_ns
                track.entries.append((ACTIVE, Interval(low, now_ns)))

    def ask(self, happened: Happened) -> None:
        """Add when each stage was passed; a stamp that is not there leaves its time with the stage before."""
        offset = time.time_ns() - time.monotonic_ns()
        stamps = self._low_level_stamps() if self._engine.low_level else self._stamps()
        for track in happened.tracks:
            passed = {state: at - offset for state, at in stamps.get(track.name, {}).items() if at}
            # A low-level runtime returns when the program runs, and keeps no other moment of it.
            track.running_ns = passed.pop("running", 0) or (
                track.accepted_ns if self._engine.low_level else 0
            )
            moments = sorted((at, state) for state, at in passed.items() if at >= track.sent_ns)
            on_the_way = [(state, Interval(at, at)) for at, state in moments]
            track.entries = on_the_way + [entry for entry in track.entries if entry[0] == ACTIVE]

    def _low_level_stamps(self) -> dict[str, dict[str, int]]:
        return {name: {"runtime start": _written(self._door / name / "pid")} for name in self._numbers}

    def _stamps(self) -> dict[str, dict[str, int]]:
        """Moments of each container by name, ns since the epoch."""
        containers = self._inspect()
        stamps = {}
        for item in containers:
            state = item.get("State") or {}
            stamps[str(item.get("Name", "")).lstrip("/")] = {
                "running": _iso(state.get("StartedAt")),
                **(self._of_docker(item) if self._engine.name == "docker" else self._of_podman(item)),
            }
        return stamps

    def _of_podman(self, item: Mapping[str, Any]) -> dict[str, int]:
        sandbox = (item.get("NetworkSettings") or {}).get("SandboxKey") or ""
        return {
            "root filesystem": _iso(item.get("Created")),
            "network": _written(Path(sandbox)) if sandbox and self._network != "none" else 0,
            "runtime create": _written(Path(item.get("OCIConfigPath") or "/nonexistent")),
            "runtime start": _written(Path(item.get("PidFile") or "/nonexistent")),
        }

    def _of_docker(self, item: Mapping[str, Any]) -> dict[str, int]:
        """Set-up is everything in the daemon until the container's first process exists."""
        first = procfs.stat(int((item.get("State") or {}).get("Pid") or 0))
        begun = 0
        if first is not None:  # in ticks since this host's boot
            since_boot = first.start_ticks * NS // os.sysconf("SC_CLK_TCK")
            begun = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + since_boot
        return {"set-up": _iso(item.get("Created")), "runtime start": begun}

    def _inspect(self) -> list[Mapping[str, Any]]:
        done = call([*self._engine.command, "inspect", *self._numbers], _WITHIN_S)
        try:
            containers: list[Mapping[str, Any]] = json.loads(done.out)
        except ValueError:
            return []
        return containers

    def delete(self, track: Track) -> None:
        """Delete a container: it is gone when the engine says so."""
        done = self._call(self._engine.delete_words(track.name))
        if done.code == 0:
            track.gone = Interval(done.ended_ns, done.ended_ns)

    def watch_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Do nothing: `delete` has waited."""

    def clear(self, tracks: Sequence[Track], within_s: float) -> dict[str, str]:
        try:
            left = self._clear({track.name for track in tracks})
            self._record.removed(CONTAINER, (name for name in self._numbers if name not in left))
        finally:
            with contextlib.suppress(OSError):
                os.close(self._fifo)
        return left

    def _clear(self, own: set[str]) -> dict[str, str]:
        left, standing = {}, engines.containers()
        for name, by, _ in standing:
            if name in own and by == self._engine.name:
                try:
                    engines.remove_container(by, name, self._record.run, standing)
                except ContendError as error:
                    left[name] = error.message
        return left


def _written(path: Path) -> int:
    """When a file was written last, ns since the epoch, in steps of the kernel's tick; 0 where it is not."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _iso(stamp: object) -> int:
    """ns since the epoch of an engine's time, 0 for none.

    >>> _iso("1970-01-01T00:00:01.5Z"), _iso("1970-01-01T01:00:00.000000123+01:00"), _iso("0001-01-01T00:00:00Z")
    (1500000000, 123, 0)
    """
    text = str(stamp or "").replace("Z", "+00:00")
    if not text or text.startswith("0001"):
        return 0
    head, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    zone = rest[len(digits) :] if dot else ""
    whole = datetime.datetime.fromisoformat(head + zone)
    return round(whole.timestamp()) * NS + int(digits.ljust(9, "0")[:9] or 0)


def _word(line: bytes, machines: int) -> tuple[int, int] | None:
    """(number of the machine, ns since the epoch by its clock, 0 where it has none); None for what no machine says.

    The stamp is bash's EPOCHREALTIME, whose decimal point is the locale's.

    >>> _word(b"3 12.000001", 4), _word(b"0 12,5", 4), _word(b"1 ", 4), _word(b"4 1.0", 4), _word(b"hello", 4)
    ((3, 12000001000), (0, 12500000000), (1, 0), None, None)
    """
    match = re.fullmatch(rb"([0-9]{1,4}) (?:([0-9]+)[.,]([0-9]{1,9}))?", line)
    if match is None or int(match[1]) >= machines:
        return None
    return int(match[1]), int(match[2]) * NS + int(match[3].ljust(9, b"0")) if match[2] else 0
