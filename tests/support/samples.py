"""A sample of what takes long, so that all kinds of tests fit into a few minutes: `--sampled`, as `make test` has it.

What is cheap runs always. Of the other tests of a file run so many as fit into BUDGET_S, of each function one case before
any second. What is too large for that is drawn from all files together, into LARGE_BUDGET_S, of each file one before any
second. The draws are the commit's: a change draws others, and the same commit the same ones again.
Costs are those of tests/costs.json (`pytest --took` writes it), not of the present run. Without `--sampled` everything
runs, as in `make accept`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.costs import Took, function_of, known

BUDGET_S = 5.0
"""For what is not cheap in one file: CPU time, or its share of the time on the clock where it waits."""
LARGE_BUDGET_S = 340.0
"""For those of all files that cost more than that, each."""
CHEAP_S = 0.25
CPUS, PROCESSES = 2, 3
"""Of the machine that the costs are of, and of the tests on it. A test that is alone keeps all CPUs from the others."""
LEFT = pytest.StashKey[tuple[int, int]]()
"""How many are not cheap, and how many of them run."""
SEED = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sampled", action="store_true", help="of the tests that take long run a sample")
    parser.addoption(
        "--sample-seed", metavar="TEXT", help="what the sample is drawn by; the commit unless told"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("sampled"):
        from results.record import commit  # not in a root of another Python, where nothing is drawn

        config.stash[SEED] = config.getoption("sample_seed") or commit()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("sampled"):
        return
    took = known()
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if _cost_s(item, took) >= CHEAP_S:
            files[item.nodeid.partition("::")[0]].append(item)
    chosen: set[pytest.Item] = set()
    large: list[pytest.Item] = []

    def cost_s(item: pytest.Item) -> float:
        return _cost_s(item, took)

    for name, of in files.items():
        chance = random.Random(f"{config.stash[SEED]} {name}")
        small = [item for item in of if cost_s(item) <= BUDGET_S]
        large += [item for item in of if cost_s(item) > BUDGET_S]
        chosen.update(draw(small, lambda item: function_of(item.nodeid), cost_s, chance, BUDGET_S))
    chance = random.Random(config.stash[SEED])
    chosen.update(draw(large, lambda item: item.nodeid.partition("::")[0], cost_s, chance, LARGE_BUDGET_S))
    left = {item for of in files.values() for item in of}.difference(chosen)
    config.stash[LEFT] = (len(left) + len(chosen), len(chosen))
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def _cost_s(item: pytest.Item, took: dict[str, Took]) -> float:
    cost = took.get(function_of(item.nodeid), Took())
    most = CPUS * cost.wall_s
    if item.get_closest_marker("alone") is not None:
        return most
    # What ended in it may have been begun by others: the account has CPU time where it was waited for.
    return min(max(cost.cpu_s, cost.wall_s / PROCESSES), most)


def draw(
    cases: Sequence[Any],
    group: Callable[[Any], str],
    cost_s: Callable[[Any], float],
    chance: random.Random,
    budget_s: float,
) -> list[Any]:
    """Which cases run: of those that fit, each group's first before any second.

    >>> cases = ["a1", "a2", "a3", "b1", "b2"]
    >>> drawn = draw(cases, lambda case: case[0], lambda case: 5.0, random.Random(1), budget_s=12.0)
    >>> sorted(case[0] for case in drawn)
    ['a', 'b']
    """
    shuffled = chance.sample(cases, len(cases))
    before: Counter[str] = Counter()
    turns = []
    for case in shuffled:
        turns.append(before[group(case)])
        before[group(case)] += 1
    chosen: list[Any] = []
    spent_s = 0.0
    for _, case in sorted(zip(turns, shuffled, strict=True), key=lambda pair: pair[0]):
        if spent_s + cost_s(case) <= budget_s:
            chosen.append(case)
            spent_s += cost_s(case)
    return chosen


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["sampled"] = session.config.stash.get(LEFT, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the process that hands out the tests: each that runs them draws the same."""
    if told := getattr(node, "workeroutput", {}).get("sampled"):
        node.config.stash[LEFT] = tuple(told)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    if (told := config.stash.get(LEFT, None)) is not None:
        every, ran = told
        again = f"--sampled --sample-seed '{config.stash[SEED]}'"
        terminalreporter.write_line(
            f"of {every} tests that take long {ran} were drawn; the same again: {again}"
        )
