"""Contention fixes from the histories of public projects: a file each in `fixes`, and what measures them."""
