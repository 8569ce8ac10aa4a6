"""Needs of a workload on this machine, and those that are missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path

from contend.platforms import programs
from contend.platforms.packages import install_command
from contend.platforms.programs import find_command
from contend.workloads.spec import Scalar, Workload


def missing(workload: Workload) -> tuple[str, ...]:
    """The workload's commands, files and Python modules that are not installed."""
    return (*_packaged(workload), *_own_programs(workload), *_modules(workload))


def needed(workload: Workload, parameters: Mapping[str, Scalar]) -> tuple[str, ...]:
    """List what these parameters need besides and this machine lacks."""
    wanted = (workload.parameters[name].needs.get(str(value)) for name, value in parameters.items())
    return tuple(need for need in wanted if need is not None and not is_here(need))


def is_here(need: str) -> bool:
    """True if there is a program of that name, or `module NAME` in this Python.

    >>> is_here("module json"), is_here("module no_such_thing")
    (True, False)
    """
    kind, _, name = need.rpartition(" ")
    if kind == "module":
        return importlib.util.find_spec(name) is not None
    if name in programs.NAMES:  # of contend itself, which need not be on PATH
        return programs.is_installed(name)
    if name == "go":  # which its own instructions put where no PATH looks
        from contend.workloads.downloads.built import find_go

        return find_go() is not None
    if name == "cargo":  # likewise, of rustup
        from contend.workloads.downloads.built import find_cargo

        return find_cargo() is not None
    return find_command(name) is not None


def _packaged(workload: Workload) -> tuple[str, ...]:
    """Commands and files that a package would bring."""
    return (*_commands(workload), *(path for path in workload.install.file if not _exists(path)))


def _exists(path: str) -> bool:
    whole = Path(path)
    return any(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))


def _commands(workload: Workload) -> tuple[str, ...]:
    return tuple(
        name for name in workload.install.command if name not in programs.NAMES and find_command(name) is None
    )


def _own_programs(workload: Workload) -> tuple[str, ...]:
    """Programs of contend's own, which no package brings."""
    return tuple(name for name in workload.install.command if name in programs.NAMES and not is_here(name))


def _modules(workload: Workload) -> tuple[str, ...]:
    return tuple(name for name in workload.install.module if importlib.util.find_spec(name) is None)


def packages(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Debian packages of those `workloads` that lack a command or a file here, sorted."""
    return tuple(sorted({package for w in workloads if _packaged(w) for package in w.install.apt}))


def of_guests(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Debian packages of all these workloads: a guest has nothing else of theirs."""
    return tuple(sorted({package for workload in workloads for package in workload.install.apt}))


def hint(workloads: Iterable[Workload]) -> str:
    """The hint about what is missing; empty when nothing is.

    >>> hint([])
    ''
    """
    lacking = [w for w in workloads if missing(w)]
    apt = packages(lacking)
    notes = [w.install.note for w in lacking if w.install.note]
    if not lacking:
        return ""
    unpackaged = [name for w in lacking if not w.install.apt for name in _commands(w)]
    own = sorted({name for w in lacking for name in _own_programs(w)})
    advice = [programs.how_to_install(own)] if own else []
    advice += [install_command(*apt)] if apt else []
    advice += [f"put {', '.join(unpackaged)} on PATH"] if unpackaged else []
    return "; ".join([*advice, *notes])
