"""A placement study in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.placement import words as wording
from contend.studies.placement.result import Placements

WIDE = 100  # columns of a terminal that has room for all


def show_placement(
    placements: Placements,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    width: int,
    verbose: bool = False,
) -> None:
    """Print routes, effects, what adds CPU time, the aggregate by pairs, and claims of others; verbose: for all conditions.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table; width: of the
    terminal, in columns.
    """
    line(f"{wording.label(placements)}.", "dim", 2, 2)
    wide = width >= WIDE
    for conditions in placements.conditions:
        if conditions.pairs != placements.first.pairs and not verbose:
            continue
        line()
        line(f"{conditions.label}", "bold")
        columns(
            wording.headers(placements, conditions, wide=wide),
            wording.rows(placements, conditions, wide=wide),
            1,
        )
    line("· unaffected   ? undecided", "dim", 2)
    line(f"{wording.cpu_about(placements)}.", "dim", 2, 2)
    for note in wording.notes(placements):
        line(note, "yellow", 2, 2)
    if rows := wording.effect_rows(placements, None if verbose else [placements.first], wide=wide):
        line()
        line("Effects" + ("" if verbose else f", {placements.first.label}"), "bold")
        columns(wording.effect_headers(placements, wide=wide), rows, 1)
        for meaning in wording.meanings(placements):
            line(meaning, "dim", 2, 2)
    if rows := wording.added_rows(placements, placements.first):
        line()
        line(f"What takes CPU time, {placements.first.label}", "bold")
        columns(wording.added_headers(), rows, 2)
    if rows := wording.aggregate_rows(placements):
        line()
        line("The aggregate by number of pairs", "bold")
        columns(wording.aggregate_headers(placements), rows, 1)
        for text in wording.scaling(placements):
            line(text, "", 2, 2)
    line()
    line("Ways", "bold")
    for route in placements.routes:
        line(f"{route.short}: {' → '.join(wording.path(route, placements.ends))}", "", 2, 2)
    line()
    where = "on this host" if placements.ends == wording.NAMESPACES else "on this cloud"
    line(f"What others said (Gulati et al., OpenStack Summit, Austin, 2016), {where}", "bold", 0, 2)
    for claim in placements.claims:
        line(f"{claim.verdict}: {claim.claim}", "", 2, 2)
        for text in claim.answers:
            line(text, "dim", 4, 2)
