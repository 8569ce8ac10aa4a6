"""Settings of others, changed for moments: announced in a ledger, put back and read back, whatever happens.

Before anything is written the ledger has each setting with both of its values, and a watchdog runs
(`contend.platforms.restorer`): it puts back what this process does not, when this one dies, and when a moment lasts longer
than was said, as while this one is stopped. `contend destroy` does the same from the ledger. One experiment at a time on a
host. What somebody else changes meanwhile is theirs: it is noticed, and left.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import heirs, procfs, restorer
from contend.platforms.treatments import Switch, put, stands, take_back, treated
from contend.store.ledger import Ledger

HOST = Path("/sys/fs/cgroup")
"""Locked meanwhile: a directory that every host has, and nobody else locks."""
SPARE_S = 0.5
"""How much longer than it was to last a moment may last, before the watchdog ends it."""


class Rewritten(HostFailed):
    """Somebody else has given a setting another value: the experiment is about something else by now."""


class Interventions:
    """The treatments of one experiment, by name: the switches of each.

    Raises CannotHonour where another experiment runs, Rewritten where a setting is not as it was.
    """

    def __init__(
        self,
        run_id: str,
        treatments: Mapping[str, Sequence[Switch]],
        ledger: Ledger,
        directory: Path,
        host: Path = HOST,
    ) -> None:
        """directory: of the run, which the state directory must know."""
        self._treatments, self._ledger = treatments, ledger
        self._on: list[Switch] = []
        self._since_ticks = 0  # since the boot, when the first of those was put on
        self._nicer: dict[Switch, heirs.Treated] = {}
        self._watchdog: restorer.Watchdog | None = None
        self._announced: list[Switch] = []
        self._putting = threading.RLock()  # who sees that harm is done lets go from a thread of its own
        self._lock = os.open(host, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise CannotHonour(
                "another experiment runs on this host", hint="wait for its end; contend destroy --all"
            ) from error
        try:
            self._nicer = treated(self._all())
            for switch in self._all():
                self._check(switch)
                since = {"since_ticks": heirs.now_ticks()} if switch in self._nicer else {}
                ledger.intend(
                    switch.setting.kind, switch.setting.name, run=run_id, boot_id=procfs.boot_id(),
                    before=switch.before, during=switch.during, **since,
                )  # fmt: skip
                self._announced.append(switch)
            self._watchdog = restorer.Watchdog(directory)
        except BaseException:
            self.close()
            raise

    def on(self, names: Iterable[str], lasting_s: float) -> None:
        """Put treatments on, for at most so long. Raises Rewritten, HostFailed: all is as before then, where `off` can."""
        if not self._on:
            self._since_ticks = heirs.now_ticks()
        until_s = self._lasts(lasting_s, self._since_ticks)
        with self._putting:
            try:
                for switch in (switch for name in names for switch in self._treatments[name]):
                    if switch not in self._on:  # what could not be put back is on
                        self._on.append(switch)
                    put(switch.setting, switch.during)
                # As where contend was stopped meanwhile: the watchdog may have been there before, and does not come again.
                if time.monotonic() > until_s:
                    raise HostFailed("the treatment was over before it was there", hint="a longer --trial")
            except HostFailed:
                self.off()
                raise

    def off(self) -> bool:
        """Put all back; False where some was back already: the watchdog's moment was over, and what was measured is mixed.

        From any thread. Raises Rewritten where somebody else has changed one meanwhile, which stays; HostFailed where one
        cannot be put back, which is tried again at the next call.
        """
        with self._putting:
            try:
                return self._back()
            finally:
                if not self._on and self._watchdog is not None:
                    self._watchdog.until(None)

    def sham(self, lasting_s: float) -> None:
        """Write what is there already, of all treatments: all that `on` does, and nothing is treated. Raises as `on`."""
        self._lasts(lasting_s)
        for switch in self._all():
            put(switch.setting, switch.before)

    def close(self) -> None:
        """Put all back, and forget them. Idempotent. Raises as `off`; what could not be put back stays in the ledger."""
        try:
            if self._on:
                self.off()
            for switch in reversed(self._announced):
                if not stands(switch) or switch.during == switch.before:
                    self._ledger.removed(switch.setting.kind, switch.setting.name)
            self._announced = []
        finally:
            if self._watchdog is not None:
                self._watchdog.close()
                self._watchdog = None
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def _all(self) -> Iterator[Switch]:
        for switches in self._treatments.values():
            yield from switches

    def _lasts(self, seconds: float, since_ticks: int | None = None) -> float:
        """Nobody has changed anything, and the watchdog knows until when something may be: that moment."""
        assert self._watchdog is not None
        for switch in self._all():
            self._check(switch)
        until_s = time.monotonic() + seconds + SPARE_S
        self._watchdog.until(until_s, since_ticks)
        return until_s

    def _check(self, switch: Switch) -> None:
        now = switch.setting.read()
        if now is None and self._is_one_of_several(switch):
            return
        if now != switch.before:
            raise Rewritten(
                f"{switch.setting.name} was {switch.before} and is {'gone' if now is None else now}: somebody else"
                " changed it",
                hint="run it again while nobody changes limits (systemctl daemon-reload, docker update, a kubelet)",
            )

    def _is_one_of_several(self, switch: Switch) -> bool:
        """Return True while others of its treatment are left: some of a job's processes end while it goes on."""
        return any(
            other.setting.read() is not None
            for switches in self._treatments.values()
            if switch in switches
            for other in switches
        )

    def _back(self) -> bool:
        """All are tried; the first error is raised then. True if all were as under treatment. What still stands stays on."""
        lasted = True
        errors: list[HostFailed] = []
        for switch in reversed(self._on):
            try:
                now = switch.setting.read()
                take_back(switch)
                if now != switch.during and (now is not None or not self._is_one_of_several(switch)):
                    lasted = False
                    if now is not None:
                        self._check(switch)
            except HostFailed as error:
                errors.append(error)
        nicer = [switch for switch in self._on if switch in self._nicer]
        try:
            heirs.put_back([self._nicer[switch] for switch in nicer], self._since_ticks)
            nicer = []
        except HostFailed as error:
            errors.append(error)
        self._on = [switch for switch in self._on if switch in nicer or stands(switch)]
        if errors:
            raise errors[0]
        return lasted
