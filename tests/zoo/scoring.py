"""How often contend was right, wrong and trusted, or refused, by mechanism, beside what two naive answers would have been.

PYTHONPATH=tests python -m zoo.scoring DIR [--worst 5]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from contend.stats.quantiles import clopper_pearson
from zoo import truth
from zoo.campaign import rows as read_rows
from zoo.mechanisms import mechanisms

Outcome = Literal[
    "right",
    "wrong and trusted",
    "refused rightly",
    "refused needlessly",
    "no number",
    "trusted, undecided",
    "refused, undecided",
    "refused, not measured",
    "trusted, not measured",
]
Heard = Literal["first", "named", "missed", "silent", "false alarm", "not judged"]
Ratios = tuple[float, float]
"""Edited over unedited: median of the jobs' times, makespan."""
Row = Mapping[str, Any]

ERROR = 0.10
"""How far a prediction may be off the truth, as a part of it."""
CHANGE = 0.05
"""The least true change whose sign a prediction must not miss."""
PLANTED = 0.10
"""The least share of the jobs' time that they must have lost in what is planted for a hunt to have to name it."""


def wrong(predicted: Ratios, true: Ratios) -> bool:
    """True if the median or the makespan is off by more than `ERROR`, or a true change has the other sign.

    >>> wrong((0.5, 0.5), (0.52, 0.53)), wrong((0.5, 0.5), (0.6, 0.5)), wrong((1.01, 1.0), (0.94, 1.0))
    (False, True, True)
    """
    for one, real in zip(predicted, true, strict=True):
        if abs(one / real - 1) > ERROR:
            return True
        if abs(real - 1) >= CHANGE and (one - 1) * (real - 1) < 0:
            return True
    return False


def has_moved(edit: Row) -> bool:
    """True if its truth is of another host than was traced, by unedited storms. Older rows do not say."""
    return edit["truth"] is not None and abs(edit["truth"].get("drift", 0.0)) > truth.DRIFT


def wrong_truly(predicted: Ratios, edit: Row) -> bool | None:
    """True if a prediction of the edit is wrong, None where its truth is too wide to say, of another host, or not measured.

    A truth that was not decided still says so where its intervals' ends and middles all give the same answer.
    """
    if edit["truth"] is None or has_moved(edit):
        return None
    ends = [
        [one["value"]] if edit["truth"]["decided"] else [one["low"], one["value"], one["high"]]
        for one in (edit["truth"]["median"], edit["truth"]["makespan"])
    ]
    answers = {wrong(predicted, (median, makespan)) for median in ends[0] for makespan in ends[1]}
    return answers.pop() if len(answers) == 1 else None


def outcome(edit: Row) -> Outcome:
    """How contend's prediction of an edit came out."""
    predicted = edit["predicted"]
    if predicted["median"] is None or predicted["makespan"] is None:
        return "no number"
    if edit["truth"] is None:
        return "trusted, not measured" if predicted["trusted"] else "refused, not measured"
    bad = wrong_truly((predicted["median"], predicted["makespan"]), edit)
    if bad is None:
        return "trusted, undecided" if predicted["trusted"] else "refused, undecided"
    if predicted["trusted"]:
        return "wrong and trusted" if bad else "right"
    return "refused rightly" if bad else "refused needlessly"


def no_change(row: Row, edit: Row) -> Ratios:
    """The naive answer that an edit changes nothing."""
    return 1.0, 1.0


def its_share_goes(row: Row, edit: Row) -> Ratios:
    """The naive answer that the jobs lose as much of what they spend in the edited thing as the edit takes from it."""
    change = edit["change"]
    name = change["options"][1].rpartition("=")[0] or change["options"][1]
    hunt = row["hunt"]
    share = (
        sum(ns for key, ns in hunt["time"].items() if key == name) / hunt["whole"] if hunt["whole"] else 0.0
    )
    left = 1 - share * (1 - change["kept"])
    return left, left


BASELINES: Mapping[str, Callable[[Row, Row], Ratios]] = {
    "no change": no_change,
    "its share goes": its_share_goes,
}


def heard(row: Row) -> Heard:
    """How contend's hunt came out: whether what cost the jobs time came first, was named at all, or nothing was made up."""
    if row["hunt"]["error"]:
        return "not judged"
    findings = row["hunt"]["findings"]
    if not row["culprits"]:
        if set(row["mechanisms"]) != {"nothing_planted"}:
            return "not judged"
        return "false alarm" if any(one["share"] >= PLANTED for one in findings) else "silent"
    lost = row["plain"]["lost"]
    cost = [one for one in row["culprits"] if not one["lost"] or lost.get(one["lost"], 0.0) >= PLANTED]
    must = [one for one in cost if one["lost"]]
    if not must:
        return "not judged"
    names = [name for one in cost for name in one["names"]]
    hits = [_matches(one, names) for one in findings]
    if hits and hits[0]:
        return "first"
    return "named" if any(hits) else "missed"


def _matches(finding: Row, names: Iterable[str]) -> bool:
    texts = (finding["resource"], finding["edit"], finding["kind"])
    return any(fnmatchcase(text.lower(), name.lower()) for text in texts for name in names)


def groups(of: Sequence[Row]) -> dict[str, list[Row]]:
    """All programs, those of which what-if is expected to answer, and those with each mechanism, by what a table calls
    them."""
    unsupported = {name for name, mechanism in mechanisms().items() if mechanism.unsupported}
    groups = {
        "all": list(of),
        "all that are supported": [row for row in of if unsupported.isdisjoint(row["mechanisms"])],
    }
    for name, mechanism in mechanisms().items():
        about = f"{mechanism.about} Not supported." if mechanism.unsupported else mechanism.about
        groups[f"{name}: {about}"] = [row for row in of if name in row["mechanisms"]]
    return groups


def _bounds(count: int, of: int) -> str:
    if not of:
        return "–"
    low, high = clopper_pearson(count, of)
    return f"{count} of {of} ({100 * low:.0f}–{100 * high:.0f} %)"


def table(of: Sequence[Row]) -> str:
    """The scores of predictions as a table in Markdown: a line a mechanism, and one for all programs."""
    heads = [
        "mechanism",
        "edits",
        "right",
        "wrong and trusted",
        "refused rightly",
        "refused needlessly",
        "no number",
    ]
    heads += [
        "trusted, undecided",
        "refused, undecided",
        "refused, not measured",
        *(f"wrong: {name}" for name in BASELINES),
    ]
    body = []
    for name, group in groups(of).items():
        pairs = [(row, edit) for row in group for edit in row["edits"]]
        if not pairs:
            continue
        counts: Counter[Outcome] = Counter(outcome(edit) for _, edit in pairs)
        trusted = counts["right"] + counts["wrong and trusted"]
        refused = counts["refused rightly"] + counts["refused needlessly"]
        cells = [name, str(len(pairs)), _bounds(counts["right"], trusted)]
        cells += [_bounds(counts["wrong and trusted"], trusted), _bounds(counts["refused rightly"], refused)]
        cells += [_bounds(counts["refused needlessly"], refused), str(counts["no number"])]
        undecided = counts["trusted, undecided"], counts["refused, undecided"]
        cells += [*map(str, undecided), str(counts["refused, not measured"])]
        for naive in BASELINES.values():
            answers = [wrong_truly(naive(row, edit), edit) for row, edit in pairs]
            cells.append(_bounds(answers.count(True), len(answers) - answers.count(None)))
        body.append(cells)
    return _markdown(heads, body)


def hunt_table(of: Sequence[Row]) -> str:
    """The scores of hunts as a table in Markdown."""
    heads = ["mechanism", "culprit first", "named", "missed", "silent where nothing is planted", "not judged"]
    body = []
    for name, group in groups(of).items():
        counts: Counter[Heard] = Counter(heard(row) for row in group)
        planted = counts["first"] + counts["named"] + counts["missed"]
        empty = counts["silent"] + counts["false alarm"]
        if not group:
            continue
        cells = [name, _bounds(counts["first"], planted), _bounds(counts["named"], planted)]
        cells += [
            _bounds(counts["missed"], planted),
            _bounds(counts["silent"], empty),
            str(counts["not judged"]),
        ]
        body.append(cells)
    return _markdown(heads, body)


def _markdown(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *body))


def worst(of: Sequence[Row], count: int) -> list[str]:
    """The trusted predictions that were furthest off, a line each."""
    bad = []
    for row in of:
        for edit in row["edits"]:
            if outcome(edit) != "wrong and trusted":
                continue
            true = (edit["truth"]["median"]["value"], edit["truth"]["makespan"]["value"])
            predicted = (edit["predicted"]["median"], edit["predicted"]["makespan"])
            off = max(abs(one / real - 1) for one, real in zip(predicted, true, strict=True))
            text = f"{row['population']} {row['seed']}: {', '.join(row['mechanisms'])} ({row['flavour']}); "
            text += f"{' '.join(edit['change']['options'])}: median predicted ×{predicted[0]:.2f}, true ×{true[0]:.2f}; "
            text += f"makespan predicted ×{predicted[1]:.2f}, true ×{true[1]:.2f}"
            bad.append((off, text))
    return [text for _, text in sorted(bad, reverse=True)[:count]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--worst", type=int, default=5)
    given = parser.parse_args(arguments)
    read = read_rows(given.folder)
    whole = [row for row in read if "failed" not in row]
    print(table(whole), hunt_table(whole), *worst(whole, given.worst), sep="\n\n")
    for row in read:
        if "failed" in row:
            print(
                f"\nfailed: {row['population']} {row['seed']}: {', '.join(row['mechanisms'])}: {row['failed']}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
