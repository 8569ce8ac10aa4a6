"""Strays: things that carry contend's name and that no ledger at hand names; whose they are, and which are nobody's.

A run says in its ledger that it will make a thing, then makes it. So first everything that is there is listed, and only
then is asked who is alive and who claims what: the other way round, what a run made in between would look like nobody's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from contend import names
from contend.errors import BadInput, ContendError
from contend.files import open_inside
from contend.platforms import bundles, cgroups, engines, kin, network, procfs
from contend.platforms.confinement import OfRun
from contend.platforms.guests import image
from contend.platforms.removers import Removed
from contend.platforms.resources import HOST
from contend.store import claims, state
from contend.store.claims import Claim
from contend.store.ledger import is_locked, parse
from contend.text.shape import FLAT, Shape, Through

_MOST_BYTES = 1 << 20  # of a ledger that is looked at for the run's name only
StrayKind = Literal["cgroup", "netns", "container", "process", "bundle", "guest-image"]
_PROOF = re.compile(rf"{names.PREFIX}-probe-([0-9]+)")  # the containers of `engines.detect`, by its process


@dataclass(frozen=True, slots=True)
class Stray:
    """Something with contend's name that belongs to no known and no live run."""

    kind: StrayKind
    name: str
    run_id: str  # "" where only a hash of it is known
    detail: Mapping[str, str]
    whose: str = ""


@dataclass(frozen=True, slots=True)
class ClaimDocument(Shape):
    """The owner of a run, as JSON."""

    run: str
    directory: str
    state: str


@dataclass(frozen=True, slots=True)
class ThingDocument(Shape):
    """One thing of a run, as JSON."""

    kind: StrayKind
    name: str


def _claim(of: Claim) -> ClaimDocument:
    return ClaimDocument(of.run_id, str(of.directory), str(of.state))


def _things(of: Iterable[tuple[StrayKind, str]]) -> list[ThingDocument]:
    return [ThingDocument(*thing) for thing in of]


@dataclass(frozen=True, slots=True)
class Anothers(Shape):
    """Leftovers of a run that is not alive and that another state directory still knows."""

    claim: Annotated[Claim, Through(_claim), FLAT]
    things: Annotated[tuple[tuple[StrayKind, str], ...], Through(_things)]


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who is to be spared, and what is known of those who are not. Runs by id."""

    spared: frozenset[str] = frozenset()
    others: Mapping[str, Claim] = field(default_factory=dict)
    gone: Mapping[str, Claim] = field(default_factory=dict)

    def run_of(self, stray: Stray) -> str:
        """The run a thing belongs to; "" when it is none that is known."""
        known = {*self.spared, *self.others, *self.gone}
        if stray.kind == "netns":
            return {names.short_hash(run): run for run in known}.get(stray.name.split("-")[1], stray.run_id)
        if not stray.run_id:  # a bundle whose owner is not written down yet, or a container of such a one
            name = Path(stray.name).name
            runs = [run for run in known if re.match(rf"{names.PREFIX}-{re.escape(run)}[.-]", name)]
            return max(runs, key=len, default="")
        return stray.run_id

    def whose(self, run: str) -> str:
        if not run:
            return "of no run that is known"
        if run not in self.gone:
            return f"of run {run}, which no state directory knows"
        claim = self.gone[run]
        return f"of {claim.directory}, {'which no state directory knows' if claim.has_ledger() else 'which is gone'}"


@dataclass(frozen=True, slots=True)
class LeftAlone(Shape):
    """Something that was listed and left, and why."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Survey:
    """`strays` are to be removed, `others` are another state directory's, `left` only say that they are a run's; `problems`
    (message, hint) are what could not be listed."""

    strays: tuple[Stray, ...] = ()
    others: tuple[Anothers, ...] = ()
    left: tuple[LeftAlone, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


def survey(run_id: str | None = None) -> Survey:
    """Survey what earlier runs left whose ledger is gone: of `run_id`, or of every run without a ledger and another owner.

    Left out are runs that still have a pointer and a ledger (`remove_leftovers` is for them), those that another state
    directory knows, and every run that a live contend holds open.
    """
    problems: list[tuple[str, str]] = []
    seen = list(_seen(run_id, problems))
    owners = _owners() if run_id is None else _Owners(frozenset(live_runs()))
    strays: list[Stray] = []
    left: list[LeftAlone] = []
    others: dict[str, list[tuple[StrayKind, str]]] = {}
    recorded: dict[str, set[int]] = {}
    for stray in seen:
        run = owners.run_of(stray)
        if run in owners.spared:
            continue
        if run in owners.others:
            others.setdefault(run, []).append((stray.kind, stray.name))
        elif run_id is None or run == run_id:
            if stray.kind == "process" and int(stray.name) not in _recorded(run, recorded):
                why = f"it carries the mark of run {run}, as anybody's can; if it is yours: kill {stray.name}"
                left.append(LeftAlone(stray.kind, stray.name, why))
            else:
                strays.append(replace(stray, whose=owners.whose(run)))
    elsewhere = tuple(Anothers(owners.others[run], tuple(things)) for run, things in others.items())
    return Survey(tuple(strays), elsewhere, tuple(left), tuple(problems))


def _recorded(run: str, known: dict[str, set[int]]) -> set[int]:
    """Processes that are certainly a dead run's (`kin`)."""
    if run not in known:
        known[run] = kin.Recorded(run).find() if names.is_name(run) else set()
    return known[run]


def remove_stray(stray: Stray) -> Removed:
    """Remove one stray, if it is of its kind and carries its run's name."""
    row: dict[str, str] = {"run": stray.run_id, **stray.detail}
    return replace(HOST.one(stray.kind, stray.name, row, OfRun(stray.run_id)), whose=stray.whose)


def live_runs() -> set[str]:
    """Ids of runs whose ledger a process holds locked, wherever it lies (root sees everybody's)."""
    runs: set[str] = set()
    for path, here in _open_ledgers():
        if here is None:  # nobody can tell whether it is locked
            runs.add(path.parent.name)
        elif is_locked(here):
            # A run is called like its directory; before its first row nothing else says so.
            runs.add(path.parent.name)
            with suppress(OSError, BadInput), open_inside(here) as file:
                rows, _ = parse(file.read(_MOST_BYTES))
                runs |= {str(row["run"]) for row in rows if row.get("run")}
    return runs


def _open_ledgers() -> set[tuple[Path, Path | None]]:
    """Ledgers that processes have open: the path of each as it is for the process, and one that leads there from here."""
    ledgers: set[tuple[Path, Path | None]] = set()
    for pid in procfs.all_pids():
        try:
            descriptors = list((procfs.PROC / str(pid) / "fd").iterdir())
        except OSError:  # gone, or another user's: then nothing of that user's can be removed either
            continue
        for descriptor in descriptors:
            with suppress(OSError):  # closed meanwhile
                path = descriptor.readlink()
                if path.name == "ledger.ndjson":
                    ledgers.add((path, _from_here(path, pid, descriptor.stat())))
    return ledgers


def _from_here(path: Path, pid: int, file: os.stat_result) -> Path | None:
    """A path by which this process reaches a file that another has open; None where there is none.

    In another mount namespace, as a container's, the same path is of another file, or of none: mount_namespaces(7).
    """
    for here in (path, procfs.PROC / str(pid) / "root" / path.relative_to("/")):
        with suppress(OSError):
            if os.path.samestat(here.stat(), file):
                return here
    return None


def _owners() -> _Owners:
    pointers, damaged = state.survey()
    # A damaged pointer may be of a run that has a ledger.
    with_ledger = {one.run_id for one in pointers if one.ledger.exists()} | {one.path.name for one in damaged}
    own = state.folder().resolve()
    others: dict[str, Claim] = {}
    gone: dict[str, Claim] = {}
    for claim in claims.every():
        anothers = claim.pointer.parent != own and claim.stands()
        (others if anothers else gone)[claim.run_id] = claim
    return _Owners(frozenset(live_runs() | with_ledger), others, gone)


def _seen(run_id: str | None, problems: list[tuple[str, str]]) -> Iterator[Stray]:
    """Everything on this host that carries contend's name, of whatever run; of network namespaces those of `run_id`. What
    cannot be listed is among the problems, and the rest is."""
    for what, listed in (
        ("containers", _containers),
        ("bundles", lambda: [Stray("bundle", str(path), run, {}) for path, run in bundles.left()]),
        (
            "images of guests",
            lambda: [Stray("guest-image", str(path), run, {}) for path, run in image.left()],
        ),
        ("control groups", _groups),
        ("namespaces", lambda: [Stray("netns", n, run_id or "", {}) for n in network.namespaces(run_id)]),
        ("processes", lambda: _processes(run_id)),
    ):
        try:
            yield from listed()
        except (ContendError, OSError, ValueError, KeyError, TypeError) as error:
            hint = error.hint if isinstance(error, ContendError) else "contend doctor"
            problems.append((f"contend's {what} cannot be listed: {error}", hint))


def _containers() -> list[Stray]:
    return [
        Stray("container", name, run, {"engine": engine})
        for name, engine, run in engines.containers()
        if not _is_being_proven(name)
    ]


def _groups() -> list[Stray]:
    strays = []
    for path in cgroups.find(cgroups.read_layout()):
        run = re.sub(r"\.(limits|containers)$", "", path.name.removeprefix(f"{names.PREFIX}."))
        strays.append(Stray("cgroup", str(path), run, {}))
    return strays


def _processes(run_id: str | None) -> list[Stray]:
    strays = []
    for pid in sorted(procfs.marked(run_id)):
        mark = procfs.marks(pid)
        if mark is not None:
            strays.append(Stray("process", str(pid), mark[0], {"party": mark[1]}))
    return strays


def _is_being_proven(name: str) -> bool:
    """A container by which some live contend finds out whether an engine works."""
    proof = _PROOF.fullmatch(name)
    return proof is not None and procfs.stat(int(proof[1])) is not None
