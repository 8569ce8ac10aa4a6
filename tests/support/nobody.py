"""contend as another, unprivileged user, over what root has made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.prerequisites import need

NOBODY = 65534
CHECKOUT = Path(__file__).resolve().parents[2]
# Of a directory that is closed to others, "$1", and those below it that are to be reached, each followed by where it is kept
# meanwhile. After -- comes the directory to go to and what to run there.
_REACHABLE = """
mount --make-rprivate / || exit
closed=$1 && shift && kept=
while [ "$1" != -- ]; do
    mkdir -p "$2" && mount --bind "$1" "$2" || exit
    kept="$kept mkdir -p '$1' && mount --bind '$2' '$1' &&" && shift 2
done
shift && mount -t tmpfs -o mode=755 none "$closed" && eval "$kept :" && cd "$1" && shift && exec "$@"
"""


def laid_open(home: Path) -> list[str]:
    """What to begin a command with, so that another user reaches the interpreter and the checkout where one of them lies in
    a home of root's: open for that command only, which runs in `home`."""
    base = Path(sys.base_prefix).resolve()
    closed = [
        place for way in (base, CHECKOUT) for place in (way, *way.parents) if not place.stat().st_mode & 0o001
    ]
    if not closed:
        return []
    top = min(closed, key=lambda place: len(place.parts))
    inside = [place for place in (base, CHECKOUT) if place.is_relative_to(top)]
    kept = [word for place in inside for word in (str(place), str(home / f"reached-{place.name}"))]
    return ["unshare", "--mount", "sh", "-c", _REACHABLE, "sh", str(top), *kept, "--", str(home)]


def command(home: Path, *words: str) -> list[str]:
    """`contend WORDS` as nobody."""
    need(os.geteuid() == 0, "root, to be somebody else")
    need(shutil.which("setpriv") is not None, "setpriv (util-linux)")
    who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return [*laid_open(home), "setpriv", *who, sys.executable, "-m", "contend", *words]


def environment(home: Path) -> dict[str, str]:
    """Of that user, whose own directories are below `home`."""
    own = home / "own"
    own.mkdir(exist_ok=True)
    os.chown(own, NOBODY, NOBODY)
    xdg = {f"XDG_{name}_HOME": str(own / name.lower()) for name in ("STATE", "CACHE", "CONFIG")}
    kept = {k: v for k, v in os.environ.items() if k != "CONTEND_RUNS"}
    return {**kept, **xdg, "HOME": str(own), "TMPDIR": str(own), "PYTHONDONTWRITEBYTECODE": "1"}


def contend(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(home, *words),
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
