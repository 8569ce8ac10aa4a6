"""From a watch to findings: who lost what to whom, the evidence, what to do, and the command that checks it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from contend.advice.finding import Evidence, Finding, Treatment
from contend.contention.blame import OWN_QUOTA, RESOURCES, WRITEBACK, is_neighbour, row_sum
from contend.contention.groups import program_of
from contend.contention.watch import Watched
from contend.stats.estimate import Estimate
from contend.units import NS_PER_S

ROOT = "/"
"""The cgroup of all that no unit and no container has; in a recording from before its processes were told apart."""
_KERNEL = re.compile(
    r"^(kworker|ksoftirqd|kswapd|kcompactd|khugepaged|ksmd|kblockd|jbd2|xfsaild|btrfs-|nfsd|irq|migration|rcu|rcu[a-z_]+)[/:\d]"
)
LEAST = 0.01  # of the time: a smaller loss is no finding
MOST = 8  # findings
WANTED = {"cpu": "the CPU", "disk": "the disk"}


def findings(watched: Watched, keep: Callable[[str], bool] = lambda _: True) -> tuple[Finding, ...]:
    """Rank the greatest losses, each with its greatest culprit; a victim's own limit where that is what holds it
    off."""
    losses: list[tuple[str, str, Estimate]] = []
    for resource in RESOURCES:
        for victim, share in watched.blame.ranked(resource, keep)[:MOST]:
            if share.value >= LEAST:
                losses.append((resource, victim, share))
    losses.sort(key=lambda item: -item[2].value)
    made = [
        _lost(watched, number, resource, victim, share)
        for number, (resource, victim, share) in enumerate(losses[:MOST], start=1)
    ]
    made += _limited(watched, len(made), keep)
    return tuple(made)


def _lost(watched: Watched, number: int, resource: str, victim: str, share: Estimate) -> Finding:
    blame = watched.blame
    row = [(c, ns) for c, ns in blame.culprits(resource, victim) if is_neighbour(victim, c)]
    lost = row_sum(row)
    sums = blame.sums(resource, victim)
    culprit, most = row[0]
    measured = watched.kind == "blame"
    what = f"{100 * share.value:.{0 if share.value >= 0.1 else 1}f} % of the time"
    who = f"{culprit} ({100 * most / lost:.0f} % of it)"
    sentence = (
        f"{victim} waited for {WANTED[resource]} {what} because of others, most of all {who}."
        if measured
        else f"{victim} waited for {WANTED[resource]} {what}; meanwhile {who} used most CPU time (correlation)."
    )
    evidence = [
        Evidence(f"waited for them, of {sums.wait_ns / NS_PER_S:.3g} s of waits", lost / NS_PER_S, "s", watched.source),
        *(Evidence(f"while {c} had it", ns / NS_PER_S, "s", f"table blame, {resource}") for c, ns in row[:3]),
    ]  # fmt: skip
    return Finding(
        id=f"{resource}-{number}",
        kind="waits for a neighbour" if measured else "correlated with a neighbour",
        subject=victim,
        resource="run queue" if resource == "cpu" else "disk queue",
        sentence=sentence,
        share=most / lost if measured else None,
        estimate=share,
        evidence=tuple(evidence),
        advice=_advice(resource, victim, culprit, watched),
        verify=_verify(watched, victim),
        treatment=_treatment(victim, culprit, watched),
    )


def _treatment(victim: str, culprit: str, watched: Watched) -> Treatment | None:
    """The treatment that `contend try` would make; None where the culprit is nobody who could be held back."""
    names = [name if name.startswith("/") else name.rpartition(":")[2] for name in (victim, culprit)]
    known = all(name.isdecimal() or (name.startswith("/") and name != ROOT) for name in names)
    return Treatment(names[0], names[1], "auto") if known else None


_HOLDS = "cpu.weight, cpu.max; nice, if both are of one session"
"""A nice value weighs within a session, of which the kernel makes a group, and not against others (sched(7), autogroup)."""


def _advice(resource: str, victim: str, culprit: str, watched: Watched) -> str:
    if resource == "disk":
        if culprit == WRITEBACK:
            return (
                "find who dirties so much (io.stat of cgroups), and bound it: memory.high, or vm.dirty_bytes"
            )
        hold = f"limit {culprit} on that device (io.max, or a lower io.weight)"
        return hold if victim == ROOT else f"{hold}, or give {victim} a device of its own"
    if culprit == ROOT:
        return f"see which process of the root it is: contend watch --by process; or give {victim} CPUs of its own"
    if culprit.startswith("/"):
        unit = culprit.rsplit("/", 1)[-1]
        is_unit = unit.endswith((".service", ".scope", ".slice"))
        hold = f"systemctl set-property {unit} CPUWeight=10" if is_unit else "a lower cpu.weight, or cpu.max"
        if victim == ROOT:  # several programs, for which there is no one place
            return f"hold {culprit} back: {hold}; contend watch --by process shows whose processes wait"
        means = "AllowedCPUs=" if is_unit else "cpuset.cpus"
        return f"give {victim} CPUs of its own ({means}), or hold {culprit} back: {hold}"
    if _KERNEL.match(culprit):
        return (
            f"{culprit} is a thread of the kernel: find whose work it does; or give {victim} CPUs of its own"
        )
    theirs, own = (watched.namer.niced.get(name, 0) for name in (culprit, victim))
    if own > max(theirs, 0):
        return (
            f"{victim} gives way by its own nice value of {own}: if it should not, renice -n 0 -p"
            f" $(ls /proc/{victim.rpartition(':')[2]}/task); or give it CPUs of its own (taskset, cpuset)"
        )
    means = f"at nice {theirs} it gives way already: cpu.max" if theirs > 0 else _HOLDS
    return f"give {victim} CPUs of its own (taskset, cpuset), or hold {culprit} back ({means})"


def _verify(watched: Watched, victim: str) -> str:
    scope = victim if victim.startswith("/") else program_of(victim)
    return f"contend watch {shlex.quote(scope)} --by {watched.by} --for 30s"


def _limited(watched: Watched, before: int, keep: Callable[[str], bool]) -> list[Finding]:
    """Victims of their own bandwidth limit: no neighbour can be blamed for that."""
    made: list[Finding] = []
    blame = watched.blame
    for victim in blame.victims("cpu", keep):
        held = next((ns for c, ns in blame.culprits("cpu", victim) if c == OWN_QUOTA), 0)
        sums = blame.sums("cpu", victim)
        part = held / max(blame.length_ns, sums.wait_ns + sums.used_ns, 1)
        if part >= LEAST:
            made.append(
                Finding(
                    id=f"quota-{before + len(made) + 1}",
                    kind="throttled",
                    subject=victim,
                    resource="throttling",
                    sentence=f"{victim} was held off by its own CPU limit {100 * part:.0f} % of the time: not a neighbour.",
                    share=held / sums.wait_ns,
                    estimate=blame.share("cpu", victim),
                    evidence=(
                        Evidence("held off by its own limit", held / NS_PER_S, "s", "table blame, cpu"),
                    ),
                    advice=f"raise cpu.max of {victim}, or of a group above it",
                    verify=_verify(watched, victim),
                )
            )
    return made[:MOST]
