"""A linker that has the objects of a program in an order by chance.

`link-order write DIR` makes DIR/ld, which runs `link-order ld`. A compiler that finds DIR in COMPILER_PATH links by it
(GCC and Clang, and Rust by either). The order is drawn by
CONTEND_LAYOUT_SEED; with 0 it stays as it is. Objects that a compiler adds at the begin and the end of a program stay there,
and what is named in a file of arguments (`@FILE`) stays in its order.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

SEED = "CONTEND_LAYOUT_SEED"
_STARTS_WITH = ("crt", "Scrt", "gcrt", "rcrt", "Mcrt")


def main(arguments: Sequence[str]) -> int:
    """Write the linker, or be it."""
    verb, *rest = arguments
    if verb == "write":
        folder = Path(rest[0])
        folder.mkdir(parents=True, exist_ok=True)
        linker = folder / "ld"
        command = f'exec "{sys.executable}" -m contend.workloads.generators link-order ld "$@"'
        linker.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        linker.chmod(0o755)
        return 0
    linker_here = shutil.which("ld")
    if verb == "ld" and linker_here is not None:
        os.execv(linker_here, [linker_here, *shuffled(rest, int(os.environ.get(SEED, "0")))])
    print("error: there is no linker ld on PATH\n  hint: install binutils", file=sys.stderr)
    return 2


def shuffled(arguments: Sequence[str], seed: int) -> list[str]:
    """Arguments of a linker with its objects in another order.

    >>> shuffled(["-o", "x.o", "crt1.o", "a.o", "b.o", "c.o", "-lc", "crtn.o"], 1)
    ['-o', 'x.o', 'crt1.o', 'b.o', 'c.o', 'a.o', '-lc', 'crtn.o']
    >>> shuffled(["a.o", "b.o", "c.o"], 0)
    ['a.o', 'b.o', 'c.o']
    """
    indices = [
        at
        for at, word in enumerate(arguments)
        if word.endswith(".o")
        and not Path(word).name.startswith(_STARTS_WITH)
        and (at == 0 or arguments[at - 1] != "-o")
    ]
    order = list(indices)
    if seed:
        random.Random(seed).shuffle(order)
    made = list(arguments)
    for at, other in zip(indices, order, strict=True):
        made[at] = arguments[other]
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
