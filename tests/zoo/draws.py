"""Draws programs: the same seed of a population always gives the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random

from zoo import arrivals, parts
from zoo.manifest import Manifest
from zoo.mechanisms import FLAVOURS, Mechanism, mechanisms
from zoo.parts import Part, indented

POPULATIONS = ("development", "acceptance")
"""Disjoint by their salt: what is mended by the one is judged by the other."""
_WEIGHTS = {"threads": 6, "eventlet": 2, "gevent": 2, "asyncio": 3, "processes": 1}
_PATCHES = {
    "eventlet": "import eventlet\n\neventlet.monkey_patch()\n",
    "gevent": "from gevent import monkey\n\nmonkey.patch_all()\n",
}
_MODULES = ("asyncio", "contextlib", "gevent", "multiprocessing", "queue", "threading", "time")
_STORM_MS = (180.0, 380.0)


def generator(seed: int, population: str) -> Random:
    """The source of a program's randomness. Raises ValueError for a population that there is not."""
    if population not in POPULATIONS:
        raise ValueError(f"{population}: no population; there are {', '.join(POPULATIONS)}")
    digest = hashlib.sha256(f"zoo {population} {seed}".encode()).digest()
    return Random(int.from_bytes(digest, "big"))


def draw(
    seed: int, population: str, *, only: Collection[str] = (), without: Collection[str] = ()
) -> Manifest:
    """Draw a program.

    only: its mechanisms are all of these and no others. without: it has none of these. Raises ValueError where no program
    can have all of `only`.
    """
    rng = generator(seed, population)
    known = {name: one for name, one in mechanisms().items() if name not in without}
    names, flavour = _given(rng, known, only) if only else _chosen(rng, known)
    drawn = {name: known[name].draw(rng, flavour) for name in names}
    return _manifest(rng, seed, population, flavour, drawn)


def _given(rng: Random, known: dict[str, Mechanism], only: Collection[str]) -> tuple[list[str], str]:
    names = sorted(only)
    flavours = [name for name in FLAVOURS if all(name in known[one].flavours for one in names)]
    apart = any(other in known[name].not_with for name in names for other in names)
    if not flavours or apart or sum(known[name].front for name in names) > 1:
        raise ValueError(f"no program can have all of {', '.join(names)}")
    return names, rng.choices(flavours, [_WEIGHTS[name] for name in flavours])[0]


def _chosen(rng: Random, known: dict[str, Mechanism]) -> tuple[list[str], str]:
    """One to three mechanisms; the first is drawn from all, so that each is as often in a program as any other."""
    first = rng.choice(sorted(known))
    weights = [_WEIGHTS[name] for name in known[first].flavours]
    flavour = rng.choices(known[first].flavours, weights)[0]
    names = [first]
    others = [name for name in sorted(known) if name != first and flavour in known[name].flavours]
    if first == "nothing_planted":
        return names, flavour
    rng.shuffle(others)
    for name in others[: rng.choices([0, 1, 2], [3, 4, 3])[0]]:
        if name != "nothing_planted" and not any(_apart(known, name, one) for one in names):
            names.append(name)
    return names, flavour


def _apart(known: dict[str, Mechanism], one: str, other: str) -> bool:
    """True if no program can have both."""
    two = known[one], known[other]
    return all(each.front for each in two) or one in two[1].not_with or other in two[0].not_with


def _manifest(rng: Random, seed: int, population: str, flavour: str, drawn: dict[str, Part]) -> Manifest:
    changes = [change for part in drawn.values() for change in part.changes]
    steps = [part.step for part in drawn.values() if part.step]
    usual = parts.work(rng, flavour, *((2, 6) if steps else (5, 20)), *parts.sized(rng))
    steps.insert(rng.randint(0, len(steps)), usual.line)
    alone = usual.ms + sum(part.alone_ms for part in drawn.values())
    if len(steps) == 1 or rng.random() < 0.4:
        prepare = parts.work(rng, flavour, 1, 8, *parts.sized(rng))
        alone += prepare.ms
        steps.insert(0, f'if run.keeps("prepare"):\n    with trace.span("prepare"):\n        {prepare.line}')
        changes.append(replace(parts.remove("prepare"), general=True))
    serial = max((part.serial_ms for part in drawn.values()), default=0.0)
    fronts = [part for part in drawn.values() if part.frame]
    if fronts:
        frame, at_once = fronts[0].frame, fronts[0].at_once
    else:
        frame, at_once, added = arrivals.usual(rng, flavour, alone, serial)
        changes += [replace(change, general=True) for change in added]
    assert frame is not None
    job = next((part.job for part in drawn.values() if part.job), "")
    per_job = max(serial, alone / at_once if at_once else 4.0)
    jobs = min(60, max(10, int((rng.uniform(*_STORM_MS) - alone) / per_job)))
    named = not job and rng.random() < 0.2
    head = (
        'with trace.span("handle order"), run.timed():' if named else 'with trace.job("order"), run.timed():'
    )
    sizes = next((part.sizes for part in drawn.values() if part.sizes), ())
    if flavour != "processes" and not job and "closed_loop" not in drawn:
        changes.append(parts.jobs(jobs * 2 if jobs <= 30 else jobs // 2))
    libraries = {library for part in drawn.values() for library in part.libraries}
    given = f"jobs={jobs}" + (f", sizes={tuple(sizes)}" if sizes else "")
    return Manifest(
        seed=seed,
        population=population,
        mechanisms=tuple(drawn),
        flavour=flavour,
        jobs=jobs,
        job="handle order" if named else job,
        changes=tuple(changes),
        culprits=tuple(culprit for part in drawn.values() for culprit in part.culprits),
        libraries=tuple(sorted(libraries | ({flavour} & _PATCHES.keys()))),
        source=_source(drawn, flavour, frame(head, "\n".join(steps)), given),
    )


def _source(drawn: Mapping[str, Part], flavour: str, framed: str, given: str) -> str:
    """The text of a program. framed: its jobs and what drives them. given: arguments of the harness."""
    used = drawn.values()
    body = "\n\n".join(
        [part.setup for part in used if part.setup] + [framed] + [part.close for part in used if part.close]
    )
    top = "".join(f"\n\n{part.top}\n" for part in used if part.top)
    imports = {line for part in used for line in part.imports}
    imports |= {f"import {name}" for name in _MODULES if f"{name}." in top + body}
    helpers = "burn, main" if "burn" in top + body else "main"
    return "\n".join(
        (
            f'"""A small service: {", ".join(drawn).replace("_", " ")}."""\n',
            *([_PATCHES[flavour]] if flavour in _PATCHES else []),
            *sorted(imports),
            *(["", "from contend import trace"] if "trace." in top + body else [""]),
            f"from harness import {helpers}\n{top}\n",
            f"{'async def' if flavour == 'asyncio' else 'def'} storm(run):",
            indented(body),
            f'\n\nif __name__ == "__main__":\n    main(storm, {given})\n',
        )
    )
