"""Tools of guests that are logged in to: an SSH server, and iperf3 and a Python, or fio, all of this host's.

Programs come with the libraries that the loader names, and Python with the modules that it has loaded once what the guest's
side of a pair imports is there: a few megabytes, where a distribution's image would be hundreds.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from contend.errors import CannotHonour
from contend.platforms.guests import respond
from contend.platforms.guests.initramfs import Node

USER = "root"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The system's own: that of a virtual environment, which may run this, has its modules elsewhere.
_PYTHON = "/usr/bin/python3"
_FOLDERS = {"dropbear": Path("/usr/sbin")}
_ELSEWHERE = Path("/usr/bin")
_IMPORTS = re.compile(r"^(?:import|from) ([a-z_]+)", re.MULTILINE)
# Modules go without their sources: a compiled one beside its source has to be of the same time, and the archive has none.
_LOADED = """
import base64, importlib.util, json, marshal, sys
for name in sys.argv[1:]:
    __import__(name)
files = {module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
head = importlib.util.MAGIC_NUMBER + bytes(12)
told = {}
for file in sorted(files):
    if file.startswith(sys.prefix + "/lib/") and "dist-packages" not in file:
        told[file] = ""
        if file.endswith(".py"):
            with open(file, "rb") as source:
                code = compile(source.read(), file, "exec", dont_inherit=True)
            told[file] = base64.b64encode(head + marshal.dumps(code)).decode()
print(json.dumps(told))
"""
START = """\
$b mkdir -p /dev/pts /etc/dropbear /tmp
$b mount -t devpts pts /dev/pts
gateway=$(word gateway network_data.json)
[ -z "$gateway" ] || $b route add default gw "$gateway"
$b grep -o 'ssh-[a-z0-9]* [A-Za-z0-9+/=]*' /config/openstack/latest/meta_data.json >/root/.ssh/authorized_keys
/usr/sbin/dropbear -R -s -p 22
"""
"""Of the guest's init: keys are those that the config drive has, host keys are made when they are first asked for."""


class Image(NamedTuple):
    """The image of a guest to log in to. programs: by name, the Debian package of each; python: it has a Python too."""

    name: str
    memory_mib: int
    programs: Mapping[str, str]
    python: bool


NETWORK = Image("guest-tools", 256, {"dropbear": "dropbear-bin", "iperf3": "iperf3"}, python=True)
# fio is linked with what it could reach other storage by: a hundred megabytes, twice while a guest unpacks them.
STORAGE = Image("guest-fio", 512, {"dropbear": "dropbear-bin", "fio": "fio"}, python=False)


def lacks(image: Image = NETWORK) -> str:
    """Why this host cannot make such a guest; "" where it can."""
    for program, package in image.programs.items():
        if _which(program) is None:
            return f"{program} was not found (apt-get install {package})"
    if image.python and not Path(_PYTHON).exists():
        return f"{_PYTHON} was not found (apt-get install python3-minimal)"
    return ""


def nodes(image: Image, links: tuple[str, ...]) -> Iterator[Node]:
    """Nodes of the archive. links: names of busybox's applets. Raises CannotHonour."""
    if why := lacks(image):
        raise CannotHonour(
            f"a guest to log in to cannot be made: {why}", hint=why.partition("(")[2].rstrip(")")
        )
    made: dict[str, Node] = {}
    for name in ("root", "root/.ssh"):
        made[name] = Node(name, 0o040700)
    for name in ("etc", "tmp"):
        made[name] = Node(name, 0o040755)
    made["etc/passwd"] = Node("etc/passwd", 0o100644, f"{USER}:x:0:0::/root:/bin/sh\n".encode())
    made["etc/group"] = Node("etc/group", 0o100644, f"{USER}:x:0:\n".encode())
    for path, where in _files(image):
        for parent in reversed(where.parents):
            if parent.parts[1:]:
                made.setdefault(str(parent).lstrip("/"), Node(str(parent).lstrip("/"), 0o040755))
        inside = str(where).lstrip("/")
        made[inside] = Node(inside, 0o100755, path.read_bytes() if isinstance(path, Path) else path)
    for name in links:
        made.setdefault(f"bin/{name}", Node(f"bin/{name}", 0o120777, b"busybox"))
    yield from made.values()


def _files(image: Image) -> Iterator[tuple[Path | bytes, Path]]:
    """List the guest's files: (file here or its content, path in the guest)."""
    by_name = {name: _which(name) for name in image.programs}
    programs = [(Path(_PYTHON).resolve(), Path(_PYTHON))] if image.python else []
    programs += [
        (file, _FOLDERS.get(name, _ELSEWHERE) / name) for name, file in by_name.items() if file is not None
    ]
    libraries: set[Path] = set()
    for program, where in programs:
        libraries |= _libraries(program)
        yield program, where
    for module, compiled in (_modules() if image.python else {}).items():
        if compiled:
            yield compiled, module.with_suffix(".pyc")
        else:
            libraries |= _libraries(module)
            yield module, module
    for library in sorted(libraries):
        yield library, library


def _which(program: str) -> Path | None:
    path = shutil.which(program, path=PATH)
    return Path(path) if path else None


def _libraries(program: Path) -> set[Path]:
    """Shared libraries of a program, and its loader."""
    listing = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", listing)}


def _modules() -> dict[Path, bytes]:
    """File → compiled, b"" of a library, of what Python has loaded once it has what the guest's side of a pair imports."""
    source = Path(respond.__file__).read_text(encoding="utf-8")
    wanted = sorted(set(_IMPORTS.findall(source)))
    done = subprocess.run(
        [_PYTHON, "-I", "-c", _LOADED, *wanted], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotHonour(
            f"{_PYTHON} does not start: {done.stderr.strip()[-200:]}", hint="apt-get install python3-minimal"
        )
    return {Path(file): base64.b64decode(compiled) for file, compiled in json.loads(done.stdout).items()}
