"""scripts/setup.sh: what it installs and builds when. Stand-ins for pip, uv, cargo and maturin take notes.

With the real ones it is run by `make demo` in tests/accept/test_demo_chroot.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = (
    "awk",
    "cat",
    "chmod",
    "cksum",
    "cp",
    "date",
    "dirname",
    "find",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mktemp",
)
TOOLS += ("mv", "rm", "sed", "sh", "tail", "tr")

# A virtual environment: its Python is the real one but for pip, which installs nothing; maturin makes the module.
PYTHON = """#!/bin/sh
case "$*" in
"-c import pip") exit 0 ;;
"-m pip "*) shift 2; echo "pip $*" >>"{notes}"; {requirements} exit 0 ;;
esac
exec {real} "$@"
"""
MATURIN = """#!/bin/sh
echo "maturin $*" >>"{notes}"
: >python/contend/_native.abi3.so
mkdir -p python/contend/report/templates
: >python/contend/report/templates/vega.js # in truth by the build backend, with the editable install
"""
VENV = """#!/bin/sh
echo "venv $*" >>"{notes}"
mkdir -p .venv/bin
cp "{stand_ins}/inside" .venv/bin/python
cp "{stand_ins}/maturin" .venv/bin/maturin
: >.venv/bin/contend && chmod +x .venv/bin/contend
"""
CARGO = """#!/bin/sh
[ "$1" != --version ] || {{ echo "cargo 1.90.0 (x)"; exit 0; }}
echo "cargo $*" >>"{notes}"
[ ! -e "{stand_ins}/broken" ] || {{ echo "error[E0308]: mismatched types" >&2; exit 101; }}
mkdir -p target/release
for program in contend-probe contend-fetch contend-rpc; do
    case "$*" in *"$program"*) : >target/release/$program; chmod +x target/release/$program ;; esac
done
"""
KEEPS = 'while [ $# -gt 0 ]; do [ "$1" != --requirement ] || cp "$2" "{notes}.requirements"; shift; done;'


class Checkout:
    """Of what the script reads, and nothing of it on PATH but the stand-ins."""

    def __init__(self, place: Path, *, uv: bool) -> None:
        self.root, self.notes, self.bin = place / "checkout", place / "notes", place / "bin"
        for directory in (
            self.root / "scripts",
            self.root / "crates/core/src",
            self.root / "python/contend",
            self.bin,
        ):
            directory.mkdir(parents=True)
        for name in ("scripts/setup.sh", "pyproject.toml", "Cargo.toml", "Cargo.lock"):
            shutil.copy(ROOT / name, self.root / name)
        self.source = self.root / "crates/core/src/lib.rs"
        self.source.touch()
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        words = {
            "notes": self.notes,
            "stand_ins": self.bin,
            "real": sys.executable,
        }
        words["requirements"] = KEEPS.format(**words)
        outer = (
            '#!/bin/sh\ncase "$1 $2" in "-m venv") exec "{stand_ins}/venv" "$@" ;; esac\nexec {real} "$@"\n'
        )
        uv_says = (
            'echo "uv $*" >>"{notes}"\n[ "$1" != venv ] || exec "{stand_ins}/venv" "$@"\n{requirements}\n'
        )
        programs = {"python3": outer, "inside": PYTHON, "maturin": MATURIN, "venv": VENV, "cargo": CARGO}
        if uv:
            programs["uv"] = "#!/bin/sh\n" + uv_says
        for name, text in programs.items():
            (self.bin / name).write_text(text.format(**words))
            (self.bin / name).chmod(0o755)

    def setup(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.notes.write_text("")
        return subprocess.run(
            ["sh", "scripts/setup.sh", *words],
            cwd=self.root,
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def requirements(self) -> set[str]:
        text = Path(f"{self.notes}.requirements").read_text()
        return {line.split(">")[0] for line in text.splitlines()}


@pytest.fixture(params=["pip", "uv"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, uv=request.param == "uv")


def test_the_demo_gets_what_running_needs_and_the_rest_comes_later(checkout: Checkout) -> None:
    done = checkout.setup("demo")
    assert done.returncode == 0, done.stderr
    assert checkout.requirements() >= {"numpy", "duckdb", "maturin"}
    assert not checkout.requirements() & {"mypy", "pytest", "ruff", "scipy"}
    built = [line for line in checkout.noted() if line.startswith("cargo")]
    assert built == ["cargo build --quiet --release --package contend-probe"]
    for program in ("contend-fetch", "contend-rpc"):
        assert not (checkout.root / ".venv/bin" / program).exists()

    again = checkout.setup("demo")
    assert (again.returncode, again.stdout, checkout.noted()) == (0, "", [])

    full = checkout.setup()
    assert full.returncode == 0, full.stderr
    assert checkout.requirements() >= {"numpy", "mypy", "pytest", "ruff"}
    assert any("--no-deps apache-otava" in line for line in checkout.noted())
    for program in ("contend-fetch", "contend-rpc"):
        assert (checkout.root / ".venv/bin" / program).exists()
    assert not any(line.startswith("venv") for line in checkout.noted()), "it goes on in the same environment"

    for words in ((), ("demo",)):
        assert checkout.setup(*words).returncode == 0 and checkout.noted() == []


def test_a_changed_source_is_built_and_nothing_is_installed_anew(checkout: Checkout) -> None:
    assert checkout.setup("demo").returncode == 0
    stamp = (checkout.root / ".venv/contend-setup.stamp").stat().st_mtime
    os.utime(checkout.source, (time.time(), stamp + 5))
    assert checkout.setup("demo").returncode == 0
    noted = checkout.noted()
    assert [line for line in noted if line.startswith(("maturin", "cargo"))]
    assert not [line for line in noted if "--requirement" in line]


def test_other_packages_are_installed_when_the_project_asks_for_them(checkout: Checkout) -> None:
    assert checkout.setup("demo").returncode == 0
    project = checkout.root / "pyproject.toml"
    project.write_text(project.read_text().replace('"click>=8.1",', '"click>=8.1", "another>=1",'))
    assert checkout.setup("demo").returncode == 0
    assert "another" in checkout.requirements()


def test_what_does_not_compile_is_shown_and_not_taken_for_built(checkout: Checkout) -> None:
    (checkout.bin / "broken").touch()
    done = checkout.setup("demo")
    assert done.returncode == 1
    assert "mismatched types" in done.stderr and "error: contend cannot be built" in done.stderr
    assert not (checkout.root / ".venv/contend-setup.stamp").exists()
    (checkout.bin / "broken").unlink()
    assert checkout.setup("demo").returncode == 0
