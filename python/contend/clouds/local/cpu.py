"""CPU time of engines' helpers by role, from /proc before and after a storm.

A helper that stays beside its container (conmon, a containerd shim) has waited for the runtime it started, so the
kernel has added that time to its own children's: this is how the cost of a runtime that has ended is known.
"""

from __future__ import annotations

import os
from pathlib import Path

_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# By the name of /proc/PID/stat, of 15 characters at most: (role of itself, role of its children).
LIBVIRT = "libvirt daemon"
_ROLES = {
    "conmon": ("conmon", "runtime"),
    "conmonrs": ("conmon", "runtime"),
    "containerd-shim": ("shim", "runtime"),
    "dockerd": ("engine daemon", "engine daemon"),
    "containerd": ("engine daemon", "engine daemon"),
    "libvirtd": (LIBVIRT, LIBVIRT),
    "virtqemud": (LIBVIRT, LIBVIRT),
    "virtnetworkd": (LIBVIRT, LIBVIRT),
    "virtlogd": (LIBVIRT, LIBVIRT),
}
Used = dict[tuple[int, int], tuple[str, int, int]]


def read(proc: Path = Path("/proc")) -> Used:
    """Read CPU times by pid and start: name, own time and children's time so far, ns."""
    by_process: Used = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text(encoding="ascii", errors="replace")
        except OSError:  # it has ended
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        if name in _ROLES:
            # proc(5): utime, stime, cutime and cstime are fields 14 to 17, the start is field 22.
            fields = text[text.rindex(")") + 2 :].split()
            own, children = (sum(map(int, fields[k : k + 2])) * _NS_PER_TICK for k in (11, 13))
            by_process[int(entry.name), int(fields[19])] = name, own, children
    return by_process


def between(before: Used, after: Used) -> dict[str, float]:
    """CPU seconds by role between two readings."""
    sums: dict[str, int] = {}
    for key, (name, own, children) in after.items():
        _, own_then, children_then = before.get(key, (name, 0, 0))
        for role, spent in zip(_ROLES[name], (own - own_then, children - children_then), strict=True):
            sums[role] = sums.get(role, 0) + spent
    return {role: ns / 1e9 for role, ns in sums.items() if ns}
