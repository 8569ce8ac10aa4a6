"""A run on several hosts in words and rows, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from contend.document.hosts import Fleets, HostResult
from contend.report import words
from contend.report.plots import Ratio
from contend.units import format_value

TITLE = "Each host by itself"
MOST = 40  # hosts in the terminal, unless all are asked for
MACHINE = ("host", "CPU", "CPUs", "memory", "system", "kernel", "virtualised")
_FACTS = ("cpu", "cpus", "memory_gib", "os", "kernel", "virtualised")


def headers(fleet: Fleets) -> list[str]:
    labels = {(r.cell, r.metric): r.label for h in fleet.hosts for r in h.ratios}
    return ["host", "trials", "clock against here", *(labels[key] for key in keys(fleet)), ""]


def keys(fleet: Fleets) -> list[tuple[str, str]]:
    """The comparisons that any host has, as cell and metric."""
    return list(dict.fromkeys((r.cell, r.metric) for h in fleet.hosts for r in h.ratios))


def by_host(fleet: Fleets, key: tuple[str, str]) -> tuple[str, list[Ratio]]:
    """Find the name of a comparison, and its ratio on each host that has one."""
    label, ratios = "", []
    for host in fleet.hosts:
        for ratio in host.ratios:
            if (ratio.cell, ratio.metric) == key and 0 < ratio.estimate.value < math.inf:
                label = ratio.label
                effect = _EFFECTS.get(ratio.estimate.verdict, ratio.estimate.verdict)
                ratios.append(Ratio(host.host, ratio.estimate, effect, host_notes(host) or effect))
    return label, ratios


_EFFECTS = {"higher": "worse", "lower": "better"}


def rows(fleet: Fleets) -> list[list[str]]:
    shown = keys(fleet)
    return [row(host, shown) for host in fleet.hosts]


def row(host: HostResult, shown: Sequence[tuple[str, str]]) -> list[str]:
    own = {(r.cell, r.metric): words.ratio(r.estimate) for r in host.ratios}
    trials = f"{host.done.finished}" + ("" if host.state == "ended" else f" of {host.done.planned}")
    return [host.host, trials, clock(host), *(own.get(key, "") for key in shown), host_notes(host)]


def clock(host: HostResult) -> str:
    """The offset of the host's clock with its error bound; a second estimate gives the drift."""
    if host.clock is None:
        return "unknown"
    start = host.clock["start"]
    sign = "+" if start["offset_ns"] >= 0 else "-"
    offset = format_value(abs(start["offset_ns"]) / 1e9, "s")
    text = f"{sign}{offset} ± {format_value(start['bound_ns'] / 1e9, 's')}"
    if drift := host.clock["drift"]:
        digits = 0 if drift["bound_ppm"] >= 10 else 1
        text += f", {drift['ppm']:+.{digits}f} ± {drift['bound_ppm']:.{digits}f} ppm"
    return text


def host_notes(host: HostResult) -> str:
    """Notes on a host beside its figures."""
    parts = []
    if host.state != "ended":
        parts.append(f"{host.state}: {host.why}" if host.why else host.state)
    if host.losses:
        parts.append(f"lost {host.losses} time{'s' if host.losses > 1 else ''}")
    if host.failures:
        parts.append(f"{host.failures} trials gave no result")
    if host.alarm:
        parts.append("ALARM: its own control differs")
    if host.start_late_ns is not None:
        parts.append(f"blocks began up to {format_value(host.start_late_ns / 1e9, 's')} late")
    return "; ".join(parts)


def machines(environment: Mapping[str, Any]) -> list[list[str]]:
    """Describe each host, a row each as MACHINE has it; none where nothing was fetched of any."""
    hosts = environment.get("hosts") or {}
    if not any("cpu" in host for host in hosts.values()):
        return []
    return [[name, *(_fact(host, key) for key in _FACTS)] for name, host in hosts.items()]


def _fact(host: Mapping[str, Any], key: str) -> str:
    value = host.get(key)
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g} GiB" if key == "memory_gib" else str(value)


def notes(fleet: Fleets) -> list[str]:
    """Lines below the table."""
    reasons = [fleet.reason] if fleet.reason else []
    return [*reasons, *(f"missing: {line}" for line in fleet.missing)]
