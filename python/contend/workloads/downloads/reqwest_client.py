"""The client that is Rust's reqwest with rustls: a small program, built where a cargo is, and kept between runs.

Not with contend: that would make setting up slower for all, and this is needed by two studies only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from contend.errors import CannotHonour
from contend.workloads.downloads import built

NAME = "download-reqwest"  # of the program
_FILES = ("Cargo.toml", "Cargo.lock", "src/main.rs")
_TIMEOUT_S = 1800  # of one CPU that compiles AWS-LC
# What would make another program of the same source, or put it elsewhere.
_UNSET = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR")


def find_cargo() -> str | None:
    """The cargo command on PATH, or where rustup puts it, which not every PATH has; None without.

    >>> find_cargo() is None or find_cargo().endswith("cargo")
    True
    """
    usual = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "bin"
    return shutil.which("cargo") or shutil.which("cargo", path=str(usual))


def build(cache: Path) -> Path:
    """The program, built into `cache` unless it is there of the same source and the same cargo.

    cargo downloads what its lock file names, unless it has it. Raises CannotHonour without cargo, and where it does not
    build.
    """
    cargo = find_cargo()
    if cargo is None:
        raise CannotHonour(
            "there is no cargo command", hint="https://rustup.rs, or leave client 'reqwest' out"
        )
    from contend.workloads.load import catalogue

    source = catalogue() / "image-download-reqwest"
    version = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False).stdout

    def make(program: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name not in _UNSET}
        # Away from contend's own source: the catalogue may be read-only, and lie below another package of cargo's.
        with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=cache) as place:
            for file in _FILES:
                copy = Path(place, file)
                copy.parent.mkdir(exist_ok=True)
                shutil.copy(source / file, copy)
            words = [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", f"{place}/target"]
            hint = "it needs crates.io, a C compiler and Rust 1.85 or later; or leave client 'reqwest' out"
            built.run("cargo build", words, Path(place), environ, _TIMEOUT_S, hint)
            shutil.copy(Path(place, "target", "release", NAME), program)

    made_of = b"".join((source / file).read_bytes() for file in _FILES) + version.encode()
    return built.kept(cache, NAME, made_of, make)
