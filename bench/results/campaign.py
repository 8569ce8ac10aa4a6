"""Campaigns of many draws: a row is kept when its draw is complete, so that one which was stopped goes on where it stood.

    with gathering(parser(__doc__, count=100).parse_args()) as campaign:
        rows = campaign.rows(lambda number: {"drawn": number})
        campaign.write({"rows": rows})

The head of what is written is that of all the times in which draws were made, not of the last.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import files
from results.record import current, recording

Row = dict[str, Any]
Head = Mapping[str, Any]


def parser(description: str | None, count: int) -> argparse.ArgumentParser:
    """Where rows are kept, how many, the seed, and where the result goes."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="rows are kept here")
    made.add_argument("--count", type=int, default=count)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    made.add_argument("--resume", action="store_true", help="begin with the rows that are at --write")
    return made


@dataclass(frozen=True, slots=True)
class Campaign:
    """Draws in one folder, with the heads of the times in which they were made."""

    given: argparse.Namespace
    earlier: Sequence[Head]

    @property
    def output(self) -> Path:
        return Path(self.given.output).resolve()

    def rows(
        self,
        one: Callable[[int], Row],
        shown: Callable[[Row], object] = str,
        *,
        is_stale: Callable[[int, Row], bool] = lambda _number, _row: False,
    ) -> list[Row]:
        """Return all of them: those that were kept, and what `one` gives for the number of each that is missing or stale."""
        kept = self.output / "rows.ndjson"
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        stale = [number for number, row in enumerate(rows[: self.given.count]) if is_stale(number, row)]
        for number in [*stale, *range(len(rows), self.given.count)]:
            rows[number : number + 1] = [one(number)]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            whole = kept.with_suffix(".new")
            whole.write_text(text, encoding="utf-8")
            whole.replace(kept)
            self._heads().write_text(json.dumps([*self.earlier, self._now()]))
            print(number + 1, shown(rows[number]), flush=True)
        return rows

    def write(self, result: files.Data) -> None:
        """The result with its page, where --write says; nothing without it."""
        if self.given.write:
            heads = json.loads(self._heads().read_text()) if self._heads().exists() else [self._now()]
            files.save_at(self.given.write, result, made=merged(heads))

    def _heads(self) -> Path:
        return self.output / "heads.json"

    def _now(self) -> Head:
        return current().head(seed=self.given.seed)


@contextmanager
def gathering(given: argparse.Namespace) -> Iterator[Campaign]:
    """Watch the host for as long as the block runs.

    Raises:
        SystemExit: --resume without --write; the rows there come from another seed, so that other draws would follow.

    """
    given.output.mkdir(parents=True, exist_ok=True)
    kept, heads = given.output / "rows.ndjson", given.output / "heads.json"
    if given.resume and given.write is None:
        raise SystemExit("--resume begins with the rows that are at --write: name both")
    if given.resume and not kept.exists():
        document = files.load(given.write.name, given.write.absolute().parent)
        if document["made"]["seed"] != given.seed:
            raise SystemExit(f"{given.write} was drawn from seed {document['made']['seed']}: give --seed")
        kept.write_text("".join(json.dumps(row) + "\n" for row in document["rows"]), encoding="utf-8")
        heads.write_text(json.dumps([document["made"]]))
    with recording():
        yield Campaign(given, json.loads(heads.read_text()) if heads.exists() else [])


def merged(heads: Sequence[Head]) -> Row:
    """One head for several times: from the first commit and date on, the others' CPU time over all of it.

    Raises:
        ValueError: the number of CPUs differs, so that draws of one time say nothing of another's.

    """
    machines = [head["machine"] for head in heads]
    if len({of["cpus"] for of in machines}) > 1:
        raise ValueError("draws were made on machines with different numbers of CPUs")
    seconds = sum(head["seconds"] for head in heads)
    commits = list(dict.fromkeys(one for head in heads for one in head.get("commits") or [head["commit"]]))
    return {
        **heads[-1],
        "date": heads[0]["date"],
        "commit": commits[0],
        **({"commits": commits} if len(commits) > 1 else {}),
        "dirty": any(head["dirty"] for head in heads),
        "machine": {
            key: values[0] if len(values) == 1 else "; ".join(map(str, values))
            for key in machines[0]
            if (values := list(dict.fromkeys(of.get(key) for of in machines)))
        },
        "load_before": max(head["load_before"] for head in heads),
        "load_max": max(head["load_max"] for head in heads),
        "foreign_cpus": _mean(heads, "foreign_cpus", seconds),
        "foreign_cpus_max": _most(heads, "foreign_cpus_max"),
        "stolen_cpus": _mean(heads, "stolen_cpus", seconds),
        "seconds": seconds,
    }


def _mean(heads: Sequence[Head], key: str, seconds: float) -> float | None:
    """Weigh by time; None where one head lacks it."""
    if any(head.get(key) is None for head in heads):
        return None
    return round(sum(head[key] * head["seconds"] for head in heads) / max(seconds, 1), 3)


def _most(heads: Sequence[Head], key: str) -> float | None:
    values = [head.get(key) for head in heads]
    return None if None in values else max(value for value in values if value is not None)
