"""What a party runs on: the bare host or a container, with its cgroups, CPUs, network and clean-up.

The seam is `base`; `registry.platform` makes one by name; `resources` removes what a run left.
"""
