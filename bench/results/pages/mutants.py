"""Which small faults in the code the tests notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from results.files import Data
from results.words import bounds, pct, table


def body(d: Data) -> str:
    """A row for each target, and what survived."""
    targets = dict(d)
    head = ["code", "drawn of", "noticed", "by time-out", "survived", "equivalent", "share (95 % bounds)"]
    rows = [_row(name.removeprefix("mutants-"), target) for name, target in targets.items()]
    parts = [
        "Small faults are put into the code one at a time (a comparison turned, a number one higher, an argument left out, a"
        " result that is None) and the tests that run the changed line are run. A fault is *noticed* when one fails or does"
        " not end. Faults are drawn at random of all that the tool can make; letters of messages are not among them."
        " *Equivalent* is a fault that changes nothing anybody could see, with its reason below; both shares are given."
        " Bounds are Clopper–Pearson's.",
        table([*head, "without equivalent"], rows, "lrrrrrrr"),
    ]
    for name, target in targets.items():
        parts += [f"## {name.removeprefix('mutants-')}", f"{target['what']}. Tool: {target['tool']}."]
        if target["sampled"] < target["wanted"]:
            parts.append(
                f"Stopped: {target['wanted']} were drawn, and the first {target['sampled']} of them tried."
            )
        parts += [
            f"- not used, for it failed with nothing mutated: {one}"
            for one in target.get("tests_left_out", [])
        ]
        parts.append(_survivors(target["survivors"]))
    return "\n\n".join(parts)


def _row(name: str, target: Data) -> list[object]:
    counts, scores = target["outcomes"], target["scores"]
    alike = scores["of_all"]["tried"] - scores["without_equivalent"]["tried"]
    drawn = f"{target['sampled']} of {target['mutants']}"
    of = [scores["noticed"], counts.get("timed out", 0), counts.get("survived", 0), alike]
    return [name, drawn, *of, _share(scores["of_all"]), _share(scores["without_equivalent"])]


def _share(score: Mapping[str, Any]) -> str:
    return f"{pct(score['share'], 1)} ({bounds(*score['bounds'])})"


def share(target: Data) -> str:
    """Of all that were tried."""
    return _share(target["scores"]["of_all"])


def _survivors(survivors: Sequence[Mapping[str, Any]]) -> str:
    if not survivors:
        return "No fault survived."
    rows = []
    for one in survivors:
        why = f"{'equivalent: ' if one.get('equivalent') else ''}{one.get('reason', '')}"
        where = f"{one['file'].removeprefix('python/contend/')}:{one['line']} {one['function']}"
        rows.append([where, _code(one["was"]), _code(one["now"]), why])
    return table(["survived at", "was", "became", "why"], rows)


def _code(text: str) -> str:
    short = text if len(text) <= 80 else text[:79] + "…"
    return f"`` {short.replace('|', chr(92) + '|')} ``" if short else "(nothing)"
