"""The machine's fingerprint: what must be the same for two runs to be compared, and what explains a difference."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import contend

# Which part of the fingerprint says "the same host": what a reboot keeps and a move to another machine changes.
HOST_KEYS = ("cpu", "cpus", "memory_gib", "architecture", "virtualised", "machine")


def fingerprint(tools: Iterable[str] = ()) -> dict[str, Any]:
    """Describe this machine. `tools` are commands whose versions matter to the run."""
    return {
        "schema_version": 1,
        "contend": contend.__version__,
        "python": platform.python_version(),
        "machine": machine_digest(),
        "os": os_name(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "smt": _read("/sys/devices/system/cpu/smt/active") == "1",
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not exposed",
        "boost": _read("/sys/devices/system/cpu/cpufreq/boost") or "not exposed",
        "mitigations": mitigations(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "virtualised": virtualised(),
        "cgroup": cgroup_layout(),
        # With autogroups every session is a scheduling group: parties share a CPU by session, not by thread.
        "autogroup": _read("/proc/sys/kernel/sched_autogroup_enabled") == "1",
        "address_randomisation": _read("/proc/sys/kernel/randomize_va_space"),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "root": os.geteuid() == 0,
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "links_mbit_per_s": link_speeds(),
        "tools": {tool: version_of(tool) for tool in sorted(set(tools))},
    }


def same_host(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two environments are of one host; never for what another tool measured: its files do not say where."""
    if "imported" in one or "imported" in other:
        return False
    return all(one.get(key) == other.get(key) for key in HOST_KEYS)


def machine_digest() -> str:
    """A digest of the machine id: tells two hosts apart without naming either."""
    text = _read("/etc/machine-id") or platform.node()
    return hashlib.sha256(f"contend {text}".encode()).hexdigest()[:12]


def os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return platform.system()


def cpu_model() -> str:
    match = re.search(r"^(?:model name|Hardware|CPU part)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.M)
    return match[1].strip() if match else platform.machine()


def link_speeds(folder: Path = Path("/sys/class/net")) -> dict[str, int]:
    """Read speeds by interface, Mbit/s, where the hardware says one: not of virtual interfaces, which claim any
    figure."""
    speeds = {}
    for interface in sorted(folder.iterdir()) if folder.is_dir() else ():
        speed = _read(interface / "speed") if (interface / "device").exists() else ""
        if speed.isdigit() and int(speed) > 0:
            speeds[interface.name] = int(speed)
    return speeds


def mitigations() -> dict[str, str]:
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    if not folder.is_dir():
        return {}
    texts = {p.name: _read(p) for p in sorted(folder.iterdir())}
    return {name: text for name, text in texts.items() if text and text != "Not affected"}


def virtualised() -> str:
    """`no`, or the hypervisor as far as it is known. The CPUID bit is the hypervisor's own word (Intel SDM vol. 2)."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.M):
        return "no"
    vendor = _read("/sys/class/dmi/id/sys_vendor")
    return f"yes ({vendor})" if vendor else "yes"


def cgroup_layout() -> str:
    kinds = {
        line.split(" - ")[1].split()[0]
        for line in _read("/proc/self/mountinfo").splitlines()
        if " - cgroup" in line
    }
    return {
        frozenset({"cgroup2"}): "v2",
        frozenset({"cgroup"}): "v1",
        frozenset({"cgroup", "cgroup2"}): "v1 + v2",
    }.get(frozenset(kinds), "none")


def version_of(tool: str) -> str:
    """First line that a tool prints about its version, or 'not found'."""
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        return "not found"
    for flag in ("--version", "-version", "-v", "-V"):
        try:
            done = subprocess.run(
                [path, flag], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = [
            line.strip() for line in (done.stdout + done.stderr).splitlines() if re.search(r"\d+\.\d+", line)
        ]
        if lines:
            return lines[0][:100]
    return "unknown"


def summary_line(environment: Mapping[str, Any]) -> str:
    """One line for the head of a run's output, of what is known: a run that is taken up may have lost some of it.

    >>> summary_line({"contend": "0.1.0", "cpus": 2, "cpu": "AMD EPYC", "virtualised": "yes (kvm)"})
    'contend 0.1.0 · 2 CPUs AMD EPYC · virtualised'
    """
    of = environment
    cpus, memory = of.get("cpus"), of.get("memory_gib")
    virtual = of.get("virtualised")
    parts = (
        f"contend {of['contend']}" if of.get("contend") else "",
        f"{cpus} CPU{'s' if cpus != 1 else ''} {of.get('cpu') or ''}".strip() if cpus else "",
        f"{memory:.0f} GiB" if memory else "",
        of.get("os") or "",
        f"kernel {of['kernel']}" if of.get("kernel") else "",
        "" if virtual is None else "virtualised" if str(virtual).startswith("yes") else "bare metal",
        f"cgroup {of['cgroup']}" if of.get("cgroup") else "",
    )
    return " · ".join(part for part in parts if part)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
