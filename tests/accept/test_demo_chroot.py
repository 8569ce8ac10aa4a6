"""`make demo` on a Debian that has nothing but Python, make and a Rust toolchain: its package step, its set-up and its run.

Of Debian 12, whose cargo is too old, with the toolchain of this host; of Debian 13 with its own. What is downloaded for
cargo and pip is the host's. About eight minutes each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support import chroots

pytestmark = [
    pytest.mark.accept,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.needs(not chroots.lacks(), chroots.lacks()),
]

ROOT = Path(__file__).parents[2]
BASE = ("ca-certificates", "make", "python3")
CARGO = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
# In one life of the root, for what apt installs is gone with it. The second time nothing is to be done.
TWICE = """
make demo && date +%s.%N >began && scripts/packages.sh demo && scripts/setup.sh demo && date +%s.%N >ended
"""


@pytest.mark.parametrize(
    ("suite", "packages"), [("bookworm", BASE), ("trixie", (*BASE, "cargo"))], ids=["debian-12", "debian-13"]
)
def test_a_first_demo(suite: str, packages: tuple[str, ...], tmp_path: Path) -> None:
    root = chroots.made(suite, packages)
    clone = tmp_path / "contend"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    env = {"CARGO_HOME": str(CARGO)}
    shown = [tmp_path, CARGO / "registry"]
    pip = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pip"
    shown += [pip] if pip.is_dir() else []
    if "cargo" not in packages:
        rustc = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
        toolchain = Path(rustc.stdout.strip())
        shown.append(toolchain)
        env["PATH"] = f"{toolchain}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    began = time.monotonic()
    done = chroots.run(root, ["sh", "-c", TWICE], cwd=clone, env=env, shown=shown, timeout=2000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    print(suite, f"{time.monotonic() - began:.0f} s", *re.findall(r"setup: done in .*", done.stdout))
    lines = done.stdout.splitlines()
    assert any(
        re.fullmatch(r"packages: installing .*\bfio\b.* \(no service is started\)", line) for line in lines
    )
    assert sum(line.startswith("setup: done in ") for line in lines) == 1
    assert any("report: runs/noisy-neighbour-" in line for line in lines), done.stdout[-4000:]
    assert not shutil.which("mypy", path=str(clone / ".venv/bin"))
    began_s, ended_s = (float((clone / name).read_text()) for name in ("began", "ended"))
    assert ended_s - began_s < 5
