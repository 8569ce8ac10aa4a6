"""Which results are out of date: what they were made with has changed since, others used the machine, or the head lacks
what would tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from results import files
from results.closure import Blobs, Tree, closure, tree
from results.recipes import Recipe, recipes
from results.record import disturbed

WANTED = ("command", "date", "commit", "load_before", "load_max", "foreign_cpus", "seconds")


@dataclass(frozen=True, slots=True)
class Status:
    """Of one data file. `changed`: parts that are nowhere any more, by the file that had them."""

    page: str
    data: str
    commit: str | None
    state: str
    """stale, unknown or current; apart from whether it was disturbed, or its head is incomplete."""
    why: str
    changed: dict[str, int]
    depends_on: int
    disturbed: str
    not_recorded: list[str]

    @property
    def fine(self) -> bool:
        """Nothing is to be said of it."""
        return self.state == "current" and not self.disturbed and not self.not_recorded

    def to_json(self) -> dict[str, Any]:
        """With what `fine` says."""
        return asdict(self) | {"fine": self.fine}


def statuses(names: Iterable[str] = ()) -> list[Status]:
    """Of those pages, or all."""
    blobs = Blobs.load()
    now = tree()
    of = dict(recipes())
    wanted = list(names) or list(of)
    found = [_status(name, of[name], data, now, blobs) for name in wanted for data in of[name].data]
    blobs.keep()
    return found


@cache
def _tree(commit: str) -> Tree:
    return tree(commit)


def _status(name: str, recipe: Recipe, data: str, now: Tree, blobs: Blobs) -> Status:
    made = files.load(data)["made"]
    lacking = [key for key in WANTED if made.get(key) is None]
    lacking += [
        f"machine.{key}"
        for key in ("cpu", "cpus", "memory_gib", "kernel")
        if not (made.get("machine") or {}).get(key)
    ]
    changed, size = {}, 0
    commit = made.get("commit")
    if not commit:
        state, why = "unknown", "its commit was not recorded"
    elif made.get("dirty"):
        state, why = "unknown", f"made from {commit} with changes that are in no commit"
    else:
        try:
            then = closure(recipe.entry, _tree(commit), blobs, recipe.without)
            after = closure(recipe.entry, now, blobs, recipe.without)
        except (LookupError, ValueError) as error:
            state, why = "unknown", str(error)
        else:
            size = len(then)
            changed = gone(then, after)
            state, why = ("stale", _named(changed)) if changed else ("current", "")
    return Status(name, data, commit, state, why, changed, size, disturbed(made), lacking)


def gone(then: dict[str, frozenset[str]], now: dict[str, frozenset[str]]) -> dict[str, int]:
    """How many parts of each file are in no file now. What was added counts where something that was there uses it:
    then that has changed too."""
    there = frozenset[str]().union(*now.values())
    return {path: len(lost) for path, parts in sorted(then.items()) if (lost := parts - there)}


def _named(changed: dict[str, int]) -> str:
    most = sorted(changed, key=lambda path: -changed[path])
    more = f" and {len(most) - 2} more files" if len(most) > 2 else ""
    return f"{sum(changed.values())} parts changed: {', '.join(most[:2])}{more}"


def shown(found: Iterable[Status]) -> str:
    """A table of what is to be looked at, and how many are fine."""
    rows = list(found)
    lines = []
    for one in rows:
        if one.fine:
            continue
        lines.append(f"{one.data:<32} {one.commit or '-':<9} {one.state:<8} {one.why}".rstrip())
        if one.disturbed:
            lines.append(f"{'':<51} disturbed: {one.disturbed}")
        if one.not_recorded:
            lines.append(f"{'':<51} not recorded: {', '.join(one.not_recorded)}")
    count = {state: sum(one.state == state for one in rows) for state in ("stale", "unknown", "current")}
    return "\n".join(
        [
            *lines,
            "",
            f"{len(rows)} data files: {', '.join(f'{n} {state}' for state, n in count.items())};"
            f" {sum(bool(one.disturbed) for one in rows)} disturbed,"
            f" {sum(bool(one.not_recorded) for one in rows)} with an incomplete head, {sum(one.fine for one in rows)} fine.",
            "Make one again: scripts/results.py make NAME",
        ]
    )
