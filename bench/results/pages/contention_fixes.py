"""Whether what-if, of the version before a contention fix, says what the fix gave."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Sequence

from results.files import Data
from results.words import pct, table

SAME = 0.05
"""A prediction of a ratio that is further off than that, and further than the measured interval, is wrong."""


def body(d: Data) -> str:
    """A row for each fix, then what was asked without an edit."""
    rows = d["rows"]
    asked = [row for row in rows if row["edited"] is not None]
    trusted = [row for row in asked if row["edited"]["trusted"]]
    exact = [row for row in trusted if kind(row) == "exact"]
    wrong = [row for row in trusted if off(row)]
    inside = [row for row in trusted if within(row)]
    refused = [row for row in asked if not row["edited"]["trusted"] and "ratio" in row["edited"]]
    named = [row for row in asked if place(row) is not None]
    table_of = [[*heading(row), measured(row), *predicted(row), edit(row)] for row in rows]
    head = ["fix", "what it did", "after / before", "predicted", "error", "edit"]
    said = [[heading(row)[0], ranking(row)] for row in rows]
    return f"""\
{len(rows)} fixes from the histories of public projects, each measured by a storm of jobs that runs into the contention:
medians of the jobs' times, the version after the fix by the version before, nothing traced, in randomised turns, with 95 %
intervals. `contend whatif` has {d["traces"]} traced storms of the version before.

- **No edit fits**: {len(rows) - len(asked)} of {len(rows)}.
- **Trusted**: {len(trusted)} of {len(asked)} edits; {len(exact)} of them are exactly what the fix did, of the others the nearest.
- **Off** by more than {pct(SAME)} and outside of the measured interval: {len(wrong)} of {len(trusted)}; of those that are exact
  {len([row for row in exact if off(row)])} of {len(exact)}.
- **Refused**, though with a figure: {len(refused)}, of which {len([row for row in refused if off(row)])} would have been off so.
- **Inside**: {len(inside)} of {len(trusted)} measured ratios lay in the predicted interval.
- **Named unasked**: {len(named)} of {len(asked)} edits, by lock, pool or span, are among the fixes that suggest themselves;
  {len([row for row in named if place(row) == 1])} as the first.

{table(head, table_of, "llrrrl")}

Asked without an edit, for the fixes worth most:

{table(["fix", "answer"], said, "ll")}"""


def kind(row: Data) -> str:
    """exact, nearest or none fits."""
    return str(row["fits"]).partition(":")[0]


def off(row: Data) -> bool:
    """Whether the predicted ratio is wrong."""
    value, low, high = row["measured"]["ratio"]["median"]
    said = row["edited"]["ratio"]["median"][0]
    return abs(said / value - 1) > SAME and not low <= said <= high


def within(row: Data) -> bool:
    """Whether the measured ratio lies in the predicted interval."""
    _, low, high = row["edited"]["ratio"]["median"]
    return low is not None and low <= row["measured"]["ratio"]["median"][0] <= high


def place(row: Data) -> int | None:
    """The first of the fixes that suggest themselves, from 1, which is of the same kind and of the same thing as the edit."""
    option, thing = target(row["edit"])
    for number, one in enumerate(row["ranked"]["fixes"], 1):
        for words in map(shlex.split, one["edits"]):
            said, of = target(words)
            if said == option and fnmatch.fnmatchcase(of, thing):
                return number
    return None


def target(words: Sequence[str]) -> tuple[str, str]:
    """An edit without its value.

    >>> target(["--hold", "Pool._lock=0.5"]), target(["--remove", "HTTP GET *"])
    (('--hold', 'Pool._lock'), ('--remove', 'HTTP GET *'))
    """
    option, thing = words
    return option, thing if option == "--remove" else thing.rpartition("=")[0]


def heading(row: Data) -> list[str]:
    """Versions with a link to the change, and what it did."""
    versions = f"{row['before'][0].replace('==', ' ')} → {row['after'][0].partition('==')[2]}"
    return [f"[{versions}]({row['link']})", str(row["did"])]


def measured(row: Data) -> str:
    """The ratio, with a mark where it is less narrow than wanted."""
    return ratio(row["measured"]["ratio"]["median"]) + ("" if row["measured"]["reached"] else " (wide)")


def predicted(row: Data) -> list[str]:
    """The predicted ratio and its error, or why there is none."""
    answer = row["edited"]
    if answer is None:
        return ["—", "—"]
    if not answer["trusted"]:
        return [f"refused: {answer['ratio']['median'][0]:.2f}" if "ratio" in answer else "refused", "—"]
    error = answer["ratio"]["median"][0] / row["measured"]["ratio"]["median"][0] - 1
    return [ratio(answer["ratio"]["median"]), f"{100 * error:+.0f} %"]


def edit(row: Data) -> str:
    """The edit and how well it fits, with the reason of a refusal."""
    words = f"`{shlex.join(row['edit'])}`; " if row["edit"] else ""
    answer = row["edited"]
    reason = f"; refused: {answer['reason']}" if answer is not None and not answer["trusted"] else ""
    return f"{words}{row['fits']}{reason}".replace("|", "\\|").replace("\n", " ")


def ranking(row: Data) -> str:
    """The best fix that suggests itself."""
    answer = row["ranked"]
    if not answer["trusted"]:
        return f"refused: {answer['reason']}".replace("\n", " ")
    if not answer["fixes"]:
        return "none would gain anything"
    best = answer["fixes"][0]
    return f"`{' '.join(best['edits'])}`: {ratio(best['ratio'])}"


def ratio(of: Sequence[float | None]) -> str:
    """A value with its interval."""
    value, low, high = of
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"
