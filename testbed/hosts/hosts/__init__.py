"""Hosts like the users' own, as emulated guests: what contend does on each, from its wheels, without a network.

Function only: a guest without KVM is many times slower, and by different factors, so no figure of it is a result.
"""
