"""Verdicts on loads that were put there."""

from __future__ import annotations

from results.files import Data
from results.words import bounds, table


def body(d: Data) -> str:
    """What was right, by kind; what was wrong, each."""
    wrong = [t for t in d["counted"] if not t["right"]]
    again = d["drawn_again"]
    text = f"""\
One resource is put to its limit for real (stress-ng on all cores; one busy thread, or several behind a GIL; fio at depth;
iperf3 over a veth pair that tbf limits; a CPU quota; a working set above a memory limit), or none is (threads that hand a lock
around and sleep while they hold it). Kind, intensity and sampling interval are drawn; the verdict on four seconds of it has to
name the resource, or say idle.

**{d["right"]} of {d["trials"]}** verdicts were right (95 % bounds, Clopper–Pearson: {bounds(*d["bounds_95"])}).
{again} trials in which processes that were not part of it used more than {d["disturbed_beyond_cpus"]} CPUs, or kept a busy thread
from its own, were drawn again: then the injected resource is not the truth, or not all of it. That was decided by the
accounting of the loads' cgroup, without the verdict, which named the injected resource in {d["drawn_again_right"]} of them too.
Steal was not injected: a guest cannot make it; it is tested on series made up from a known truth (tests/unit/contention).

{table(["injected", "right", "95 % bounds"], [_kind(kind, k) for kind, k in d["kinds"].items() if k["trials"]], "lrr")}
"""
    if wrong:
        rows = [[t["what"], f"{t['verdict']} {t['subject']}", f"{t['foreign_cpus']:.2f}"] for t in wrong]
        text += "\n" + table(["wrong", "verdict", "others' CPUs"], rows, "llr")
    return text


def _kind(kind: str, k: Data) -> list[object]:
    return [kind, f"{k['right']} of {k['trials']}", bounds(*k["bounds_95"], digits=0)]
