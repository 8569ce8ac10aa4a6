"""The summary of a recording for the terminal: plain columns, no wider than 80; below that a line a figure."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence

from contend.contention.alibi.verdict import Alibi
from contend.sample.summary import Consumer, Measure, Summary
from contend.text.masking import mask
from contend.units import NS_PER_S, format_duration, format_value

WIDTH, LEAST_WIDTH = 80, 40
_VERDICTS = {
    "cpu": "CPU",
    "steal": "Stolen by the hypervisor",
    "throttling": "Throttled by a quota",
    "thread": "One thread",
    "idle": "Nothing at its limit: look at the software",
    "unknown": "Not known",
}
_SYSTEM_CALL = re.compile(r"^__[a-z0-9]+_sys_")  # what the architecture puts before its name
LISTS = {
    "cpu": "CPUs",
    "run_delay": "tasks waiting for a CPU",
    "io": "disk",
    "memory": "memory",
}


def lines(summary: Summary, width: int = WIDTH) -> Iterator[str]:
    """The lines of the summary: the verdict, then the table. width: of the terminal."""
    wide = min(max(width, LEAST_WIDTH), WIDTH)
    if summary.verdict is not None:
        yield from textwrap.wrap(mask(summary.verdict.text), wide, subsequent_indent="  ")
        if summary.command_alibi is not None:
            yield from textwrap.wrap(mask(summary.command_alibi.text), wide, subsequent_indent="  ")
        yield ""
    recording = summary.recording
    head = f"{format_duration(summary.length_s * NS_PER_S)} at {format_duration(recording['interval_ns'])}"
    if wide < WIDTH:
        yield from _narrow(summary, head, wide)
    else:
        yield from _measures(summary, head)
    if summary.top:
        yield ""
        yield from _consumers(summary, wide)
    if summary.stacks:
        yield ""
        yield from _stacks(summary, wide)
    yield ""
    yield from _own(summary, wide)


def _measures(summary: Summary, head: str) -> Iterator[str]:
    yield f"{'Host, ' + head:<46}{'mean':>10} {'p95':>10} {'max':>10}"
    before = ""
    for measure in summary.host:
        resource = measure.resource if measure.resource != before else ""
        before = measure.resource
        what = " ".join(part for part in (measure.subject, _what(measure, summary)) if part)
        figures = " ".join(f"{value(x, measure.unit):>10}" for x in (measure.mean, measure.p95, measure.max))
        yield f"  {resource:<9}{what[:34]:<35}{figures}".rstrip()


def _narrow(summary: Summary, head: str, wide: int) -> Iterator[str]:
    """A line for each quantity, and its figures below."""
    yield f"Host, {head}"
    for measure in summary.host:
        what = " ".join(filter(None, (measure.resource, measure.subject, _what(measure, summary))))
        yield from textwrap.wrap(what, wide, initial_indent="  ", subsequent_indent="    ")
        figures = (("mean", measure.mean), ("p95", measure.p95), ("max", measure.max))
        text = ", ".join(f"{name} {value(x, measure.unit)}" for name, x in figures)
        yield from textwrap.wrap(text, wide, initial_indent="    ", subsequent_indent="    ")


def verdict_words(alibi: Alibi) -> str:
    """A few words for the resource that was the limit.

    >>> from contend.contention.alibi.verdict import Alibi
    >>> verdict_words(Alibi("disk", "vda", (), {}, (), (), 0, 1)), verdict_words(Alibi("idle", "", (), {}, (), (), 0, 1))
    ('Disk: vda', 'Nothing at its limit: look at the software')
    """
    words = _VERDICTS.get(alibi.verdict, alibi.verdict.capitalize())
    return f"{words}: {alibi.subject}" if alibi.subject else words


def _what(measure: Measure, summary: Summary) -> str:
    if (measure.resource, measure.what) == ("CPU", "busy"):
        return f"busy, of {summary.cpus} CPUs"
    if (measure.resource, measure.what) == ("memory", "available") and summary.memory_bytes:
        return f"available, of {value(summary.memory_bytes, 'B')}"
    return measure.what


def value(number: float, unit: str) -> str:
    """A figure with its unit, bytes in powers of two, as memory and file sizes are told.

    >>> value(3 * 2**30, "B"), value(88.1, "%"), value(0.98, "CPUs"), value(0.0012, "s"), value(0, "B/s")
    ('3.00 GiB', '88.1 %', '0.98', '1.2 ms', '0 B/s')
    """
    if unit in ("B", "B/s"):
        for prefix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if number >= size:
                return (
                    f"{number / size:.2f} {prefix}{unit}"
                    if number < 10 * size
                    else f"{number / size:.0f} {prefix}{unit}"
                )
        return f"{number:.0f} {unit}"
    if unit == "s":
        return format_value(number, "s")
    if unit == "1/s":
        return format_value(number, "count")
    if unit == "%":
        return f"{number:.1f} %"
    return f"{number:.2f}"


def _consumers(summary: Summary, wide: int) -> Iterator[str]:
    """Two lists beside each other, and two below; or one below the other."""
    yield "Top consumers"
    lists = [(LISTS[by], by, consumers) for by, consumers in summary.top.items()]
    for pair in (lists[:2], lists[2:]) if wide == WIDTH else [[one] for one in lists]:
        yield ("  " + " ".join(f"{title:>10}{'':<28}" for title, _, _ in pair)).rstrip()
        for row in range(max(len(consumers) for _, _, consumers in pair)):
            cells = (
                _consumer(by, consumers[row]) if row < len(consumers) else "" for _, by, consumers in pair
            )
            yield ("  " + " ".join(f"{cell:<38}" for cell in cells)).rstrip()
    busy = [c.name for c in summary.top["cpu"] if c.busiest_thread is not None and c.busiest_thread > 0.9]
    if busy:
        threads = f"  with a thread on a CPU for more than 90 % of an interval: {', '.join(busy)}"
        yield from textwrap.wrap(threads, wide, subsequent_indent="    ")


def _consumer(by: str, consumer: Consumer) -> str:
    unit = {"cpu": "CPUs", "run_delay": "s/s", "io": "B/s", "memory": "B"}[by]
    count = f" ×{consumer.processes}" if consumer.processes > 1 else ""
    return f"{value(consumer.value, unit):>10}  {consumer.name[: 26 - len(count)]}{count}"


def _stacks(summary: Summary, wide: int) -> Iterator[str]:
    """Time, program, times, and below it the calls: as many as a line holds."""
    title = "Longest off the CPU, by where (sleeping on purpose counts too)"
    yield from textwrap.wrap(title, wide, subsequent_indent="  ")
    for stack in summary.stacks:
        yield f"  {value(stack.off_cpu_s, 's'):>10}  {stack.subject[: min(40, wide - 26)]} ×{stack.count:,}"
        yield f"{'':14}{_where(stack.frames, wide - 16)}"


def _where(frames: Sequence[str], width: int) -> str:
    """The kernel's innermost call and its outermost, mostly the system call; then those of the program that fit.

    >>> _where(["main+0x1", "libc.so.6+0x2", "__x64_sys_read_[k]", "vfs_read_[k]", "pipe_read_[k]"], 64)
    'pipe_read ← … ← read | libc.so.6+0x2 ← main+0x1'
    """
    kernel = [_SYSTEM_CALL.sub("", f).removesuffix("_[k]") for f in reversed(frames) if f.endswith("_[k]")]
    program = [frame for frame in reversed(frames) if not frame.endswith("_[k]")]
    words = " ← ".join([kernel[0], "…", kernel[-1]] if len(kernel) > 2 else kernel)
    for at, frame in enumerate(program):
        more = frame if not words else f"{words} {'←' if at else '|'} {frame}"
        if len(more) > width - 4:
            return f"{words} {'←' if at else '|'} …"[:width]
        words = more
    return words[:width] or "(where is not known)"


def _own(summary: Summary, wide: int) -> Iterator[str]:
    recording = summary.recording
    cost = recording.get("cost")
    sources = ", ".join(f"{part} from {source}" for part, source in recording.get("sources", {}).items())
    yield from textwrap.wrap(
        f"Recorded {sources or 'nothing'}; {summary.samples} samples.", wide, subsequent_indent="  "
    )
    if summary.lateness is not None:
        late = summary.lateness
        late_words = (
            f"  late by {format_duration(late.median_ns)} (median), {format_duration(late.p99_ns)} (p99),"
            f" {format_duration(late.max_ns)} (max)"
        )
        yield from textwrap.wrap(late_words, wide, subsequent_indent="    ")
    if cost is not None and summary.probe_share is not None:
        missed = f"; {cost['dropped']} records were missed" if cost["dropped"] else ""
        missed += f"; {cost['errors']} reads failed ({cost['last_error']})" if cost["errors"] else ""
        own = recording.get("own_cpu_ns", math.nan) / NS_PER_S / max(summary.length_s, 1e-9)
        around = f", contend around it {own * 100:.2g} %" if math.isfinite(own) else ""
        bpf = f", BPF {format_duration(cost['bpf_ns'])} of it" if cost["bpf_ns"] else ""
        cost_words = f"  cost: the probe {summary.probe_share * 100:.2g} % of one CPU{bpf}{around}{missed}"
        yield from textwrap.wrap(mask(cost_words), wide, subsequent_indent="    ")
    for note in recording.get("notes", ()):
        yield from textwrap.wrap(mask(f"  note: {note}"), wide, subsequent_indent="    ")
    if recording.get("failed"):
        yield f"  incomplete: {recording['failed']}"
    elif "ended_ns" not in recording:
        yield "  incomplete: contend was ended before the recording was"
