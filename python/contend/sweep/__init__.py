"""The storage sweep: its points, the pools they are measured on, and what the figures say together."""
