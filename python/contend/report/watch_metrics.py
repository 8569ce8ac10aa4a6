"""A watch as OpenMetrics text, for a scrape by way of node_exporter's textfile collector: a file, rewritten whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contend.contention.blame import RESOURCES, Group, Pair, Period
from contend.contention.watch import Watched
from contend.errors import HostFailed
from contend.units import NS_PER_S

SERIES = 1000  # pairs, and as many victims: a scrape's series are paid for


class Exporter:
    """An exporter that keeps exporting what it exported once: a counter must not come and go with its rank.

    >>> from contend.contention.watch import Watched
    >>> print(Exporter().render(Watched("blame", "process", 10**9, "BPF"), None).splitlines()[-1])
    # EOF
    """

    def __init__(self) -> None:
        self._pairs: dict[Pair, None] = {}
        self._groups: dict[Group, None] = {}

    def render(self, watched: Watched, last: Period | None) -> str:
        """Counters since the watch began, and each victim's loss in the last interval."""
        self._admit(watched)
        whole = watched.blame.whole
        pairs = {} if whole is None else whole.pairs
        lines = [
            *_family(
                "contend_wait_seconds",
                "counter",
                "Time a group waited while the culprit had the CPU or disk.",
            ),
            *(_pair(pair, pairs.get(pair, 0)) for pair in self._pairs),
            *_family(
                "contend_used_seconds",
                "counter",
                "CPU time, or own service at disks, of a group that waited.",
            ),
            *(
                f'contend_used_seconds_total{{resource="{r}",group="{_quoted(n)}"}}'
                f" {watched.blame.sums(r, n).used_ns / NS_PER_S:.6f}"
                for r, n in self._groups
            ),
            *_family(
                "contend_lost_ratio", "gauge", "Share of the last interval that neighbours cost a group."
            ),
            *(
                f'contend_lost_ratio{{resource="{r}",victim="{_quoted(n)}"}} {last.share(r, n):.6f}'
                for r, n in (self._groups if last is not None else ())
                if last is not None
            ),
            *_family("contend_watch_cpu_seconds", "counter", "CPU time of the probe and its programs."),
            f"contend_watch_cpu_seconds_total {(watched.cost.cpu_ns + watched.cost.bpf_ns) / NS_PER_S:.6f}",
            *_family("contend_watch_left_out_pairs", "gauge", "Pairs that no series was left for."),
            f"contend_watch_left_out_pairs {len(pairs) - sum(pair in pairs for pair in self._pairs)}",
            "# EOF",
        ]
        return "\n".join(lines) + "\n"

    def _admit(self, watched: Watched) -> None:
        for resource in RESOURCES:
            for victim in watched.blame.victims(resource):
                if len(self._groups) < SERIES:
                    self._groups.setdefault((resource, victim))
        pairs = {} if watched.blame.whole is None else watched.blame.whole.pairs
        for pair in sorted(pairs, key=lambda pair: (-pairs[pair], pair)):
            if len(self._pairs) >= SERIES:
                break
            self._pairs.setdefault(pair)


def _family(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if (unit := name.rpartition("_")[2]) in ("seconds", "ratio"):
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {about}"


def _pair(pair: Pair, ns: int) -> str:
    resource, victim, culprit = pair
    labels = f'resource="{resource}",victim="{_quoted(victim)}",culprit="{_quoted(culprit)}"'
    return f"contend_wait_seconds_total{{{labels}}} {ns / NS_PER_S:.6f}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write(path: Path, text: str) -> None:
    """The file appears whole or not at all. Raises HostFailed."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        part = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            part.chmod(0o644)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise HostFailed(f"cannot write {path}: {error.strerror}", hint="choose another place") from error
