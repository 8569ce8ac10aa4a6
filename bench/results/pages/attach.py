"""Attaching to a process, and being killed meanwhile."""

from __future__ import annotations

from results.files import Data
from results.words import bounds, table


def body(d: Data) -> str:
    """Both parts, where they were measured."""
    parts = []
    if a := d.get("attaches"):
        stood = a["stood_still_median_us"]
        each = round(a["attaches"] / a["targets"])
        parts.append(f"""\
A Python program that checks its own results, with 5,000 signals a second handled on an alternate stack, threads that come and
go and change places at nearly each bytecode, and collections all the time, is attached to and let go {each} times, then
another one.

**{a["harmed"]} of {a["attaches"]:,}** attaches harmed one of {a["targets"]} programs (95 % bounds, Clopper–Pearson:
{bounds(*a["bounds_95"], digits=2)}); refused: {len(a["refused"])}. Its main thread stood still for {stood["the first"]:,.0f} µs
the first time, {stood["later"]:,.0f} µs later (medians; every stop of it waits for its turn beside the program's other
threads).""")
    if "kills" in d:
        rows = [
            [k["process"], "yes" if k["attached_to_before"] else "no", k["moments"], len(k["harmed"])]
            for k in d["kills"]
        ]
        parts.append(f"""\
`contend-probe` is killed by SIGKILL at each of its system calls from its first ptrace(2) on: between two of them it changes
nothing in the process. Then the process must go on with right results and no signal blocked, and be attached to again.

{table(["process", "attached to before", "moments", "harmed"], rows, "llrr")}""")
    return "\n\n".join(parts)
