"""Serialising's part of a call: both ends under `contend trace`, by the CPU time of its spans in oslo.messaging and kombu.

The ends are traced from their start, so what the trace costs is in the whole, too: a span with CPU times takes 1.5 µs
(docs/results/trace-calls.md).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.store.trace_summary import TraceSummary, summarise
from contend.trace import launch
from contend.workloads.drivers.rpc import trial

# Of each part, its spans: the message as JSON, which is a text in the envelope; and what goes over the wire.
PARTS = {
    "message": ("rpc serialise message", "rpc deserialise message"),
    "wire": ("rpc serialise envelope", "rpc deserialise envelope"),
}
_SERVED = "rpc serve "


def run(
    broker: trial.Broker,
    options: trial.CallOptions,
    out: Path,
    remove: Callable[[Sequence[str], Sequence[str]], None],
) -> dict[str, Any]:
    """Run `trial.run` at saturation, and add `serialising`: CPU seconds for a call, and their share of both ends'.

    Raises what that raises, and HostFailed for a trace that is not whole.
    """
    traces = out / "traces"
    wanted = launch.TraceOptions(
        traces,
        overflow="block",
        cpu_times=True,
        gil=False,
        gc=False,
        io=False,
        blocked_after_ms=0,
        digests=False,
    )
    traces.mkdir()
    try:
        environment = launch.environment(wanted, {**os.environ, **broker.environment})
        document = trial.run(
            replace(broker, environment=environment), replace(options, rate=0.0), out, remove
        )
        document["serialising"] = shares(summarise(traces), document["saturation"]["cpu_s_per_call"]["ends"])
    finally:
        shutil.rmtree(traces, ignore_errors=True)
    return document


def shares(summary: TraceSummary, ends_s: float) -> dict[str, Any]:
    """Shares of serialising in both ends' trace. ends_s: CPU seconds of a call. Counts every call served, the first too."""
    if lost := summary.counts.get("lost", 0):
        raise HostFailed(f"the trace lost {lost} events", hint="is the disk full?")
    spans = {span.name: span for span in summary.spans}
    calls = sum(span.count for name, span in spans.items() if name.startswith(_SERVED))
    if not calls:
        raise HostFailed(
            "the trace has no call", hint="which version of oslo.messaging is it? contend doctor"
        )
    parts = {
        part: sum(spans[name].cpu_ns for name in names if name in spans) / calls / 1e9
        for part, names in PARTS.items()
    }
    cpu_s = sum(parts.values())
    return {"calls": calls, "cpu_s_per_call": {**parts, "all": cpu_s}, "share": cpu_s / ends_s}
