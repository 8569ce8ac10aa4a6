"""A kernel's drivers, out of its modules, in the order in which they can be loaded."""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.packages import install_command

# What a module needs, as its build has noted it: Documentation/kbuild/modules.rst, section .modinfo.
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def load(modules: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """File name → module, each after those it needs. What the kernel has built in is left out.

    modules: a directory like /lib/modules/VERSION. Raises CannotHonour where one of them is not there, or packed so that
    nothing here unpacks it.
    """
    files = {called(path.name): path for path in modules.rglob("*.ko*")}
    try:
        built_in = {called(Path(line).name) for line in (modules / "modules.builtin").read_text().split()}
    except FileNotFoundError:
        built_in = set()
    loaded: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in built_in or f"{name}.ko" in loaded:
            return
        if name not in files:
            raise CannotHonour(f"{modules} has no module {name}", hint="scripts/kernel.sh")
        data = unpacked(files[name])
        for needed in needs(data):
            add(needed)
        loaded[f"{name}.ko"] = data

    for name in wanted:
        add(name)
    return loaded


def needs(module: bytes) -> list[str]:
    r"""Names of the modules that it says it needs.

    >>> needs(b"\0license=GPL\0depends=virtio,virtio_ring\0name=x\0"), needs(b"\0depends=\0")
    (['virtio', 'virtio_ring'], [])
    """
    match = _DEPENDS.search(module)
    return [called(name) for name in match[1].decode("ascii").split(",") if name] if match else []


def called(file: str) -> str:
    """A module's name, by that of its file.

    >>> called("sr_mod.ko.xz"), called("crc-t10dif.ko")
    ('sr_mod', 'crc_t10dif')
    """
    return file.partition(".ko")[0].replace("-", "_")


def unpacked(path: Path) -> bytes:
    """Read and unpack a module. Raises CannotHonour for a compression that no program here unpacks."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix != ".zst":
        return data
    try:  # Python itself does from 3.14 on
        return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise CannotHonour(
            f"{path.name} cannot be unpacked with zstd", hint=install_command("zstd")
        ) from error
