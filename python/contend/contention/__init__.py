"""Contention between workloads: who waited, for what, and what was idle meanwhile."""
