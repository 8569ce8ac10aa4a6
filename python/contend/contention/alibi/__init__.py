"""The hardware's alibi: which resource was saturated, when and for how long, or that none was.

    series (counters at sample times) ─► Recording ─► bins of half a second ─► one judge a resource ─► tracks
                                                                               tracks ─► rank by waiting ─► Alibi

`judge` speaks of one phase, a range of time that the caller names; `phases` cuts a long recording into phases of
constant verdict. What makes a resource saturated, and why, stands in `limits`; the words for people in `words`.
Import from the modules: `judge` needs numpy and DuckDB, `verdict` nothing.
"""
