"""The client that is Go's standard library: a page of Go, built where a Go is, and kept between runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from contend.errors import CannotHonour

NAME = "download-go"  # of the program
_USUAL = "/usr/local/go/bin"  # where Go's own instructions put it, which is on no PATH by itself
_TIMEOUT_S = 600


def find_go() -> str | None:
    """The go command on PATH, or where it is usually installed; None without.

    >>> find_go() is None or find_go().endswith("go")
    True
    """
    return shutil.which("go") or shutil.which("go", path=_USUAL)


def build(cache: Path) -> Path:
    """The program, built into `cache` unless it is there of the same source and the same Go. Nothing is downloaded.

    Raises CannotHonour without Go, and where it does not build.
    """
    go = find_go()
    if go is None:
        raise CannotHonour("there is no go command", hint="install Go, or leave client 'go' out")
    from contend.workloads.load import catalogue

    source = catalogue() / "image-download.go"
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    made_of = hashlib.sha256(source.read_bytes() + version.encode()).hexdigest()[:16]
    program = cache / f"{NAME}-{made_of}"
    if program.exists():
        return program
    cache.mkdir(parents=True, exist_ok=True)
    making = program.with_name(f".{program.name}.{os.getpid()}")
    # Of the standard library alone, and by this Go: no modules, no other toolchain, no C compiler.
    environ = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    environ.setdefault("GOCACHE", str(cache / "go-build"))
    words = [go, "build", "-trimpath", "-o", str(making), str(source)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=cache, env=environ, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotHonour("go build does not end", hint="go version") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise CannotHonour(f"go build failed and said: {last}", hint=f"{go} version: 1.16 or later?")
    making.replace(program)
    return program
