"""Every module of the package can be imported, whether a test needs it or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import contend


def test_every_module_can_be_imported() -> None:
    root = Path(contend.__file__).parent
    # What lies in no package is a program, or a module that another interpreter finds by its path.
    found = [path for path in sorted(root.rglob("*.py")) if (path.parent / "__init__.py").exists()]
    names = [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in found]
    modules = [
        name.removesuffix(".__init__")
        for name in names
        if all(part.isidentifier() for part in name.split("."))
    ]
    assert len(modules) > 500
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
