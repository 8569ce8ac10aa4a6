"""What may be asked: the models of scenario files, one a study."""

from __future__ import annotations

from collections.abc import Mapping

from contend.studies.compare.model import Compare, Variant
from contend.studies.growth.model import Growth
from contend.studies.guard import Guard
from contend.studies.imported.model import Imported
from contend.studies.interference.model import Interference
from contend.studies.model import (
    GUESTS,
    HostsSpec,
    LimitSpec,
    Measure,
    Names,
    OnHosts,
    PlatformSpec,
    WorkloadRef,
)
from contend.studies.overhead.model import Overhead
from contend.studies.placement.model import NetworkPlacement
from contend.studies.sensitivity.model import Sensitivity
from contend.studies.storage.model import Pool, Storage
from contend.studies.storm.model import LOCAL, Storm

Scenario = (
    Interference | Compare | Storm | Growth | Overhead | NetworkPlacement | Imported | Sensitivity | Storage
)
STUDIES: Mapping[str, type[Scenario]] = {
    "interference": Interference,
    "compare": Compare,
    "storm": Storm,
    "growth": Growth,
    "overhead": Overhead,
    "placement": NetworkPlacement,
    "imported": Imported,
    "sensitivity": Sensitivity,
    "storage": Storage,
}


def platform_of(scenario: Scenario) -> PlatformSpec:
    """What victims run on that the plan gives no place of their own, and how platforms of a kind are made."""
    if isinstance(scenario, Overhead):
        return PlatformSpec.model_construct(
            kind="bare", engine=scenario.engine, image=scenario.image, hypervisor=scenario.hypervisor
        )
    if isinstance(scenario, Imported):
        return PlatformSpec()
    return scenario.platform


def fleet_of(scenario: Scenario) -> HostsSpec | None:
    """The hosts that it is for; None: this one."""
    return scenario.hosts if isinstance(scenario, OnHosts) else None


__all__ = [
    "GUESTS",
    "LOCAL",
    "STUDIES",
    "Compare",
    "Growth",
    "Guard",
    "HostsSpec",
    "Imported",
    "Interference",
    "LimitSpec",
    "Measure",
    "Names",
    "NetworkPlacement",
    "OnHosts",
    "Overhead",
    "PlatformSpec",
    "Pool",
    "Scenario",
    "Sensitivity",
    "Storage",
    "Storm",
    "Variant",
    "WorkloadRef",
    "fleet_of",
    "platform_of",
]
