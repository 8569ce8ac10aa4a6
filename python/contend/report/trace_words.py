"""A trace in one sentence."""

from __future__ import annotations

from contend.store.trace_summary import TraceSummary
from contend.units import format_duration


def answer(summary: TraceSummary) -> str:
    """The greatest of each kind, in one sentence."""
    said = []
    if summary.spans:
        span = summary.spans[0]
        said.append(f"{span.name} took most time itself ({format_duration(span.self_ns)})")
    if summary.locks and summary.locks[0].wait_ns and summary.locks[0].is_held:
        lock = summary.locks[0]
        known = [holder.name for holder in lock.holders[:1] if holder.name != "unknown"]
        by = f", held by {known[0]}" if known else ""
        said.append(f"{lock.name} was waited for longest ({format_duration(lock.wait_ns)}{by})")
    if summary.repeated and summary.repeated[0].remote:
        row = summary.repeated[0]
        said.append(f"{row.parent} calls {row.child} up to {row.most:,} times")
    return "; ".join(said) + "." if said else "Nothing was recorded."
