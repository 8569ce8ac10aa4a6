"""Pairs of instances on the same or different hosts, in the same or different subnets."""
