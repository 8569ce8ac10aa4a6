"""The hunt: which locks, pools and calls the time of a batch of jobs went to, ranked.

    traces ─► tables (native) ─► rules ─► findings, ranked by the part of the jobs' time that they explain

`rows` has the tables as values, `rules` a file for each kind of finding, `hunt` puts them together.
Import from the modules: this one imports nothing.
"""
