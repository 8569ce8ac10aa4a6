"""Results that other tools made, read into a run directory: `contend import`.

    source ─► formats (one file a tool) ─► document ─► cells (settings that differ) ─► write (a run directory) ─► told

What a tool sampled inside one run (requests, intervals, iterations) is no replicate: each run gives one value a metric.
"""
