"""A storage sweep in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.storage import words as wording
from contend.studies.storage.result import IOPS, LATENCY, Sweep


def show_sweep(
    sweep: Sweep,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]]], None],
    *,
    verbose: bool,
) -> None:
    """The table without and with a neighbour, the verdicts by pool, the screening and its surfaces, the pools.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table. verbose: every mix.
    """
    if sweep.measured:
        line()
        line(f"What a neighbour on the pool takes. {wording.about(sweep)}", "bold", 0, 2)
        columns(
            wording.HEADERS[:-1] if not verbose else wording.HEADERS,
            [r if verbose else r[:-1] for r in wording.rows(sweep)],
        )
    line()
    line("By pool", "bold")
    for words in wording.neighbour_words(sweep):
        line(words, "", 2, 2)
    line()
    line("Response surfaces (described by a fit; * was measured too)", "bold")
    for words in wording.screening(sweep):
        line(words, "", 2, 2)
    for pool in sweep.pools:
        for mix in pool.mixes if verbose else [m for m in pool.mixes if m == sweep.mix] or pool.mixes[:1]:
            for metric in (IOPS, LATENCY):
                header, body = wording.grid(pool, metric, mix)
                if body:
                    line(f"{pool.name}, {mix}: {wording.NAMES[metric]}", "", 2, 2)
                    columns(header, body)
    for words in wording.pools(sweep):
        line(words, "dim", 2, 2)
