"""Prints the notices of what others wrote and a wheel of contend holds: names, versions, licences and their texts.

    python scripts/notices.py contend-probe --features static >crates/probe/THIRD-PARTY.txt

Of Rust libraries the texts are those that cargo has beside their code. What is no crate
is in `BESIDES`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_suffix("")
TEXTS = ("LICEN[CS]E*", "COPYING*", "COPYRIGHT*", "NOTICE*")


VEGA = "Copyright (c) 2013-2026, University of Washington Interactive Data Lab and Vega contributors"
BESIDES = {
    "contend": [
        ("Vega, Vega-Lite, vega-embed, vega-tooltip, vega-themes, vega-interpreter", "BSD-3-Clause", VEGA),
        ("d3 modules", "ISC", "Copyright 2010-2026 Mike Bostock"),
        ("topojson-client", "ISC", "Copyright 2012-2019 Michael Bostock"),
        ("semver", "ISC", "Copyright (c) Isaac Z. Schlueter and Contributors"),
        ("json-stringify-pretty-compact", "MIT", "Copyright (c) 2014-2026 Simon Lydell and contributors"),
    ],
    "contend-probe": [
        ("libelf of elfutils", "LGPL-3.0-or-later", "Copyright (C) Red Hat, Inc. and others"),
        ("zlib", "Zlib", "Copyright (C) 1995-2026 Jean-loup Gailly and Mark Adler"),
    ],
}
"""What is no crate: name, licence (a file in scripts/notices), copyright."""


@dataclass(frozen=True)
class Notice:
    """One piece of others' work."""

    what: str
    licence: str
    texts: tuple[str, ...]


def main() -> None:
    """Print the notices of one package."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", choices=["contend", "contend-probe", "contend-fetch", "contend-rpc"])
    parser.add_argument("--features", default="")
    given = parser.parse_args()
    crate = "contend-python" if given.package == "contend" else given.package
    print(f"{given.package} holds work of others, under their licences:\n")
    besides = (
        Notice(what, licence, (whose, (KEPT / f"{licence}.txt").read_text(encoding="utf-8").strip()))
        for what, licence, whose in BESIDES.get(given.package, ())
    )
    printed: dict[str, str] = {}
    for notice in chain(besides, crates(crate, given.features)):
        print(f"{'=' * 100}\n{notice.what}\n{notice.licence}\n")
        for text in notice.texts:
            of = printed.setdefault(text, notice.what)
            print(f"{text}\n" if of == notice.what else f"The text that stands at {of}.\n")


def crates(package: str, features: str) -> Iterator[Notice]:
    """The libraries that are linked into a crate. Raises SystemExit for one without a licence."""
    tree = ("tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}")
    wanted = sorted(
        {line.removesuffix(" (*)") for line in cargo(*tree, "--features", features).splitlines() if line}
    )
    listed: dict[str, Any] = json.loads(cargo("metadata", "--format-version", "1", "--all-features"))
    where = {f"{of['name']} v{of['version']}": Path(of["manifest_path"]).parent for of in listed["packages"]}
    for line in wanted:
        name, _, licence = line.partition("|")
        name = name.split(" (")[0]
        if name.startswith("contend-"):
            continue
        if not licence:
            raise SystemExit(f"{name} names no licence")
        # Beside the crate's manifest, or beside the code in another language that it has in a folder.
        found = chain.from_iterable(
            where[name].glob(f"{depth}{text}") for text in TEXTS for depth in ("", "*/")
        )
        files = sorted({file for file in found if file.is_file()})
        texts = dict.fromkeys(file.read_text(encoding="utf-8", errors="replace").strip() for file in files)
        yield Notice(name, licence, tuple(texts))


def cargo(*given: str) -> str:
    """What cargo prints. Raises CalledProcessError."""
    return subprocess.run(["cargo", *given], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
