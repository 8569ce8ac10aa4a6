"""Pools under fio by block size, depth, engine, share of reads and pattern: a screening, then the cells that matter."""
