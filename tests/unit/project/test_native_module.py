"""What contend's native module brings into the services that are traced: its dependencies, its size, what it links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from contend import _native
from contend.workloads.downloads.built import find_cargo
from support.prerequisites import need

ROOT = Path(__file__).parents[3]
# Of TLS, of ciphers, of JSON and of AMQP: each is a program's own (docs/adr/0024, docs/adr/0035).
NOT_IN_SERVICES = {"rustls", "rustls-native-certs", "ring", "aws-lc-rs", "aws-lc-sys", "serde_json", "serde"}
NOT_IN_SERVICES |= {"contend-amqp", "contend-rpc", "contend-fetch"}


def crates(package: str) -> set[str]:
    """What it is built of and with, on this host, whatever features are asked for."""
    cargo = find_cargo()
    need(cargo, "cargo (https://rustup.rs)")
    assert cargo is not None
    words = ["--package", package, "--edges", "normal,build", "--all-features", "--prefix", "none"]
    done = subprocess.run(
        [cargo, "tree", "--locked", "--offline", *words, "--format", "{p}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.split()[0] for line in done.stdout.splitlines() if line}


def test_neither_tls_nor_json_nor_amqp_is_in_other_peoples_services() -> None:
    found = crates("contend-python")
    assert found >= {"contend-python", "contend-core", "pyo3", "libc"}
    assert found & NOT_IN_SERVICES == set()


def test_the_program_has_them_instead() -> None:
    """So a name that is misspelt above is noticed."""
    assert NOT_IN_SERVICES - crates("contend-rpc") - crates("contend-fetch") == {"ring"}


def readelf(what: str) -> str:
    need(shutil.which("readelf"), "readelf: apt-get install binutils")
    words = ["readelf", "--wide", what, str(_native.__file__)]
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout


def test_it_carries_names_for_profilers_and_nothing_more_for_debuggers() -> None:
    sections = set(re.findall(r"\] (\.\S+) ", readelf("--sections")))
    assert {".text", ".dynsym", ".symtab"} <= sections
    assert not {name for name in sections if name.startswith((".debug", ".zdebug"))}


def test_it_links_what_every_process_has() -> None:
    needed = re.findall(r"\(NEEDED\).*\[(\S+)\]", readelf("--dynamic"))
    assert "libc.so.6" in needed
    assert {name.split(".so")[0] for name in needed} <= {
        "libc",
        "libgcc_s",
        "libm",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }
