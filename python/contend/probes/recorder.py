"""contend-probe with its series on the way to disk: what a run and `contend sample` record with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contend.errors import HostFailed
from contend.probes.base import Cost
from contend.probes.client import Drained, ProbeProcess, record_all
from contend.probes.series import SeriesWriter

# The probe holds 64 MiB: ten thousand processes that all change ten times a second fill that in four seconds, a
# hundred in seven minutes. A drain is due when this many values may have come together, and at the latest after:
DRAIN_VALUES = 1 << 20
DRAIN_S = 10.0


class Recorder:
    """A running probe whose rows go to a series directory. Ends with `close`, or with this process.

    >>> import tempfile
    >>> from pathlib import Path
    >>> place = Path(tempfile.mkdtemp())
    >>> recorder = Recorder({"interval_ms": 5, "host": True}, SeriesWriter(place))
    >>> recorder.close()
    >>> sorted(path.name for path in place.iterdir())[0]
    'cpu-0000.parquet'
    """

    def __init__(self, config: Mapping[str, Any], writer: SeriesWriter) -> None:
        """Start it. `config`: see crates/probe/src/config.rs. Raises BadInput or HostFailed."""
        self._writer = writer
        self._probe = ProbeProcess(config)
        self._lock = threading.Lock()  # `collect` is called from a thread of ours and from the caller's
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed: HostFailed | None = None
        self._closed = False
        self._see: Callable[[Drained], None] | None = None
        self._every_s = DRAIN_S
        self.cost = Cost(cpu_ns=0, samples=0)

    @property
    def pid(self) -> int:
        return self._probe.pid

    @property
    def sources(self) -> Mapping[str, str]:
        """Where each part's figures come from."""
        return self._probe.sources

    @property
    def notes(self) -> tuple[str, ...]:
        """Shortcomings of the recording, for people."""
        return self._probe.notes

    def collect(self) -> Drained:
        """Write what was recorded since the last time. Does nothing after the end.

        Raises HostFailed, once, when the probe has died (ProbeEnded) or the disk is full; recording has ended then.
        """
        with self._lock:
            if self._failed is not None:
                failed, self._failed = self._failed, None
                raise failed
            return self._collect()

    def _collect(self, *, later: bool = False) -> Drained:
        if self._closed:
            return Drained({}, self.cost)
        try:
            drained = self._probe.drain()
            self._keep(drained, later=later)
        except HostFailed:
            self._abandon()
            raise
        return drained

    def _keep(self, drained: Drained, *, later: bool = False) -> None:
        self.cost = drained.cost
        if self._see is not None:
            self._see(drained)
        self._writer.add(drained.coded, later=later)

    def collect_in_background(
        self, see: Callable[[Drained], None] | None = None, every_s: float = DRAIN_S
    ) -> None:
        """Collect from a thread of our own, so that a trial of an hour does not overflow the probe.

        It wakes every ten seconds at most and finds little to do: what it takes over is written by the next `collect`,
        between two trials, unless it is more than memory should hold. An error waits for that too. see: is given all
        rows as they come, from whichever thread collects, at the latest after `every_s`.
        """
        self._see, self._every_s = see, every_s
        self._thread = threading.Thread(target=self._background, name="contend-recorder", daemon=True)
        self._thread.start()

    def _background(self) -> None:
        wait_s = self._every_s
        while not self._stop.wait(wait_s):
            with self._lock:
                try:
                    drained = self._collect(later=True)
                except HostFailed as error:
                    self._failed = error
                    return
            wait_s = min(self._every_s, next_drain_s(drained, wait_s))

    def close(self) -> None:
        """Take a last sample, write everything, merge small files and end the probe. Idempotent. Raises as
        `collect`."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            if self._closed:
                failed, self._failed = self._failed, None
                if failed is not None:
                    raise failed
                return
            try:
                self._keep(self._probe.stop())
                self._writer.close()
            except HostFailed:
                self._abandon()
                raise
            self._closed = True

    def _abandon(self) -> None:
        """End what still runs, keep what can be kept, and say nothing more: the first error is the one that counts."""
        self._closed = True
        for end in (self._probe.stop, self._writer.close):
            try:
                end()
            except HostFailed:
                continue


def start_recorder(
    writer: SeriesWriter,
    interval_ms: float,
    *,
    cpus: Sequence[int] | None = None,
    sched: str = "",
    **options: Any,
) -> tuple[Recorder, str]:
    """Start a recorder with histograms of the scheduler where possible; also returns why it has none, "" where it has.

    Arguments are those of `client.record_all`. Raises as Recorder does.
    """
    try:
        return Recorder(record_all(interval_ms, cpus=cpus, sched=sched, **options), writer), ""
    except HostFailed as error:
        if not sched:
            raise
        plain = {key: value for key, value in options.items() if key != "stacks"}
        return Recorder(record_all(interval_ms, cpus=cpus, **plain), writer), error.message


def next_drain_s(drained: Drained, waited_s: float) -> float:
    """Seconds until the next drain: before DRAIN_VALUES have come together at the rate of the last time.

    >>> from contend.probes.base import Coded
    >>> import numpy as np
    >>> next_drain_s(Drained({"t": Coded({"t_ns": np.zeros(1 << 22)}, {})}, Cost(0, 0)), 10.0)
    2.5
    """
    values = sum(len(table) * len(table.columns) for table in drained.coded.values())
    return min(DRAIN_S, max(0.1, waited_s * DRAIN_VALUES / max(values, 1)))
