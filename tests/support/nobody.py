"""contend as another, unprivileged user, over what root has made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.prerequisites import need

NOBODY = 65534
_REACHABLE = """
mkdir -p "$1" && mount --make-rprivate / && mount --bind "$2" "$1" && mount -t tmpfs -o mode=755 none "$3" &&
mkdir -p "$2" && mount --bind "$1" "$2" && cd "$4" && shift 4 && exec "$@"
"""


def command(home: Path, *words: str) -> list[str]:
    """`contend WORDS` as nobody. Where the interpreter lies in a home of root's, that is laid open for this process only."""
    need(os.geteuid() == 0, "root, to be somebody else")
    need(shutil.which("setpriv") is not None, "setpriv (util-linux)")
    as_nobody = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        sys.executable,
        "-m",
        "contend",
    ]
    base = Path(sys.base_prefix).resolve()
    closed = [place for place in (base, *base.parents) if not place.stat().st_mode & 0o001]
    if not closed:
        return [*as_nobody, *words]
    inside = ["unshare", "--mount", "sh", "-c", _REACHABLE, "sh"]
    return [*inside, str(home / "python"), str(base), str(closed[-1]), str(home), *as_nobody, *words]


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
