"""One recording, from the first sample to the last.

    probe starts ─► command starts ─► [ collect … collect ] ─► command ends ─► last sample ─► series are whole

Whatever becomes of the probe or the disk, the command goes on, and how it ended is the answer.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from contend.clock import Clock, SystemClock
from contend.environment import fingerprint
from contend.errors import BadInput, ContendError, HostFailed
from contend.probes.base import Cost
from contend.probes.client import Drained
from contend.probes.client import installed as probe_installed
from contend.probes.recorder import Recorder, next_drain_s, start_recorder
from contend.probes.series import SeriesWriter
from contend.sample.command import Ended, Followed, Foreground, Signals
from contend.store.directory import SAMPLE_FILE, SCHEMA_VERSION, RunDirectory
from contend.units import NS_PER_S, exact_duration

LEAST_INTERVAL_NS = 10_000_000


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options of a recording. `for_ns` None: until the command ends, or Ctrl-C. `environ` None: the command gets ours.

    `pid`: a process that runs already, with whose end the recording ends. `line`: what was typed, where it is another verb.
    """

    interval_ns: int
    command: tuple[str, ...] = ()
    for_ns: int | None = None
    source: str = "auto"
    sched: str = ""
    stacks: bool = False
    environ: Mapping[str, str] | None = None
    line: str = ""
    pid: int | None = None

    def __post_init__(self) -> None:
        if self.interval_ns < LEAST_INTERVAL_NS:
            raise BadInput(
                f"an interval of {self.interval_ns / 1e6:g} ms is below 10 ms",
                hint="the kernel's CPU times come in steps of 10 ms; -i 10ms is the shortest",
            )
        if self.stacks and not self.sched:
            raise BadInput("--off-cpu-stacks needs --sched", hint="--sched process --off-cpu-stacks")
        if self.for_ns is not None and self.for_ns < self.interval_ns:
            raise BadInput("--for is shorter than one interval", hint="--for 30s, or a shorter -i")


class Live(Protocol):
    """Receives what happens while the recording goes on. Never raises."""

    every_s: float

    def show(self, drained: Drained, cost: Cost) -> None: ...
    def warn(self, text: str) -> None: ...
    def finished(self) -> None: ...


@dataclass(slots=True)
class Outcome:
    """Outcome of a recording. `recorded` False: the series end before the command did, or there are none."""

    ended: Ended | None
    stopped: str
    recorded: bool


@dataclass(slots=True)
class _Recording:
    recorder: Recorder
    live: Live
    stopped: str = ""
    failed: str = ""
    waited_s: float = 0.0
    wait_s: float = field(default=0.1)

    def collect(self) -> None:
        """Take over what there is; the first failure is said, once, and ends the recording."""
        if self.failed:
            return
        try:
            drained = self.recorder.collect()
        except HostFailed as error:
            self.give_up(error)
            return
        self.wait_s = min(self.live.every_s, next_drain_s(drained, self.wait_s))
        self.live.show(drained, self.recorder.cost)

    def close(self) -> None:
        if self.failed:
            return
        try:
            self.recorder.close()
        except HostFailed as error:
            self.give_up(error)

    def give_up(self, error: HostFailed) -> None:
        self.failed = error.message
        self.live.warn(f"the recording ends here: {error.message}\n  hint: {error.hint}")


def record(options: SampleOptions, run: RunDirectory, live: Live, *, clock: Clock | None = None) -> Outcome:
    """Record into `run`, which has nothing in it yet. Raises BadInput or HostFailed before the command starts."""
    clock = clock or SystemClock()
    run.write_json("environment.json", fingerprint())
    with Signals() as signals:
        # DuckDB and numpy start threads: after the signals are blocked, or one of those would be given them.
        writer = SeriesWriter(run.series, clock=clock)
        with signals.as_before():  # else the probe would inherit it
            recorder, missing = _recorder(options, writer)
        began_cpu_ns = time.process_time_ns()
        recording = _Recording(recorder, live, wait_s=min(1.0, live.every_s))
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "command": list(options.command),
            "line": options.line or _line(options),
            "interval_ns": options.interval_ns,
            "sched": options.sched,
            "stacks": options.stacks,
            "pid": options.pid,
            "attached": options.pid is not None,
            "began_ns": clock.monotonic_ns(),
            "began_utc": clock.utc(),
            "sources": dict(recorder.sources),
            "notes": [*recorder.notes, *missing],
        }
        command: Foreground | None = None
        try:
            if options.command:
                command = Foreground(options.command, signals, options.environ)
                document["pid"] = command.pid
            try:
                run.write_json(SAMPLE_FILE, document)
            except HostFailed as error:
                recording.give_up(error)
            _until_the_end(options, recording, signals, command, clock)
        finally:
            ended_ns = clock.monotonic_ns()
            recording.close()
            live.finished()
        document |= {
            "ended_ns": ended_ns,
            "ended_utc": clock.utc(),
            "stopped": recording.stopped,
            "failed": recording.failed,
            "exit": None if command is None or command.ended is None else asdict(command.ended),
            "cost": asdict(recorder.cost),
            "own_cpu_ns": time.process_time_ns() - began_cpu_ns,
        }
        try:
            run.write_json(SAMPLE_FILE, document)
        except ContendError as error:  # the disk that took no series takes no words either, and that was said
            if not recording.failed:
                live.warn(error.message)
    return Outcome(None if command is None else command.ended, recording.stopped, not recording.failed)


def _recorder(options: SampleOptions, writer: SeriesWriter) -> tuple[Recorder, tuple[str, ...]]:
    """With histograms if they were asked for and can be had here; else why they are missing."""
    recorder, failed = start_recorder(
        writer, options.interval_ns / 1e6, source=options.source, sched=options.sched, stacks=options.stacks
    )
    if failed:
        what = "scheduler histograms" + (" and no off-CPU stacks" if options.stacks else "")
        return recorder, (f"no {what}: {failed}; run delay and switches are in process_use",)
    missing = options.stacks and "sched" not in recorder.sources
    return recorder, ("no off-CPU stacks: they need BPF, as the histograms do",) if missing else ()


def _until_the_end(
    options: SampleOptions, recording: _Recording, signals: Signals, command: Foreground | None, clock: Clock
) -> None:
    """Collect until the command has ended, or without one the time is over or somebody asks to stop."""
    until_ns = None if options.for_ns is None else clock.monotonic_ns() + options.for_ns
    due_ns = clock.monotonic_ns() + round(recording.wait_s * 1e9)
    followed = None if options.pid is None else Followed(options.pid)
    while command is None or not command.has_ended():
        if followed is not None and not recording.stopped and followed.has_ended():
            recording.stopped = "the process ended"
            return
        now = clock.monotonic_ns()
        if until_ns is not None and now >= until_ns:
            recording.stopped, until_ns = "the time was over", None
            recording.close()
            if command is None:
                return
        over = bool(recording.stopped or recording.failed)
        if command is None and over:
            return
        if now >= due_ns and not over:
            recording.collect()
            due_ns = clock.monotonic_ns() + round(recording.wait_s * 1e9)
            continue
        # With nothing left to record only the command's end is waited for.
        next_ns = now + 3600 * NS_PER_S if over else min(due_ns, until_ns or due_ns)
        what = signals.wait((next_ns - now) / NS_PER_S)
        if what is None:
            continue
        if what.si_signo == signal.SIGCHLD:
            if command is None or not command.has_ended():
                recording.collect()  # another child of ours has ended: the probe, and this says how
        elif command is None:
            recording.stopped = "interrupted"
            return
        else:
            command.pass_on(what)
    recording.stopped = recording.stopped or "the command ended"


def _line(options: SampleOptions) -> str:
    """The command that records the same again."""
    words = ["contend", "sample", "-i", exact_duration(options.interval_ns)]
    if options.for_ns is not None:
        words += ["--for", exact_duration(options.for_ns)]
    words += ["--source", options.source] if options.source != "auto" else []
    words += ["--sched", options.sched] if options.sched else []
    words += ["--off-cpu-stacks"] if options.stacks else []
    words += ["--pid", str(options.pid)] if options.pid is not None else []
    return shlex.join([*words, *(("--", *options.command) if options.command else ())])


def sample_directory(output: Path | None, runs: Path, stamp: str) -> RunDirectory:
    """Make the directory of a recording: `output`, new or empty, or a new one below `runs`. Raises BadInput, and
    HostFailed also where nothing could be recorded in it."""
    probe_installed()
    return RunDirectory.create(runs, "sample", stamp) if output is None else RunDirectory.at(output)
