"""A placement study in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.placement import words as told
from contend.studies.placement.result import Placements

WIDE = 100  # columns of a terminal that has room for all


def show_placement(
    found: Placements,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    width: int,
    verbose: bool = False,
) -> None:
    """Places, effects, what adds CPU time, the aggregate by pairs, what others said; verbose: of all conditions.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table; width: of the
    terminal, in columns.
    """
    line(f"{told.label(found)}.", "dim", 2, 2)
    wide = width >= WIDE
    for conditions in found.conditions:
        if conditions.pairs != found.first.pairs and not verbose:
            continue
        line()
        line(f"{conditions.label}", "bold")
        columns(told.headers(found, conditions, wide=wide), told.rows(found, conditions, wide=wide), 1)
    line("· no detectable effect", "dim", 2)
    line(f"{told.cpu_about(found)}.", "dim", 2, 2)
    for note in told.notes(found):
        line(note, "yellow", 2, 2)
    if rows := told.effect_rows(found, None if verbose else [found.first], wide=wide):
        line()
        line("Effects" + ("" if verbose else f", {found.first.label}"), "bold")
        columns(told.effect_headers(found, wide=wide), rows, 1)
        for meaning in told.meanings(found):
            line(meaning, "dim", 2, 2)
    if rows := told.added_rows(found, found.first):
        line()
        line(f"What takes CPU time, {found.first.label}", "bold")
        columns(told.added_headers(), rows, 2)
    if rows := told.aggregate_rows(found):
        line()
        line("The aggregate by number of pairs", "bold")
        columns(told.aggregate_headers(found), rows, 1)
        for said in told.scaling(found):
            line(said, "", 2, 2)
    line()
    line("Ways", "bold")
    for place in found.places:
        line(f"{place.short}: {' → '.join(told.path(place, found.ends))}", "", 2, 2)
    line()
    where = "on this host" if found.ends == told.NAMESPACES else "on this cloud"
    line(f"What others said (Gulati et al., OpenStack Summit, Austin, 2016), {where}", "bold", 0, 2)
    for claim in found.claims:
        line(f"{claim.verdict}: {claim.claim}", "", 2, 2)
        for said in claim.said:
            line(said, "dim", 4, 2)
