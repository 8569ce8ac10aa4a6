#!/bin/sh
# Makes .venv with contend and its development tools in it. Idempotent: does nothing when nothing changed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: $("$python" --version) is too old" >&2
    echo "  hint: contend needs Python 3.11 or newer; name one with PYTHON=python3.12 make setup" >&2
    exit 1
}
command -v cargo >/dev/null || {
    echo "error: no Rust toolchain (cargo)" >&2
    echo "  hint: apt-get install cargo (1.85 or newer), or https://rustup.rs" >&2
    exit 1
}
stamp=.venv/contend-setup.stamp
if [ -f "$stamp" ] && [ -z "$(find pyproject.toml Cargo.toml Cargo.lock crates -newer "$stamp" \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) 2>/dev/null | head -1)" ]; then
    exit 0
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
echo "setup: installing Python packages into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --group dev 'maturin>=1.9,<2'
echo "setup: building contend (Rust and Python)"
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
touch "$stamp"
