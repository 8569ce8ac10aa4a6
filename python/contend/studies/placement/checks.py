"""Checks that pairs of instances can be had here, and which ways between hosts."""

from __future__ import annotations

from contend.clouds.instances.before import check_cloud
from contend.errors import CannotHonour
from contend.platforms.network import check_rights
from contend.platforms.packages import install_command
from contend.studies.placement.cells import topology_of
from contend.studies.placement.model import NetworkPlacement
from contend.testbed.placement import ovs


def check(scenario: NetworkPlacement) -> None:
    """Check that this host or cloud can make the pairs: namespaces need root; a cloud must be described. Raises BadInput,
    CannotHonour."""
    if not scenario.cloud:
        check_rights("hosts made of network namespaces of this machine need")
        return
    _, parameters = topology_of(scenario)
    check_cloud(scenario.cloud, parameters)


def fitted(scenario: NetworkPlacement) -> tuple[NetworkPlacement, tuple[str, ...]]:
    """The scenario without the ways between hosts that need something this host lacks."""
    if scenario.cloud:
        own = tuple(way for way in scenario.encapsulation if way != "none")
        left_out_way = f"encapsulation {', '.join(own)}: what is between a cloud's hosts is the cloud's own"
        return scenario.model_copy(update={"encapsulation": ("none",)}), (left_out_way,) if own else ()
    why = ovs.missing() if "ovs" in scenario.encapsulation and "different" in scenario.hosts else ""
    if not why:
        return scenario, ()
    kept = tuple(way for way in scenario.encapsulation if way != "ovs")
    if not kept:
        raise CannotHonour(
            f"encapsulation ovs: {why}",
            hint=f"{install_command('openvswitch-switch')}; or --set encapsulation=vxlan",
        )
    left_out = f"encapsulation ovs: {why} ({install_command('openvswitch-switch')})"
    return scenario.model_copy(update={"encapsulation": kept}), (left_out,)
