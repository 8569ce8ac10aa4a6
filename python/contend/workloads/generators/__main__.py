"""`python -m contend.workloads.generators NAME …`: runs one of contend's own load generators in a trial."""

from __future__ import annotations

import importlib
import sys

GENERATORS = {
    "pace": "contend.workloads.generators.pace",
    "pulse": "contend.workloads.generators.pulse",
    "pressure-probe": "contend.workloads.generators.pressure_probe",
    "burst": "contend.workloads.generators.burst",
    "download": "contend.workloads.generators.download",
    "download-glance": "contend.workloads.generators.download_glance",
    "download-server": "contend.workloads.generators.download_server",
    "operations": "contend.workloads.generators.operations",
    "boot-storm": "contend.workloads.generators.boot",
    "boot-storm-local": "contend.workloads.generators.boot_local",
    "control-plane-growth": "contend.workloads.generators.growth",
    "network-placement": "contend.workloads.generators.placement",
    "network-placement-cloud": "contend.workloads.generators.placement_cloud",
    "storage-cloud": "contend.workloads.generators.storage_cloud",
    "terasort-cluster": "contend.workloads.generators.terasort_cluster",
    "jenkins-build": "contend.workloads.generators.jenkins_build",
    "rpc": "contend.workloads.generators.rpc",
    "rpc-failures": "contend.workloads.generators.rpc_failures",
    "storm-lab": "contend.testbed.storm_bed.__main__",
}


def main(arguments: list[str]) -> int:
    """The generator's exit code; 2 for a name that is none."""
    if not arguments or arguments[0] not in GENERATORS:
        print(f"error: no such generator\n  hint: known: {', '.join(GENERATORS)}", file=sys.stderr)
        return 2
    sys.argv[0] = arguments[0]
    generator = importlib.import_module(GENERATORS[arguments[0]])
    return int(generator.main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
