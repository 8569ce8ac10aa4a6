"""The client that is Go's standard library: a page of Go, built where a Go is, and kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from contend.errors import CannotHonour
from contend.workloads.downloads import built

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

    def make(program: Path) -> None:
        # Of the standard library alone, and by this Go: no modules, no other toolchain, no C compiler.
        environ = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
        environ.setdefault("GOCACHE", str(cache / "go-build"))
        words = [go, "build", "-trimpath", "-o", str(program), str(source)]
        built.run("go build", words, cache, environ, _TIMEOUT_S, f"{go} version: 1.16 or later?")

    return built.kept(cache, NAME, source.read_bytes() + version.encode(), make)
