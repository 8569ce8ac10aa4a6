"""What workloads contend for: who waited, for what, and what was idle meanwhile."""
