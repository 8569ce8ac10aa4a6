"""How often `contend whatif` is wrong and trusted: storms of real threads drawn at random, edits made for real.

Each storm is recorded five times as it is and with each edit, in turns: five or six edits, and two of them together. A
trusted median that is more than 5 % off is wrong, unless the storms of that edit themselves differ by so much that five
of them cannot tell (the 95 % interval of the difference, Student's t over the pairs of one seed); so is a trusted sign where
the change is more than 5 % and more than that doubt. One that is not wrong is undecided where the doubt is beyond 10 %. A
refusal is not wrong. What an edit left of the holders' own time, by the storm's own clocks, is what the prediction is asked
for: half of what is slept is a little more than half of what that takes. Storms with a wrong answer are recorded nine times
more, and these alone say whether five were too few. Writes docs/results/what-if-draws.*; about 25 minutes, of which nearly
all is sleeping (CONTEND_DRAWS=8 for a look: five minutes).
"""

from __future__ import annotations

import dataclasses
import os
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from contend.contention.whatif.prediction import whatif
from contend.contention.whatif.storms import Edit, open_storms
from contend.stats.quantiles import t_quantile
from results.files import save
from support.toy_storm import Parameters, Truth, drawn, realtime, storm

pytestmark = pytest.mark.accept

DRAWS = int(os.environ.get("CONTEND_DRAWS", "30"))
TRACES = 5
MORE = range(TRACES, TRACES + 9)  # seeds of the second look
JOBS = 32
LIMIT = 0.05
WIDE = 0.10  # a doubt beyond it decides nothing

EDITS: dict[str, tuple[dict[str, Any], Edit]] = {
    "hold resource": ({"hold": {"resource": 0.5}}, Edit("hold", "resource", 0.5)),
    "hold hypervisor": ({"hold": {"hypervisor": 0.5}}, Edit("hold", "hypervisor", 0.5)),
    "remove": ({"without": ("audit",)}, Edit("remove", "audit")),
    "coalesce": ({"coalesce": 8}, Edit("coalesce", "call update", 8)),
    "global queue": ({"pool": "shared"}, Edit("global_queue", "pool")),
    "workers": ({"workers": 8}, Edit("workers", "pool", 8)),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One edit of one storm. Times are ns, of the median."""

    draw: int
    edit: str
    trusted: bool
    reason: str | None
    before: tuple[float, ...]
    predicted: float
    doubt: float
    """Of the error, relative: what so few storms before and after leave open."""
    measured: tuple[float, ...]

    @property
    def error(self) -> float:
        return self.predicted / statistics.mean(self.measured) - 1

    @property
    def change(self) -> float:
        return statistics.mean(self.measured) / statistics.mean(self.before) - 1

    @property
    def wrong(self) -> bool:
        return self.trusted and abs(self.error) > max(LIMIT, self.doubt)

    @property
    def wrong_sign(self) -> bool:
        said = self.predicted / statistics.mean(self.before) - 1
        return self.trusted and abs(self.change) > max(LIMIT, self.doubt) and said * self.change < 0


def cases_of(draw: int, directory: Path, fifo: bool, seeds: Sequence[int] = range(TRACES)) -> Iterator[Case]:
    of = dataclasses.replace(drawn(draw), jobs=JOBS, realtime=fifo)
    edits = {name: ((change,), (edit,)) for name, (change, edit) in EDITS.items()}
    if of.pool == "shared":
        del edits["global queue"]
    pair = random.Random(f"pair {draw}").sample(sorted(edits), 2)
    together = tuple(EDITS[name][0] for name in pair), tuple(EDITS[name][1] for name in pair)
    todo = {**edits, " + ".join(pair): together}
    storms: dict[str, list[Truth]] = {name: [] for name in ("before", *todo)}
    for seed in seeds:
        order = list(storms)
        random.Random(f"order {draw} {seed}").shuffle(order)
        for name in order:
            changed = merged(todo[name][0]) if name in todo else {}
            place = directory / f"{draw}-{name}-{seed}"
            storms[name].append(storm(place, of, seed=100 * draw + seed, **changed))
    sources = open_storms([directory / f"{draw}-before-{seed}" for seed in seeds])
    medians = {name: [float(truth.median) for truth in truths] for name, truths in storms.items()}
    for name, (_, told) in todo.items():
        answer = whatif(sources, came_to(told, storms["before"], storms[name]), rank=False)
        yield Case(
            draw,
            name,
            answer.gate.passed,
            answer.gate.reason,
            tuple(medians["before"]),
            answer.predicted["median_ns"].value,
            doubt(medians["before"], medians[name]),
            tuple(medians[name]),
        )


def came_to(edits: Sequence[Edit], before: Sequence[Truth], after: Sequence[Truth]) -> list[Edit]:
    """The edits, holds as long as they became."""
    return [
        dataclasses.replace(
            edit, number=sum(t.own[edit.name] for t in after) / sum(t.own[edit.name] for t in before)
        )
        if edit.kind == "hold"
        else edit
        for edit in edits
    ]


def merged(changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    holds: dict[str, float] = {}
    for change in changes:
        holds.update(change.get("hold", {}))
    whole = {key: value for change in changes for key, value in change.items()}
    return {**whole, **({"hold": holds} if holds else {})}


def doubt(before: Sequence[float], after: Sequence[float]) -> float:
    """Half of the 95 % interval of the difference of both means, storm by storm, as a part of the second: the same seeds
    before and after have the same durations."""
    apart = [
        a / statistics.mean(after) - b / statistics.mean(before) for b, a in zip(before, after, strict=True)
    ]
    return t_quantile(0.975, len(apart) - 1) * statistics.stdev(apart) / len(apart) ** 0.5


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    fifo = realtime()
    directory = tmp_path_factory.mktemp("draws")
    found = [case for draw in range(1, DRAWS + 1) for case in cases_of(draw, directory, fifo)]
    if DRAWS >= 30:
        write(found, again(found, directory, fifo), fifo)
    return found


def again(cases: Sequence[Case], directory: Path, fifo: bool) -> list[Case]:
    """Every edit of the storms that had a wrong answer, from storms of which none was looked at before."""
    draws = sorted({case.draw for case in cases if case.wrong or case.wrong_sign})
    return [case for draw in draws for case in cases_of(draw, directory, fifo, MORE)]


def test_few_answers_are_wrong_and_trusted(cases: list[Case]) -> None:
    trusted = [case for case in cases if case.trusted]
    assert len(trusted) >= 0.6 * len(cases), "an answer that is never given is never wrong"
    wrong = [case for case in trusted if case.wrong or case.wrong_sign]
    decided = [case for case in trusted if case in wrong or case.doubt <= WIDE]
    assert len(wrong) <= 0.03 * len(decided), wrong


def test_the_usual_error_is_small(cases: list[Case]) -> None:
    errors = [case.error for case in cases if case.trusted]
    assert statistics.median(map(abs, errors)) < 0.02
    assert abs(statistics.mean(errors)) < 0.02, "neither too fast nor too slow"


def write(cases: Sequence[Case], second: Sequence[Case], fifo: bool) -> None:
    """docs/results/what-if-draws.md and .json."""
    rows = [
        {**dataclasses.asdict(case), "error": case.error, "reason": _without_paths(case.reason or "")}
        for case in cases
    ]
    more = [{**dataclasses.asdict(case), "error": case.error, "reason": case.reason or ""} for case in second]
    document = {
        "fifo": fifo, "draws": DRAWS, "traces": TRACES, "jobs": JOBS, "rows": rows, "second_look": more,
    }  # fmt: skip
    save("what-if-draws", document)


def _without_paths(text: str) -> str:
    return " ".join(word for word in text.split(" ") if not word.startswith("/"))


def test_a_change_is_put_together() -> None:
    assert Parameters(**merged([{"hold": {"a": 0.5}}, {"hold": {"b": 0.5}, "workers": 8}])).hold == {
        "a": 0.5,
        "b": 0.5,
    }
