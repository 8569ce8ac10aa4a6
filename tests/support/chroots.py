"""Small roots of other Debian releases, for tests under their Pythons and for a set-up from nothing.

    PYTHONPATH=tests .venv/bin/python -m support.chroots trixie -- python3 -V

A root is made by mmdebstrap from where this system's own apt has its packages, and kept in the cache by what it is made of;
one that no test has used for a month is removed. A command in it sees the root through an overlay in memory, so that the
kept one stays as it was made: it has the host's /dev, /sys, network and this checkout, at the same path.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from contend.platforms.guests import image
from contend.store import state

ROOT = Path(__file__).parents[2]
# libelf for contend-probe, which is the host's own; mount for tests of full disks.
PACKAGES = ("python3-venv", "libelf1", "mount")
MONTH_S = 30 * 86_400
_BUILD_S = 900
# apt, for the releases' own package manager is what some tests run. A copy of the archive may lag behind, and that of sid is
# signed for a week only: what is made of it runs tests, and nothing else.
_MAKE = """set -eu
mmdebstrap --quiet --mode=root --variant=apt --include="$1" --aptopt='Acquire::Languages "none"' \\
    --aptopt='Acquire::Check-Valid-Until "false"' --dpkgopt=force-unsafe-io \\
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-include=/usr/share/doc/*/copyright \\
    --dpkgopt=path-exclude=/usr/share/man/* --dpkgopt=path-exclude=/usr/share/locale/* "$2" "$3" "$4"
"""
# Where a name server and the keys of package indexes are, and what pip reads.
_OF_THE_HOST = (
    "/dev",
    "/sys",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/etc/pip.conf",
)
# What is started so ends with its first process.
_APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
_ENTER = """set -eu
root=$1 where=$2 shown=$3
shift 3
mount --make-rprivate /
over=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$over"
mkdir "$over/upper" "$over/work" "$over/root"
mount -t overlay -o "lowerdir=$root,upperdir=$over/upper,workdir=$over/work" overlay "$over/root"
mount -t tmpfs tmpfs "$over/root/tmp" && chmod 1777 "$over/root/tmp"
mount -t proc proc "$over/root/proc"
IFS=:
for place in $shown; do
    if [ -d "$place" ]; then mkdir -p "$over/root$place"; else
        mkdir -p "$over/root${place%/*}" && rm -f "$over/root$place" && : >"$over/root$place"
    fi
    mount --rbind "$place" "$over/root$place"
done
unset IFS
exec chroot "$over/root" env -C "$where" "$@"
"""


def home() -> Path:
    """Where they are kept."""
    return state.cache() / "chroots"


def lacks() -> str:
    """What making one needs and this host has not; empty where it has all."""
    if os.geteuid() != 0:
        return "root, to make a root of another release"
    for program in ("mmdebstrap", "unshare"):
        if shutil.which(program) is None:
            return f"{program} (scripts/packages.sh test)"
    return "" if image.sources(image.suite()) else "Debian, and its apt with a source of this release"


def line(suite: str) -> str:
    """Where this host's own apt has packages from, for another release."""
    ours = image.suite()
    [_, place, *_] = next(line for line in image.sources(ours) if line.split()[2] == ours).split()
    return f"deb {place} {suite} main"


def made(suite: str, packages: Iterable[str] = PACKAGES) -> Path:
    """The root of that release with those packages; made if it is not there, in a minute and with the network."""
    wanted = sorted(packages)
    key = hashlib.sha256(json.dumps([suite, wanted, _MAKE]).encode()).hexdigest()[:16]
    kept = home() / f"{suite}-{key}"
    home().mkdir(parents=True, exist_ok=True)
    with (home() / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            part = kept.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            done = subprocess.run(
                [*_APART, "sh", "-c", _MAKE, "make", ",".join(wanted), suite, part, line(suite)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_BUILD_S,
            )
            if done.returncode:
                shutil.rmtree(part, ignore_errors=True)
                raise RuntimeError(f"mmdebstrap {suite}: {done.stderr.strip()[-1000:] or '(no output)'}")
            part.rename(kept)
        os.utime(kept)
    remove_unused(time.time())
    return kept


def remove_unused(now: float) -> None:
    """Those that nobody used for a month before `now`, seconds since the epoch."""
    for kept in home().iterdir():
        if kept.is_dir() and kept.stat().st_mtime < now - MONTH_S:
            shutil.rmtree(kept)
            kept.with_suffix(".lock").unlink(missing_ok=True)


def run(
    root: Path,
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    shown: Iterable[Path] = (ROOT,),
    timeout: float,
    capture: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command in it to its end, with `shown` of the host at the same places. All it started ends with it."""
    inside = inside_of(root, command, cwd=cwd, shown=shown)
    own = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYENV", "VIRTUAL_ENV", "TMPDIR"))
    }
    return subprocess.run(
        inside,
        env={**kept, **own, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=capture,
        text=True,
        timeout=timeout,
    )


def inside_of(
    root: Path, command: Sequence[str | Path], *, cwd: Path = ROOT, shown: Iterable[Path] = (ROOT,)
) -> list[str | Path]:
    """The command that runs another one in it."""
    places = [place for place in (*map(Path, _OF_THE_HOST), *shown, state.cache()) if place.exists()]
    return [*_APART, "sh", "-c", _ENTER, "enter", root, cwd, ":".join(map(str, places)), *command]


def requirements(names: Iterable[str]) -> list[str]:
    """Those of the project's, by name, and all that running contend needs but its own programs."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dev = {line.split(">")[0]: line for line in told["dependency-groups"]["dev"]}
    needed = [line for line in told["project"]["dependencies"] if not line.startswith("contend-")]
    return [*needed, *(dev[name] for name in names)]


def environment(root: Path, wanted: Sequence[str]) -> Path:
    """The Python of a virtual environment with those packages, for use in that root, kept beside it."""
    key = hashlib.sha256(json.dumps([root.name, sorted(wanted)]).encode()).hexdigest()[:16]
    kept = home() / f"venv-{key}"
    with (home() / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "made").exists():
            shutil.rmtree(kept, ignore_errors=True)
            pip = [
                kept / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-compile",
                "--only-binary",
                ":all:",
            ]
            for command in (["python3", "-m", "venv", kept], [*pip, *wanted]):
                done = run(root, command, timeout=_BUILD_S)
                if done.returncode:
                    raise RuntimeError(f"{root.name}: {done.stderr.strip()[-1000:] or '(no output)'}")
            (kept / "made").touch()
        os.utime(kept)
    return kept / "bin" / "python"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", help="of Debian: bookworm, trixie, sid")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    if missing := lacks():
        sys.exit(f"error: it needs {missing}")
    sys.exit(run(made(asked.suite), asked.command, cwd=Path.cwd(), timeout=86_400, capture=False).returncode)
