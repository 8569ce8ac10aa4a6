"""JMeter's results as CSV (a .jtl file of `jmeter -n -l FILE`, or of a listener), with its header line.

Source: JMeter's manual, Listeners, "CSV Log format" and the glossary: timeStamp is when the sample began, in ms since the
epoch; elapsed is in ms, to the last byte. A thread sends its next request when the last was answered: a closed loop.
"""

from __future__ import annotations

import datetime
from array import array
from dataclasses import dataclass, field

from contend.imports.document import Document, Line, Readings, Run, finite
from contend.imports.source import Source
from contend.ranks import interpolated

COLUMNS = {"timeStamp", "elapsed", "label"}
_PERCENTILES = (90, 95, 99)  # those of JMeter's own aggregate report
_STAMPS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")


@dataclass
class _Label:
    elapsed: array[float] = field(default_factory=lambda: array("d"))
    failed: int = 0
    first: float = float("inf")
    last: float = float("-inf")


def is_mine_table(columns: list[str]) -> bool:
    return set(columns) >= COLUMNS


def read(source: Source) -> Document:
    columns, _ = source.header()
    if not is_mine_table(columns):
        raise source.bad(
            f"it has no columns {', '.join(sorted(COLUMNS))}",
            "JMeter writes them with -Jjmeter.save.saveservice.output_format=csv and print_field_names=true",
        )
    labels: dict[str, _Label] = {}
    threads: set[str] = set()
    where = Line(source.name)
    for line, row in source.rows():
        where.number = line
        if row["timeStamp"] == "timeStamp":
            raise source.bad(
                f"line {line} is a header again: a second test was appended to it",
                "a file a run: part it there",
            )
        if (of := labels.get(row["label"])) is None:
            of = labels[row["label"]] = _Label()
        took = finite(row["elapsed"], where, "elapsed")
        began = _moment(row["timeStamp"], where)
        of.elapsed.append(took)
        ended = began + took / 1000
        if began < of.first:
            of.first = began
        if ended > of.last:
            of.last = ended
        of.failed += row.get("success", "true").lower() == "false"
        threads.add(row.get("threadName", ""))
    if not labels:
        raise source.bad("it has a header and no sample", "did the test end before its first request?")
    settings = {"threads": str(len(threads))} if "threadName" in columns else {}
    return Document("", tuple(_run(name, of, settings, source) for name, of in labels.items()))


def _run(label: str, of: _Label, settings: dict[str, str], source: Source) -> Run:
    readings = Readings(f"{source.name}: label {label}", "closed")
    ordered, span = sorted(of.elapsed), of.last - of.first
    if span > 0:
        readings.add("throughput", len(ordered) / span, "req/s", "higher")
    readings.latency("elapsed_mean", sum(ordered) / len(ordered), scale=1e-3)
    readings.latency("elapsed_median", interpolated(ordered, 0.5), scale=1e-3)
    for share in _PERCENTILES:
        readings.latency(f"elapsed_p{share}", interpolated(ordered, share / 100), scale=1e-3)
    readings.loop = ""
    readings.add("error_share", 100 * of.failed / len(ordered), "%", "lower")
    return Run(label, settings, readings.done(), len(ordered), of.first, of.last)


def _moment(text: str, where: Line) -> float:
    """Seconds since the epoch; of a stamp in words, as if of UTC, since it names no zone."""
    # As it is by default; of a million samples each try below would tell.
    if text.isdecimal() and text.isascii():
        return finite(text, where, "timeStamp") / 1000
    for form in _STAMPS:
        try:
            return datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC).timestamp()
        except ValueError:
            continue
    return finite(text, where, "timeStamp") / 1000
