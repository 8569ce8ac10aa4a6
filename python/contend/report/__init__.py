"""Reports: the same analysis for people (terminal, page) and for machines (JSON, exports)."""
