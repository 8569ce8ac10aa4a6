"""A host of several sizes in one run: which CPUs each keeps, and the change from one to the next.

What runs is closed before CPUs go and before they come back, and made anew after: a container or group that outlived
that would have lost CPUs with them. Guests stay, standing still: they are made on the whole host only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contend.engine.seating import Seating
from contend.errors import HostFailed
from contend.platforms import hotplug
from contend.platforms.taken_cpus import Hotplug
from contend.platforms.topology import Topology, format_cpu_list
from contend.store.ledger import Ledger
from contend.studies.platform_settings import PlatformSetting


class HostSizes:
    """Makes the host as small as a platform wants it. Where a run does not vary that, nothing is ever done."""

    def __init__(
        self,
        wired: Mapping[int | None, Topology],
        seating: Seating,
        run_id: str,
        ledger: Ledger,
        directory: Path,
        *,
        offline: bool,
        cpus: Path = hotplug.CPUS,
    ) -> None:
        """wired: the CPUs of each size; offline: whether the smaller ones are made by taking CPUs offline."""
        self._wired, self._seating, self._cpus = wired, seating, cpus
        self._all = max((set(of.ids) for of in wired.values()), key=len)
        self._hotplug = Hotplug(run_id, ledger, directory, cpus) if offline else None

    def to(self, platform: PlatformSetting | None) -> None:
        """Make the host as large as the platform wants it; the whole one for None. Raises HostFailed."""
        if self._hotplug is None:
            return
        smaller = platform is not None and platform.host_by == "offline"
        gone = self._all - set(self._wired[platform.host].ids) if platform is not None and smaller else set()
        if gone == set(self._hotplug.gone):
            return
        self._seating.stand_down()
        self._hotplug.bring_back()
        if gone:
            self._hotplug.take(gone)

    def seen(self, platform: PlatformSetting) -> dict[str, Any]:
        """Describe the host for the record: the size, how it came about, and the CPUs that the kernel says are online.

        Raises HostFailed where these are not the platform's: somebody else has brought one back, or taken one.
        """
        online = hotplug.online(self._cpus)
        own = sorted(self._all & set(online))
        wanted = self._all if platform.host_by == "confined" else set(self._wired[platform.host].ids)
        if set(own) != wanted:
            raise HostFailed(
                f"CPU {format_cpu_list(own)} are online, a host of {format_cpu_list(wanted)} was asked for",
                hint="somebody else takes CPUs offline here, or brings them back",
            )
        return {
            "cpus": list(self._wired[platform.host].ids),
            "by": platform.host_by,
            "online": format_cpu_list(online),
        }

    def close(self) -> None:
        """Bring all CPUs back. Idempotent."""
        if self._hotplug is not None:
            self._hotplug.close()
