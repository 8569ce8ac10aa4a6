"""Cells of imported runs: one for each label that the tool gives, and for each difference of settings.

Runs in the order of the files give levels. A ratio between two settings needs more: stamps that prove that their runs
took turns. Without that it is refused, since whatever the machine did meanwhile would count as an effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from contend.imports.document import Run
from contend.stats.design_check import Row, infer_blocks, order_warnings

AB = "interleave them in one run: contend ab -- COMMAND_A --vs COMMAND_B"
_OVERLAP_S = 1.0  # the resolution of most stamps
Names = Mapping[tuple[str, tuple[tuple[str, str], ...]], str]  # of a label's settings


@dataclass(frozen=True, slots=True)
class Placed:
    """A run in its cell and block. `file`: which of the files it came from, from 0."""

    run: Run
    file: int
    cell: str
    block: int


@dataclass(frozen=True, slots=True)
class ImportedCell:
    """`no_ratio`: why it cannot be compared with its baseline; "" where it can. `baseline`: "" of a first cell."""

    id: str
    factors: Mapping[str, str]
    settings: Mapping[str, str]
    baseline: str = ""
    no_ratio: str = ""
    warnings: tuple[str, ...] = ()


def lay_out(tool: str, files: Sequence[Sequence[Run]]) -> tuple[tuple[ImportedCell, ...], tuple[Placed, ...]]:
    """Sort runs into cells and blocks: cells in the order of their first run, runs in the order of the files."""
    numbered = [(number, run) for number, runs in enumerate(files) for run in runs]
    names = _names([run for _, run in numbered])
    cells: list[ImportedCell] = []
    placed: list[Placed] = []
    for label in dict.fromkeys(run.label for _, run in numbered):
        mine = [(index, file, run) for index, (file, run) in enumerate(numbered) if run.label == label]
        variants = list(dict.fromkeys(names[label, _key(run)] for _, _, run in mine))
        ids = {variant: _id(label, variant) for variant in variants}
        blocks, why = _blocks(tool, label, mine, names, variants)
        counts: dict[str, int] = {}
        for index, file, run in mine:
            name = ids[names[label, _key(run)]]
            own = counts.get(name, 0)
            counts[name] = own + 1
            block = blocks[index] if blocks else own if len(variants) == 1 else index
            placed.append(Placed(run, file, name, block))
        warnings = {v: _warnings(mine, blocks, label, names, (variants[0], v)) for v in variants[1:]}
        for number, variant in enumerate(variants):
            first = next(run for _, _, run in mine if names[label, _key(run)] == variant)
            factors = ({"victim": label} if label else {}) | ({"variant": variant} if variant else {})
            cell = ImportedCell(ids[variant], factors, first.settings)
            if number:
                cell = replace(cell, baseline=ids[variants[0]], no_ratio=why, warnings=warnings[variant])
            cells.append(cell)
    return tuple(cells), tuple(sorted(placed, key=lambda p: p.file))


def common(runs: Sequence[Run]) -> dict[str, str]:
    """Settings that all of these runs share."""
    first = runs[0].settings if runs else {}
    return {k: v for k, v in first.items() if all(r.settings.get(k) == v for r in runs)}


def _id(label: str, variant: str) -> str:
    return f"{label}|{variant}" if label and variant else label or variant


def _key(run: Run) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(run.settings.items()))


def _names(runs: Sequence[Run]) -> Names:
    """Names of each of a label's settings: those that differ, "" where none does. A command is its own name."""
    names: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
    for label in dict.fromkeys(run.label for run in runs):
        mine = [run for run in runs if run.label == label]
        keys = dict.fromkeys(key for run in mine for key in run.settings)
        differ = [k for k in keys if len({run.settings.get(k) for run in mine}) > 1]
        if not label and "command" in keys:
            differ = ["command"]
        for run in mine:
            words = [f"{k}={run.settings.get(k, 'not set')}" for k in differ]
            names[label, _key(run)] = run.settings["command"] if differ == ["command"] else ", ".join(words)
    return names


def _blocks(
    tool: str,
    label: str,
    mine: Sequence[tuple[int, int, Run]],
    names: Names,
    variants: Sequence[str],
) -> tuple[dict[int, int], str]:
    """The block of each run by its number, where stamps prove that the variants took turns; else why there are none."""
    if len(variants) < 2:
        return {}, ""
    stamped = [(run.began_s, index, run) for index, _, run in mine if run.began_s is not None]
    if len(stamped) < len(mine):
        how = (
            "hyperfine runs all of one command before the next, which is block order"
            if tool == "hyperfine"
            else f"{tool} does not say when each run was made, so nothing proves another order than one after the other"
        )
        return {}, f"no ratio: {how}, and any drift of the machine would count as an effect; {AB}"
    stamped.sort(key=lambda each: each[0])
    for (_, _, one), (began, _, _) in pairwise(stamped):
        if one.ended_s is not None and one.ended_s - began > _OVERLAP_S:
            return {}, (
                "no ratio: by their stamps two of the runs overlapped in time, so each was the other's neighbour; "
                f"contend run noisy-neighbour measures that, and for a comparison {AB}"
            )
    rows = [Row("", names[label, _key(run)], 1.0, began) for began, _, run in stamped]
    inferred = infer_blocks(rows)
    if inferred is None:
        return {}, (
            "no ratio: by their stamps the runs did not take turns (block order), and any drift of the machine would"
            f" count as an effect; {AB}"
        )
    return {index: int(row.block) - 1 for (_, index, _), row in zip(stamped, inferred, strict=True)}, ""


def _warnings(
    mine: Sequence[tuple[int, int, Run]],
    blocks: Mapping[int, int],
    label: str,
    names: Names,
    pair: tuple[str, str],
) -> tuple[str, ...]:
    """Warn of what the order of two interleaved variants leaves to doubt."""
    if not blocks:
        return ()
    rows = [
        Row(str(blocks[index]), names[label, _key(run)], 1.0, run.began_s)
        for index, _, run in sorted(mine, key=lambda each: each[2].began_s or 0.0)
        if names[label, _key(run)] in pair
    ]
    return tuple(order_warnings(rows, timed=True))
