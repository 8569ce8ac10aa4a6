"""Platforms: the bare host, a container or a guest, with its cgroups, CPUs, network and clean-up.

The seam is `base`; `registry.platform` makes one by name; `resources` removes what a run left.
"""
