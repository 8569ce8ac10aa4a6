"""Lines and checks on a run's instances before any is made: what there will be, and whether SSH to them is described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.clouds.instances import heat
from contend.clouds.instances.topology import Topology
from contend.clouds.login import find
from contend.errors import CannotHonour


def check_cloud(cloud: str, parameters: Mapping[str, Any]) -> None:
    """Check that the cloud is described, and the OpenSSH configuration there. Asks nobody. Raises BadInput, CannotHonour."""
    find(cloud)
    config = str(parameters["ssh_config"])
    if config and not Path(config).is_file():
        raise CannotHonour(
            f"there is no OpenSSH configuration {config}",
            hint="--set parameters.ssh_config=FILE, a whole path",
        )


def creation_lines(
    cloud: str, topology: Topology, parameters: Mapping[str, Any], instances: Sequence[str]
) -> Iterator[str]:
    """Lines on what a run makes on a cloud, with the template of Heat. instances: these and what is theirs, in words."""
    made = [*instances]
    made += [] if topology.networks else ["a network" if len(topology.subnets) == 1 else "2 networks"]
    made += ["a router"] if topology.routed else []
    if topology.external:
        made.append(f"{len(topology.guests())} floating addresses of {topology.external}")
    by = "one stack of Heat" if parameters["by"] == "heat" else "requests"
    yield f"on cloud {cloud}, by {by}: {', '.join(made)}, a security group, a key pair"
    if parameters["by"] == "heat":
        yield "template (kept in the run's directory as stack.yaml; RUN is the run's name):"
        yield heat.text(heat.template(topology, "contend-RUN", "RUN")).rstrip()
