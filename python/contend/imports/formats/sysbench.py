"""sysbench's text, of 1.0 and of 1.1, which is what its master branch is: cpu, memory, fileio, threads, mutex, OLTP.

Source: github.com/akopytov/sysbench, 1.0.20 and 3ceba0b (1.1): src/sysbench.c (print_run_mode, sb_report_cumulative),
src/db_driver.c (db_report_cumulative), src/tests/*/sb_*.c (file_report_cumulative) and src/lua/internal. 1.1 has
"Throughput" in place of "General statistics", and of fileio neither the time nor the number of events. With --rate an
event waits in a queue, and its latency counts from when it was put there (sb_timer_stop adds queue_time): an open loop.
"""

from __future__ import annotations

import re

from contend.imports.document import Document, Readings, Run, finite
from contend.imports.source import Source

_NUMBER = r"([0-9.]+|-?nan|-?inf)"
# Label: what tells the test apart.
_TESTS = (
    ("cpu", r"^CPU speed:"),
    ("memory", r"^Running memory speed test"),
    ("fileio", r"^(?:File operations:|\s+read:\s+IOPS=)"),
    ("OLTP", r"^SQL statistics:"),
)
# Name, pattern, unit, scale to it; of any test. The first that is found is the headline.
_RATES = (
    ("transactions", rf"^\s+transactions:\s+\d+\s+\({_NUMBER} per sec\.\)", "tx/s", 1.0),
    ("queries", rf"^\s+queries:\s+\d+\s+\({_NUMBER} per sec\.\)", "queries/s", 1.0),
    ("events", rf"^\s+events per second:\s+{_NUMBER}", "events/s", 1.0),
    ("bandwidth", rf"^\S+ MiB transferred \({_NUMBER} MiB/sec\)", "MiB/s", 1.0),
    ("operations", rf"^Total operations: \d+ \({_NUMBER} per second\)", "op/s", 1.0),
    ("reads", rf"^\s+(?:reads/s:\s+|read:\s+IOPS=){_NUMBER}", "op/s", 1.0),
    ("writes", rf"^\s+(?:writes/s:\s+|write:\s+IOPS=){_NUMBER}", "op/s", 1.0),
    ("fsyncs", rf"^\s+(?:fsyncs/s:\s+|fsync:\s+IOPS=){_NUMBER}", "op/s", 1.0),
    ("read_bandwidth", rf"^\s+(?:read, MiB/s:|read:\s+IOPS=\S+)\s+{_NUMBER}", "MiB/s", 1.0),
    ("write_bandwidth", rf"^\s+(?:written, MiB/s:|write:\s+IOPS=\S+)\s+{_NUMBER}", "MiB/s", 1.0),
)
_EVENTS_A_SECOND = rf"^\s+events/s \(eps\):\s+{_NUMBER}"
_WHOLE_FILEIO = re.compile(r"^\s+fsync:\s+IOPS=.*^\s+sum:\s", re.MULTILINE | re.DOTALL)
"""Of 1.1: its last line."""
_BEGINS = r"^sysbench \d"


def is_mine(head: str) -> bool:
    return (
        re.search(r"^(sysbench \d|Running the test with following options:)", head, re.MULTILINE) is not None
    )


def read(source: Source) -> Document:
    """Read each output in the file, one behind the other, as one run."""
    text = source.text
    starts = [m.start() for m in re.finditer(_BEGINS, text, re.MULTILINE)] or [0]
    parts = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    version = re.search(r"^sysbench (\S+)", text, re.MULTILINE)
    many = len(parts) > 1
    runs = [
        _run(part, f"{source.name}{f', output {n}' if many else ''}", source)
        for n, part in enumerate(parts, 1)
    ]
    return Document(version[1] if version else "", tuple(runs))


def _run(text: str, where: str, source: Source) -> Run:
    label = next((name for name, mark in _TESTS if re.search(mark, text, re.MULTILINE)), "threads")
    settings = _settings(text)
    fatal = re.search(r"^(?:FATAL|ALERT): (.+)$", text, re.MULTILINE)
    if fatal:
        return Run(label, settings, (), 0, error=f"sysbench said: {fatal[1]}")
    took = re.search(rf"^\s+(?:total time|time elapsed):\s+{_NUMBER}s", text, re.MULTILINE)
    events = re.search(r"^\s+total number of events:\s+(\d+)", text, re.MULTILINE)
    if not ((took and events) or _WHOLE_FILEIO.search(text)):
        raise source.bad(
            "sysbench's output ends before its statistics",
            "had it ended? leave the file out, or run it again",
        )
    readings = Readings(where)
    for name, pattern, unit, scale in _RATES:
        match = re.search(pattern, text, re.MULTILINE)
        # Fileio prints every rate; of what it did not do, 0.
        if match and not (unit in ("op/s", "MiB/s") and label == "fileio" and _zero(match[1])):
            readings.add(name, match[1], unit, "higher", scale=scale)
    if not readings.rows and took and events:
        took_s, own = finite(took[1], where, "total time"), re.search(_EVENTS_A_SECOND, text, re.MULTILINE)
        if took_s == 0:
            raise source.bad("sysbench's total time is 0", "is it whole, and sysbench's own output?")
        readings.add("events", own[1] if own else int(events[1]) / took_s, "events/s", "higher")
    readings.loop = "open" if "Target transaction rate" in settings else "closed"
    latency = re.search(r"^Latency \(ms\):$(.*?)(?:^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if latency:
        for name, value in re.findall(
            rf"^\s+(avg|max|\d+th percentile):\s+{_NUMBER}\s*$", latency[1], re.MULTILINE
        ):
            if not (name.endswith("percentile") and _zero(value)):  # 0: --percentile=0 counts none
                short = f"p{name.partition('th ')[0]}" if name.endswith("percentile") else name
                readings.latency(f"latency_{short}", value, scale=1e-3)
    return Run(label, settings, readings.done(), int(events[1]) if events else 1)


def _zero(text: str) -> bool:
    return re.fullmatch(r"0+(\.0*)?", text) is not None


def _settings(text: str) -> dict[str, str]:
    """Settings that it prints between its head and its threads' start."""
    head = re.search(
        r"^Running the test with following options:$(.*?)(?:^Threads started!|\Z)", text, re.M | re.S
    )
    settings: dict[str, str] = {}
    for line in (head[1] if head else "").splitlines():
        line = line.strip()
        if not line or line.startswith(
            ("Initializing", "Report intermediate", "Running memory speed", "Doing", "Using")
        ):
            if line.startswith(("Doing", "Using")):
                settings["mode"] = ", ".join(filter(None, (settings.get("mode", ""), line)))
            continue
        name, colon, value = line.partition(": ")
        if colon:
            settings[name] = value.strip()
        else:
            settings["setup"] = ", ".join(filter(None, (settings.get("setup", ""), line)))
    return settings
