"""A storm's client is started anew for each storm: what it imports costs more than what it sends."""

from __future__ import annotations

import subprocess
import sys

COSTLY = {"dataclasses", "inspect", "ssl", "email", "http", "requests", "urllib3", "openstack", "keystoneauth1", "yaml",
          "hashlib", "difflib", "random", "pydantic", "numpy"}  # fmt: skip


def test_a_storm_client_imports_nothing_costly() -> None:
    told = "import contend.workloads.generators.boot, sys; print(*sys.modules)"
    # Without site: what other packages' .pth files import is no doing of ours.
    run = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {told}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert COSTLY & set(done.stdout.split()) == set()
