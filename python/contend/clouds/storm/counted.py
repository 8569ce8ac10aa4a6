"""Statements and messages of a storm, by the cloud's own counters: those of its boots, without what goes on anyway and
what the poller asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from contend.clouds.counters import NS, Background, Counters, Reading, each

TAIL_S = 0.5
"""What a boot still does after ACTIVE (its action's end, what the scheduler is told) counts as the boot's."""
POLLS = 10


@dataclass
class Counting:
    """Counts the statements and messages of one storm: `begin`, then `end` once its servers are ACTIVE."""

    counters: Counters
    background: Background
    _before: Reading = field(default_factory=lambda: Reading(0, {}))

    def begin(self) -> None:
        self._before = self.counters.read()

    def end(self, boots: int, polls: int, poll: Callable[[int], None]) -> dict[str, Any]:
        """Counts for one boot. polls: how many there were meanwhile; `poll` makes that many more, to see what one
        takes."""
        time.sleep(TAIL_S)
        after = self.counters.read()
        poll(POLLS)
        polled = self.counters.read()
        of_poll = each(after, polled, POLLS, self.background)
        of_polls = {name: max(0.0, count.value) * polls for name, count in of_poll.items()}
        per_boot = each(self._before, after, boots, self.background, of_polls)
        quiet = self.background
        return {
            "polls": polls,
            "quiet_ns": [quiet.from_ns, quiet.from_ns + quiet.span_ns],
            "storm_ns": [self._before.at_ns, after.at_ns],
            "polled_ns": [after.at_ns, polled.at_ns],
            "per_boot": {name: list(count) for name, count in per_boot.items()},
            "per_poll": {name: count.value for name, count in of_poll.items()},
            "background_per_s": {name: quiet.expected(name, NS)[0] for name in per_boot},
        }
