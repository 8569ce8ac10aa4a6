"""A watch as OpenMetrics text for node_exporter's textfile collector: a file that is rewritten whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from contend.contention.blame import RESOURCES, Group, Pair, Period
from contend.contention.watch import Watched
from contend.errors import HostFailed
from contend.files import SHARED, made_beside
from contend.report.exposition import Family, exposition
from contend.units import NS_PER_S

_WAITED = "Time a group waited while the culprit had the CPU or disk."
_USED = "CPU time, or own service at disks, of a group that waited."
_LOST = "Share of the last interval that neighbours cost a group."
_OWN = "CPU time of the probe and its programs."
_LEFT_OUT = "Pairs that no series was left for."
SERIES = 1000  # pairs, and as many victims: a scrape's series are paid for


class Exporter:
    """An exporter that keeps exporting what it exported once: a counter must not come and go with its rank.

    >>> from contend.contention.watch import Watched
    >>> print(Exporter().render(Watched("blame", "process", 10**9, "BPF"), None).splitlines()[-1])
    # EOF
    """

    def __init__(self, keep: Callable[[str], bool] = lambda _: True) -> None:
        """keep: the victims that are exported, by their names."""
        self._keep = keep
        self._pairs: dict[Pair, None] = {}
        self._groups: dict[Group, None] = {}

    def render(self, watched: Watched, last: Period | None) -> str:
        """Counters since the watch began, and each victim's loss in the last interval."""
        self._admit(watched)
        whole = watched.blame.whole
        pairs = {} if whole is None else whole.pairs
        waited = [
            ({"resource": r, "victim": v, "culprit": c}, _seconds(pairs.get((r, v, c), 0)))
            for r, v, c in self._pairs
        ]
        used = [
            ({"resource": r, "group": n}, _seconds(watched.blame.sums(r, n).used_ns)) for r, n in self._groups
        ]
        lost = [
            ({"resource": r, "victim": n}, round(last.share(r, n), 6))
            for r, n in (self._groups if last is not None else ())
            if last is not None
        ]
        own = _seconds(watched.cost.cpu_ns + watched.cost.bpf_ns)
        left = sum(self._keep(victim) for _, victim, _ in pairs) - sum(pair in pairs for pair in self._pairs)
        families: tuple[tuple[str, str, str, str, Sequence[tuple[Mapping[str, str], float]]], ...] = (
            ("contend_wait_seconds", "counter", "seconds", _WAITED, waited),
            ("contend_used_seconds", "counter", "seconds", _USED, used),
            ("contend_lost_ratio", "gauge", "ratio", _LOST, lost),
            ("contend_watch_cpu_seconds", "counter", "seconds", _OWN, [({}, own)]),
            ("contend_watch_left_out_pairs", "gauge", "", _LEFT_OUT, [({}, left)]),
        )
        return exposition(Family(*of) for of in families)

    def _admit(self, watched: Watched) -> None:
        for resource in RESOURCES:
            for victim in watched.blame.victims(resource, self._keep):
                if len(self._groups) < SERIES:
                    self._groups.setdefault((resource, victim))
        pairs = {} if watched.blame.whole is None else watched.blame.whole.pairs
        for pair in sorted(pairs, key=lambda pair: (-pairs[pair], pair)):
            if not self._keep(pair[1]):
                continue
            if len(self._pairs) >= SERIES:
                break
            self._pairs.setdefault(pair)


def _seconds(ns: int) -> float:
    return round(ns / NS_PER_S, 6)


def write(path: Path, text: str) -> None:
    """Write the file, whole or not at all. Raises HostFailed."""
    try:
        with made_beside(path) as part:
            part.write_text(text, encoding="utf-8")
            part.chmod(SHARED)
    except OSError as error:
        raise HostFailed(f"cannot write {path}: {error.strerror}", hint="choose another place") from error
