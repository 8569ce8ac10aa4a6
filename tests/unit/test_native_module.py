"""What contend's native module brings into the services that are traced."""

from __future__ import annotations

import re
import subprocess

from contend import _native


def readelf(what: str) -> str:
    done = subprocess.run(
        ["readelf", "--wide", what, str(_native.__file__)], capture_output=True, text=True, check=True
    )
    return done.stdout


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
