"""The root file system that guests boot: Debian with what the workloads need, built once and kept by its content.

An image is one ext4 file, never written to afterwards: each guest writes to an overlay of its own. It is built in mount
and process namespaces that end with contend, so a killed build leaves one directory, which the ledger names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from contend import files, names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.base import Command
from contend.platforms.packages import install_command
from contend.platforms.processes import Confines, launch
from contend.platforms.programs import search_path
from contend.store import state
from contend.store.ledger import Ledger

KIND = "guest-image"  # in the ledger: the directory of a build that may be half done
MEMBER = "guest-image"  # what processes of a build are marked as
DISK = "disk.ext4"
PACKAGES = ("python3", "busybox-static", "kmod", "crun")
KERNEL = "linux-image-cloud-amd64"
_SIZE = "16G"  # of the file system; the file is sparse
_TIMEOUT_S = 900.0
_ENDING_S = 2.0
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")  # of a Debian package: Policy 5.6.1
_NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "unshare": "util-linux",
}
# Its only output is the disk, which the last hook makes while the root is still there, in memory.
_BUILD = """set -eu
packages=$1 kernel=$2 suite=$3 size=$4
shift 4
export TMPDIR=$PWD/tmp # so that a build which is killed leaves nothing elsewhere
mkdir -p root tmp && mount -t tmpfs -o mode=755 tmpfs root
printf 'exit 101\\n' >policy && chmod 755 policy
mmdebstrap --quiet --mode=root --variant=essential --format=directory --include="$packages" \\
    --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \\
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/man/* \\
    --dpkgopt=path-exclude=/usr/share/locale/* \\
    --essential-hook='install -D policy "$1/usr/sbin/policy-rc.d"' \\
    --customize-hook='scratch=$(mktemp -d) && chmod 755 "$scratch" && cd "$scratch" &&
        export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" &&
        kernel=$(apt-cache depends '"$kernel"' | sed -n "s/^ *Depends: \\(linux-image-[0-9].*\\)/\\1/p" | head -n 1) &&
        apt-get -qq -o APT::Sandbox::User=root download "$kernel" &&
        dpkg-deb --fsys-tarfile "$kernel"_*.deb | tar -x -C "$1" ./boot ./lib/modules --keep-directory-symlink &&
        rm -r "$scratch" && chroot "$1" depmod "${kernel#linux-image-}"' \\
    "$suite" root "$@"
truncate -s "$size" disk.part
mkfs.ext4 -q -F -d root -L contend -E lazy_itable_init=1,lazy_journal_init=1 disk.part
mv disk.part disk.ext4
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of an image; the same recipe is the same image."""

    packages: tuple[str, ...]
    suite: str
    sources: tuple[str, ...] = ()
    """Lines of apt's, where its packages come from."""
    kernel: str = KERNEL
    size: str = _SIZE

    @property
    def key(self) -> str:
        """Digest of its content.

        >>> Recipe(("fio",), "bookworm").key == Recipe(("nginx",), "bookworm").key
        False
        """
        content = json.dumps([asdict(self), _BUILD], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def recipe(packages: Iterable[str] = ()) -> Recipe:
    """Recipe of an image in which these Debian packages are installed. Raises CannotHonour for what is no package's name.

    >>> recipe(["fio", "fio"]).packages
    ('busybox-static', 'crun', 'fio', 'kmod', 'python3')
    """
    wanted = sorted({*PACKAGES, *packages})
    for name in wanted:
        if not _NAME.fullmatch(name):
            raise CannotHonour(
                f"'{name}' is not the name of a Debian package", hint="see install.apt of the workload"
            )
    release = suite()
    return Recipe(tuple(wanted), release, sources(release))


def suite(os_release: Path = Path("/etc/os-release")) -> str:
    """This host's own Debian release, so that guest and host have the same programs; "" on other systems."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        return ""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return fields.get("VERSION_CODENAME", "") if fields.get("ID") == "debian" else ""


def sources(release: str) -> tuple[str, ...]:
    """Lines of sources.list for this release and its updates, from this host's own apt; empty where it has none."""
    if not release or shutil.which("apt-get") is None:
        return ()
    command = (
        "apt-get",
        "indextargets",
        "--format",
        "deb $(REPO_URI) $(RELEASE) main",
        "Created-By: Packages",
    )
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    suites = {release, f"{release}-updates", f"{release}-security"}
    return tuple(
        sorted(
            {line for line in listing.splitlines() if line.split(" ")[2:3] and line.split(" ")[2] in suites}
        )
    )


def home() -> Path:
    return state.cache() / "guests"


def lacks() -> list[CannotHonour]:
    """List what building an image needs and this host lacks."""
    lacking = []
    for program, package in _NEEDED.items():
        if shutil.which(program, path=search_path()) is None:
            lacking.append(
                CannotHonour(
                    f"a guest's image is built with {program}, not found on PATH",
                    hint=install_command(package),
                )
            )
    if not sources(suite()):
        lacking.append(
            CannotHonour(
                "a guest's image is built from this host's own Debian release, and apt names no source of one",
                hint="on another system name an image: `image:`",
            )
        )
    if os.geteuid() != 0:
        lacking.append(
            CannotHonour(
                "only root can build a guest's image",
                hint="run it once as root with the same XDG_CACHE_HOME, or name one: `image:`",
            )
        )
    return lacking


def have(wanted: Recipe) -> Path | None:
    """Path of a recipe's image, if it was built; else None."""
    disk = home() / wanted.key / DISK
    return disk if disk.is_file() else None


def need(wanted: Recipe) -> None:
    """Check that this image is there or can be built. Raises CannotHonour."""
    if have(wanted) is None and (missing := lacks()):
        message, hint = ("; ".join(getattr(error, key) for error in missing) for key in ("message", "hint"))
        raise CannotHonour(message, hint=hint)


def build(wanted: Recipe, run_id: str, ledger: Ledger) -> Path:
    """Return the path of a recipe's image, built if it is not there, which takes a minute and the network.

    Raises CannotHonour without what building needs, HostFailed when it fails; nothing is left of it then.
    """
    need(wanted)
    kept = home() / wanted.key
    with half_built(kept, run_id, ledger) as half:
        if half is not None:
            _build(wanted, half, run_id)
            recipe = {**asdict(wanted), "key": wanted.key}
            for scratch in ("root", "tmp"):  # the first is where the build's memory was mounted
                shutil.rmtree(half / scratch)
            (half / "policy").unlink()
            (half / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    return kept / DISK


@contextmanager
def half_built(kept: Path, run_id: str, ledger: Ledger) -> Iterator[Path | None]:
    """A new directory that becomes `kept` when the block succeeds, else is removed; None where `kept` is there already.

    One process makes it; others that want the same wait.
    """
    home().mkdir(parents=True, exist_ok=True)
    with files.locked(home() / f"{kept.name}.lock"):
        if kept.is_dir():
            yield None
            return
        half = home() / f"{names.PREFIX}-{run_id}.{kept.name}"
        ledger.intend(KIND, str(half), run=run_id)
        try:
            half.mkdir()
            yield half
            half.rename(kept)
        finally:
            shutil.rmtree(half, ignore_errors=True)
            ledger.removed(KIND, str(half))


def _build(wanted: Recipe, half: Path, run_id: str) -> None:
    # Killed with contend (--kill-child, and the kernel ends what else is in the namespace), mounts and all.
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
    arguments = (",".join(wanted.packages), wanted.kernel, wanted.suite, wanted.size, *wanted.sources)
    log = half / "build.log"
    command = Command(
        (*apart, "sh", "-c", _BUILD, "build", *arguments),
        half,
        log,
        log,
        {"PATH": search_path(), "LC_ALL": "C"},
    )
    marks = {procfs.MARKER: run_id, procfs.MEMBER_MARKER: MEMBER}
    ended = launch(command, Confines(), marks).wait(_TIMEOUT_S)
    if ended.code != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E: ")]
        why = (errors or lines or [f"exit status {ended.code}"])[0].removeprefix("E: ")
        raise HostFailed(
            f"the image of a guest cannot be built: {why[:300]}",
            hint="are apt's sources reachable? An image that is there needs no network",
        )


def remove_half(path: Path, run_id: str) -> bool:
    """Remove a build that did not end. Raises HostFailed for a directory that is not one."""
    is_build = path.parent.parts[-2:] == (names.PREFIX, "guests") and path.name.startswith(f"{names.PREFIX}-")
    if not is_build:
        raise HostFailed(f"{path} is no half-built image of contend's", hint="the ledger names a stranger")
    # The build ends with contend (--kill-child): here it is waited for, not ended, since anybody can carry its mark.
    until = time.monotonic() + _ENDING_S
    while procfs.marked(run_id, member=MEMBER, own=True) and time.monotonic() < until:
        time.sleep(0.02)
    if not path.is_dir() or path.is_symlink():
        return False
    shutil.rmtree(path)
    return True


def left() -> list[tuple[Path, str]]:
    """List every build that did not end: (directory, run id)."""
    if not home().is_dir():
        return []
    builds = []
    for path in sorted(home().glob(f"{names.PREFIX}-*")):
        run_id, _, _ = path.name.removeprefix(f"{names.PREFIX}-").rpartition(".")
        builds.append((path, run_id))
    return builds
