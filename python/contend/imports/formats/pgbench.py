"""pgbench's text, of PostgreSQL 9.6 and later, with or without progress (-P) and statements (-r).

Source: PostgreSQL documentation, pgbench, and src/bin/pgbench/pgbench.c (printResults). With -R a transaction's latency
counts from when it was due, which includes what it waited for those before it: an open loop.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence

from contend.imports.document import Document, Readings, Run, finite
from contend.imports.source import Source

_BEGINS = r"^transaction type: *(.*)$"
# Its own head, or the first line of progress: results may stand far below.
_MARKS = r"^(pgbench \(|progress: [\d.]+ s, [\d.]+ tps, |transaction type: )"
_SETTINGS = (
    "scaling factor", "query mode", "number of clients", "number of threads", "maximum number of tries", "duration",
    "number of transactions per client",
)  # fmt: skip
_TPS = (
    r"^tps = (\S+) \((?:without initial connection time|excluding connections establishing|including reconnection times)"
    r"\)"
)
_STATEMENT = re.compile(r"^\s+(\d+\.\d+)(?:\s+\d+){0,2}\s+(\S.*)$")
_ABORTED = re.compile(
    r"^(?:pgbench: (?:error: )?)?(.*(?:aborted in (?:command|state) |(Run was aborted)).*)$", re.MULTILINE
)
SHOWN = 48


def is_mine(head: str) -> bool:
    return re.search(_MARKS, head, re.MULTILINE) is not None


def read(source: Source) -> Document:
    """Read each output in the file, one behind the other, as one run."""
    text = source.text
    starts = [m.start() for m in re.finditer(_BEGINS, text, re.MULTILINE)]
    if not starts:
        raise source.bad("it holds no results of pgbench", "keep what pgbench prints: pgbench … > FILE")
    ends = [*starts[1:], len(text)]
    many = len(starts) > 1
    runs = [
        _run(text[a:b], f"{source.name}{f', output {n}' if many else ''}", source, aborted)
        for n, (a, b, aborted) in enumerate(zip(starts, ends, _aborted(text, starts), strict=True), 1)
    ]
    version = re.search(r"^pgbench \(([^)\s]+)", text, re.MULTILINE) or re.search(
        r"^pgbench \(PostgreSQL\) (\S+)", text, re.MULTILINE
    )
    return Document(version[1] if version else "", tuple(runs))


def _aborted(text: str, starts: Sequence[int]) -> list[str]:
    """List pgbench's message on each run that was aborted; "" for the others. starts: where their results begin.

    Of a client it speaks before the results, of the run behind them. Before version 12 it also wrote the latter at once,
    and the results last (src/bin/pgbench/pgbench.c, src/common/logging.c).

    >>> _aborted("transaction type: a\\nclient 0 aborted in command 1\\ntransaction type: b\\nRun was aborted", [0, 51])
    ['', 'client 0 aborted in command 1']
    """
    messages, of_clients = [""] * len(starts), -1
    for match in _ABORTED.finditer(text):
        begun = bisect.bisect(starts, match.start())
        if match[2] is None:
            of_clients = begun
        is_behind = match[2] is not None and begun != of_clients
        run = min(max(0, begun - 1 if is_behind else begun), len(starts) - 1)
        messages[run] = messages[run] or match[1]
    return messages


def _short_of(lines: Mapping[str, str]) -> str:
    """Say that a run of so many transactions a client (-t) ended before them, as one whose message went elsewhere; else "".

    >>> _short_of({"number of transactions actually processed": "9/100"})
    'pgbench processed 9 of 100 transactions'
    """
    processed = re.match(r"(\d+)/(\d+)", lines.get("number of transactions actually processed", ""))
    if processed is None:
        return ""
    others = ("number of failed transactions", "number of transactions skipped")
    ended = sum(int(count[0]) for name in others if (count := re.match(r"\d+", lines.get(name, ""))))
    done, wanted = int(processed[1]), int(processed[2])
    return "" if done + ended >= wanted else f"pgbench processed {done} of {wanted} transactions"


def _run(text: str, where: str, source: Source, aborted: str) -> Run:
    script = re.search(_BEGINS, text, re.MULTILINE)
    label = re.sub(r"^<builtin: (.*)>$", r"\1", script[1].strip()) if script else "pgbench"
    lines = dict(re.findall(r"^([a-z][a-z ]+): (.+)$", text, re.MULTILINE))
    settings = {name: lines[name].strip() for name in _SETTINGS if name in lines}
    throttled = "rate limit schedule lag" in lines
    if aborted:
        return Run(label, settings, (), 0, error=f"pgbench said: {aborted}")
    tps = re.search(_TPS, text, re.MULTILINE)
    done = re.match(r"\d+", lines.get("number of transactions actually processed", ""))
    if not (tps and done):
        raise source.bad(
            "pgbench's output ends before its tps", "had it ended? leave the file out, or run it again"
        )
    if short := _short_of(lines):
        return Run(label, settings, (), 0, error=short)
    readings = Readings(where)
    readings.add("tps", tps[1], "tx/s", "higher")
    failed = re.search(r"\(([\d.]+)\s*%\)", lines.get("number of failed transactions", ""))
    if failed:
        readings.add("failed_transactions", failed[1], "%", "lower")
    if throttled:
        settings["rate"] = "limited"
        lag = re.search(r"avg ([\d.]+) \(max ([\d.]+)\) ms", lines["rate limit schedule lag"])
        if lag:
            readings.latency("schedule_lag_avg", lag[1], scale=1e-3)
    readings.loop = "open" if throttled else "closed"
    for name in ("average", "stddev"):
        value = re.search(rf"^latency {name} ?[=:] (\S+) ms", text, re.MULTILINE)
        if value:
            readings.latency("latency_avg" if name == "average" else "latency_stddev", value[1], scale=1e-3)
    connection = re.search(r"^initial connection time = (\S+) ms", text, re.MULTILINE)
    readings.loop = "closed"  # statements and connections are timed from their own start, with -R too
    if connection:
        readings.latency("initial_connection", connection[1], scale=1e-3)
    _statements(text, readings)
    return Run(label, settings, readings.done(), int(finite(done[0], where, "transactions")))


def _statements(text: str, readings: Readings) -> None:
    """-r: the mean latency of each statement, by its text."""
    begin = re.search(r"^\s*(?:- )?statement latencies in milliseconds.*$", text, re.MULTILINE)
    if begin is None:
        return
    taken = {reading.name for reading in readings.rows}
    for line in text[begin.end() :].splitlines():
        match = _STATEMENT.match(line)
        if match is None:
            continue
        short = match[2] if len(match[2]) <= SHOWN else f"{match[2][: SHOWN - 1]}…"
        name, number = short, 2
        while name in taken:
            name, number = f"{short} ({number})", number + 1
        taken.add(name)
        readings.latency(name, match[1], scale=1e-3)
