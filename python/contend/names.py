"""Names of what contend makes on a host. Each begins with contend's own: only such things are removed."""

from __future__ import annotations

import re

from contend.errors import BadInput

PREFIX = "contend"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(what: str, name: str) -> str:
    """Check that `name` can be part of the name of a cgroup, container and file. Raises BadInput.

    >>> check_name("run id", "noisy-neighbour-20261120-1842")
    'noisy-neighbour-20261120-1842'
    """
    if not is_name(name):
        raise BadInput(
            f"{what} '{name}' cannot name a cgroup or a container",
            hint="use letters, digits, '-', '_' and '.', at most 128 of them",
        )
    return name


def is_name(name: str) -> bool:
    """True if `check_name` takes it."""
    return _SAFE.fullmatch(name) is not None and len(name) <= 128


def short_hash(run_id: str) -> str:
    """Eight hexadecimal digits of the run id, for names the kernel keeps short (IFNAMSIZ is 16 with the NUL).

    >>> len(short_hash("x"))
    8
    """
    import hashlib  # brings OpenSSL's library

    return hashlib.sha256(run_id.encode()).hexdigest()[:8]


def run_group(run_id: str) -> str:
    """Name of the cgroup that holds the workloads of a run."""
    return f"{PREFIX}.{run_id}"


def container(run_id: str, role: str) -> str:
    return f"{PREFIX}-{run_id}-{role}"
