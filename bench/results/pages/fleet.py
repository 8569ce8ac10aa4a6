"""A fleet, one worker of which is killed and one host cut off."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """What was lost."""
    clock = d["found_offset"]
    off_us = abs(clock["offset_ns"] - d["injected_offset_ns"]) / 1e3
    rows = [
        ["counted trials planned", f"{d['planned']} ({d['hosts']} hosts × {d['counted_trials_each']})"],
        ["rows lost", d["lost"]],
        ["rows doubled", d["doubled"]],
        ["rows in all, with the pilot and what was tried again", d["rows"]],
        ["said to be missing before it was resumed", d["missing_said"]],
        ["left on the hosts afterwards", f"{len(d['left_behind'])} things"],
        [
            f"h5's clock, put {d['injected_offset_ns'] / 1e9:.0f} s ahead by a time namespace",
            f"found within {off_us:.0f} µs; its bound was {clock['bound_ns'] / 1e3:.0f} µs",
        ],
    ]
    return f"""\
{d["hosts"]} hosts: network namespaces of one machine, each with an SSH server, a state directory and a worker of its own; they
share its processors, so that times of trials mean nothing here. The worker of h2 was killed by SIGKILL, the cable of h7 pulled
out for good; then it was plugged in and the run resumed.

{table(["", ""], rows)}"""
