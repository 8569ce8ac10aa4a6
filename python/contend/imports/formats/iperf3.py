"""iperf3's `--json` (and `--json-stream`), of TCP, UDP and SCTP.

Source: iperf3, src/iperf_api.c and iperf_tcp.c: `start.test_start` is what was asked, `end.sum_sent` and `end.sum_received`
are what the two ends counted, `end.sum` of UDP as long as that had only one. Intervals follow each other inside one
connection: they share its state, so they are no replicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contend.imports.document import Document, Readings, Run, finite, part
from contend.imports.json_text import Collectors
from contend.imports.source import Source

_SETTINGS = (
    "num_streams", "blksize", "omit", "duration", "bytes", "blocks", "reverse", "bidir", "tos", "target_bitrate", "fqrate",
)  # fmt: skip


def is_mine(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    stream = document.get("event") == "start" and isinstance(document.get("data"), Mapping)
    start = document.get("data" if stream else "start")
    return (stream or "intervals" in document or "end" in document) and isinstance(start, Mapping)


def read(source: Source) -> Document:
    whole = _of_stream(source.documents()) if "event" in source.json.first else source.document()
    start = part(whole, "start", source.name)
    version = str(start.get("version", ""))
    if "error" in whole:
        return Document(version, (Run("iperf3", {}, (), 0, error=f"iperf3 said: {whole['error']}"),))
    test = part(start, "test_start", source.name)
    settings = {name: str(test[name]) for name in _SETTINGS if test.get(name)}
    host = start.get("connecting_to", {}).get("host")
    if host:
        settings["host"] = str(host)
    end = part(whole, "end", source.name)
    stamp = start.get("timestamp", {}).get("timesecs")
    began = None if stamp is None else finite(stamp, source.name, "start.timestamp.timesecs")
    protocol = str(test.get("protocol", "TCP"))
    ends = [("", end), ("_reverse", _reversed(end))]  # --bidir: the other way at the same time
    readings = Readings(source.name)
    seconds = 0.0
    for suffix, of in ends:
        if of:
            seconds = max(seconds, _one_way(readings, of, protocol, suffix, source.name))
    cpu = end.get("cpu_utilization_percent", {})
    for name, key in (("client_cpu", "host_total"), ("server_cpu", "remote_total")):
        if key in cpu:
            readings.add(name, cpu[key], "%", "lower", at=f"end.cpu_utilization_percent.{key}")
    ended = None if began is None else began + seconds
    intervals = whole.get("intervals")
    samples = (intervals.count if isinstance(intervals, _Intervals) else 0) or 1
    return Document(version, (Run(protocol, settings, readings.done(), samples, began, ended),))


def _one_way(readings: Readings, of: Mapping[str, Any], protocol: str, suffix: str, where: str) -> float:
    """Throughput as received, where that is known, and what was lost; how long it took, in s."""
    received = of.get("sum_received") or {}
    both = of.get("sum") or {}
    sent = of.get("sum_sent") or {}
    # A client that did not get the server's figures has 0 bytes there.
    counted = received if received.get("bytes") else both or sent
    readings.add(
        f"throughput{suffix}", counted.get("bits_per_second"), "bit/s", "higher", at="end bits_per_second"
    )
    if "retransmits" in sent:
        readings.add(f"retransmits{suffix}", sent["retransmits"], "count", "lower")
    if protocol == "UDP":
        lost = received if "lost_percent" in received and received.get("packets") else both
        if "lost_percent" in lost:
            readings.add(f"lost_percent{suffix}", lost["lost_percent"], "%", "lower")
            readings.latency(f"jitter{suffix}", lost.get("jitter_ms"), scale=1e-3, at="jitter_ms")
    return finite(counted.get("seconds", 0), where, "end seconds")


def _reversed(end: Mapping[str, Any]) -> dict[str, Any]:
    mark = "_bidir_reverse"
    return {key.removesuffix(mark): value for key, value in end.items() if key.endswith(mark)}


class _Intervals:
    """How many there are; their figures are within one run's."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, item: Any) -> None:
        self.count += 1


COLLECTORS: Collectors = {".intervals": _Intervals}


def _of_stream(documents: Iterable[Any]) -> dict[str, Any]:
    """`--json-stream` as the one document of `--json`."""
    intervals = _Intervals()
    whole: dict[str, Any] = {"intervals": intervals}
    for event in documents:
        name, data = (event.get("event"), event.get("data")) if isinstance(event, Mapping) else ("", None)
        if name == "interval":
            intervals.add(data)
        elif name in ("start", "end", "error"):
            whole[name] = data
    return whole
