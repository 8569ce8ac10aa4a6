"""Clients that are compiled on this host, once, and kept between runs by a digest of their source.

They are Go's standard library, and Rust's reqwest with rustls. Not with contend: that would make setting up slower for all,
and these are needed by two studies only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from contend.errors import CannotHonour, TrialFailed
from contend.platforms import processes
from contend.workloads.load import catalogue

GO = "download-go"  # of the program
_USUAL = "/usr/local/go/bin"  # where Go's own instructions put it, which is on no PATH by itself
_GO_TIMEOUT_S = 600
REQWEST = "download-reqwest"  # of the program
_FILES = ("Cargo.toml", "Cargo.lock", "src/main.rs")
_REQWEST_TIMEOUT_S = 1800  # of one CPU that compiles AWS-LC
# What would make another program of the same source, or put it elsewhere.
_UNSET = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR")


def kept(cache: Path, name: str, made_of: bytes, make: Callable[[Path], None]) -> Path:
    """Path of a program in `cache`. `make` writes it to the path it gets, unless one made of the same is there.

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
    """Run a build. what: its name in messages; hint: what to do where it fails. Raises CannotHonour."""
    try:
        ended, output = processes.run(words, timeout_s, cwd, environ)
    except TrialFailed as error:
        raise CannotHonour(f"{what} cannot be started: {error.message}", hint=hint) from error
    if ended.timed_out:
        raise CannotHonour(f"{what} does not end within {timeout_s:g} s", hint=hint)
    if ended.code:
        last = (output.strip().splitlines() or ["(no output)"])[-1]
        raise CannotHonour(f"{what} failed and said: {last}", hint=hint)


def find_go() -> str | None:
    """The go command on PATH, or where it is usually installed; None without.

    >>> find_go() is None or find_go().endswith("go")
    True
    """
    return shutil.which("go") or shutil.which("go", path=_USUAL)


def build_go(cache: Path) -> Path:
    """The program, built into `cache` unless it is there of the same source and the same Go. Nothing is downloaded.

    Raises CannotHonour without Go, and where it does not build.
    """
    go = find_go()
    if go is None:
        raise CannotHonour("there is no go command", hint="install Go, or leave client 'go' out")
    source = catalogue() / "image-download.go"
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout

    def make(program: Path) -> None:
        # Of the standard library alone, and by this Go: no modules, no other toolchain, no C compiler.
        environ = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
        environ.setdefault("GOCACHE", str(cache / "go-build"))
        words = [go, "build", "-trimpath", "-o", str(program), str(source)]
        run("go build", words, cache, environ, _GO_TIMEOUT_S, f"{go} version: 1.16 or later?")

    return kept(cache, GO, source.read_bytes() + version.encode(), make)


def find_cargo() -> str | None:
    """The cargo command on PATH, or where rustup puts it, which not every PATH has; None without.

    >>> find_cargo() is None or find_cargo().endswith("cargo")
    True
    """
    usual = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "bin"
    return shutil.which("cargo") or shutil.which("cargo", path=str(usual))


def build_reqwest(cache: Path) -> Path:
    """The program, built into `cache` unless it is there of the same source and the same cargo.

    cargo downloads what its lock file names, unless it has it. Raises CannotHonour without cargo, and where it does not
    build.
    """
    cargo = find_cargo()
    if cargo is None:
        raise CannotHonour(
            "there is no cargo command", hint="https://rustup.rs, or leave client 'reqwest' out"
        )

    source = catalogue() / "image-download-reqwest"
    version = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False).stdout

    def make(program: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name not in _UNSET}
        # Away from contend's own source: the catalogue may be read-only, and lie below another package of cargo's.
        with tempfile.TemporaryDirectory(prefix=f".{REQWEST}-", dir=cache) as scratch:
            for file in _FILES:
                copy = Path(scratch, file)
                copy.parent.mkdir(exist_ok=True)
                shutil.copy(source / file, copy)
            words = [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", f"{scratch}/target"]
            hint = "it needs crates.io, a C compiler and Rust 1.85 or later; or leave client 'reqwest' out"
            run("cargo build", words, Path(scratch), environ, _REQWEST_TIMEOUT_S, hint)
            shutil.copy(Path(scratch, "target", "release", REQWEST), program)

    made_of = b"".join((source / file).read_bytes() for file in _FILES) + version.encode()
    return kept(cache, REQWEST, made_of, make)
