"""Services with patches: a patched copy of their package, which Python finds before the installed one.

Packages are shared by all beds; so a bed that tries a change has the changed package below its own directory.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from contend.errors import BadInput
from contend.testbed.openstack.bed import Bed

_NAMED = re.compile(r"^\+\+\+ b/(\w+)/", re.MULTILINE)


def packages(patch: str) -> set[str]:
    """The packages that a unified diff changes, by the first part of its paths (`+++ b/nova/compute/manager.py`).

    >>> packages("--- a/nova/x.py\\n+++ b/nova/x.py\\n@@ …")
    {'nova'}
    """
    return set(_NAMED.findall(patch))


def digest(patches: Sequence[str], service: str) -> str:
    """Digest of the patches of that service, known by its name (`nova-compute-fake-1` is nova's); "" without any."""
    texts = [text for text in _texts(patches) if service.partition("-")[0] in packages(text)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else ""


def patched_folder(bed: Bed, patches: Sequence[str], service: str) -> Path | None:
    """A directory for the service's module search path, made where it is not yet; None where no patch concerns it.

    Raises BadInput for a patch that does not fit.
    """
    number = digest(patches, service)
    if not number:
        return None
    package = service.partition("-")[0]
    made = bed.root / "patched" / f"{package}-{number}"
    if made.exists():
        return made
    (installed,) = bed.venv.glob(f"lib/python3*/site-packages/{package}")
    beside = made.with_name(made.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    shutil.copytree(installed, beside / package, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    for text in _texts(patches):
        if package in packages(text):
            command = ["patch", "--batch", "--forward", "-p1", "-d", str(beside)]
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BadInput(
                    f"a patch of {package} does not fit: {done.stdout.strip()}", hint=str(installed)
                )
    beside.rename(made)
    return made


def _texts(patches: Sequence[str]) -> list[str]:
    """Read the patches. Raises BadInput for a file that is none."""
    texts = []
    for name in patches:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise BadInput(
                f"the patch {name} cannot be read: {error.strerror}", hint="--patch nothing"
            ) from error
        if not packages(text):
            raise BadInput(
                f"{name} is no unified diff of a package", hint="with paths like b/nova/compute/manager.py"
            )
        texts.append(text)
    return texts
