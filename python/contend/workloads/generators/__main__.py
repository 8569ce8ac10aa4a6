"""`python -m contend.workloads.generators NAME …`: runs one of contend's own load generators in a trial."""

from __future__ import annotations

import importlib
import sys

_HERE = "contend.workloads.generators"
GENERATORS = {
    "pace": f"{_HERE}.pace:main",
    "pulse": f"{_HERE}.pulse:main",
    "follow": f"{_HERE}.follow:main",
    "exported": f"{_HERE}.exported:main",
    "logged": f"{_HERE}.logged:main",
    "instructions": f"{_HERE}.instructions:main",
    "link-order": f"{_HERE}.link_order:main",
    "pressure-probe": f"{_HERE}.pressure_probe:main",
    "burst": f"{_HERE}.burst:main",
    "image-download": f"{_HERE}.download:main",
    "image-download-glance": f"{_HERE}.download_glance:main",
    "operations": f"{_HERE}.operations:main",
    "boot-storm": f"{_HERE}.boot:main",
    "boot-storm-local": f"{_HERE}.boot_local:main",
    "control-plane-growth": f"{_HERE}.growth:main",
    "network-placement": f"{_HERE}.placement:main",
    "network-placement-cloud": f"{_HERE}.placement_cloud:main",
    "storage-cloud": f"{_HERE}.storage_cloud:main",
    "terasort-cluster": f"{_HERE}.terasort_cluster:main",
    "jenkins-build": f"{_HERE}.jenkins_build:main",
    "rpc": f"{_HERE}.rpc:main",
    "rpc-elsewhere": f"{_HERE}.rpc:elsewhere",
    "rpc-serialising": f"{_HERE}.rpc:serialising_alone",
    "rpc-failures": f"{_HERE}.rpc_failures:main",
    "storm-lab": f"{_HERE}.storm_lab:main",
}
"""By name, `module:function`: takes the arguments after the name, returns the exit code."""


def main(arguments: list[str]) -> int:
    """Run a generator and return its exit code; 2 for an unknown name."""
    if not arguments or arguments[0] not in GENERATORS:
        print(f"error: no such generator\n  hint: known: {', '.join(GENERATORS)}", file=sys.stderr)
        return 2
    sys.argv[0] = arguments[0]
    module, _, function = GENERATORS[arguments[0]].partition(":")
    return int(getattr(importlib.import_module(module), function)(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
