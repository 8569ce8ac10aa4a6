"""Clients that are built where their language's tools are, once, and kept between runs by what they were made of."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from contend.errors import CannotHonour, TrialFailed
from contend.platforms import processes


def kept(cache: Path, name: str, made_of: bytes, make: Callable[[Path], None]) -> Path:
    """The program in `cache`: `make` writes it to the path it is given, unless it is there made of the same.

    One builds at a time; another waits, and finds the program. A builder that is killed leaves nothing under the program's
    name, and what else it leaves (`.NAME-…`) goes with the next build. Raises what `make` does.
    """
    program = cache / f"{name}-{hashlib.sha256(made_of).hexdigest()[:16]}"
    if program.exists():
        return program
    cache.mkdir(parents=True, exist_ok=True)
    lock = os.open(cache, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        for left in cache.glob(f".{name}-*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        making = program.with_name(f".{program.name}.{os.getpid()}")
        make(making)
        making.replace(program)
    finally:
        os.close(lock)
    return program


def run(
    what: str, words: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout_s: float, hint: str
) -> None:
    """A build. what: its name in messages; hint: what to do where it fails. Raises CannotHonour."""
    try:
        ended, said = processes.run(words, timeout_s, cwd, environ)
    except TrialFailed as error:
        raise CannotHonour(f"{what} cannot be started: {error.message}", hint=hint) from error
    if ended.timed_out:
        raise CannotHonour(f"{what} does not end within {timeout_s:g} s", hint=hint)
    if ended.code:
        last = (said.strip().splitlines() or ["(no output)"])[-1]
        raise CannotHonour(f"{what} failed and said: {last}", hint=hint)
