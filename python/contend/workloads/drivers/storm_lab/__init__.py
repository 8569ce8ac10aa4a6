"""A small control plane under a boot storm: a driver, a conductor, compute services, over a real broker.

It is a program to be measured, and imports nothing of contend: `contend trace` runs it unchanged.
"""
