#!/bin/sh
# Makes .venv with contend and its development tools in it. Idempotent: does nothing when nothing changed. `setup.sh demo`
# leaves out contend-fetch, whose TLS takes longer to build than the rest, where it is not there yet.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "error: $1" >&2
    echo "  hint: $2" >&2
    exit 1
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || die "no $python" "apt-get install python3 python3-venv (3.11 or newer)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$("$python" --version) is too old" "contend needs Python 3.11 or newer; name one with PYTHON=python3.12 make setup"
command -v cargo >/dev/null || die "no Rust toolchain (cargo)" "https://rustup.rs, or apt-get install cargo where that is 1.85 or newer"
cargo --version | awk '{ split($2, v, "."); exit !(v[1] > 1 || v[2] >= 85) }' ||
    die "$(cargo --version) is too old" "contend needs Rust 1.85 or newer: https://rustup.rs"

stamp=.venv/contend-setup.stamp
fetch=.venv/bin/contend-fetch
[ "${1:-}" != demo ] || fetch=.venv/bin/contend
changed() { # files that say what to build, newer than the last set-up
    find pyproject.toml Cargo.toml Cargo.lock .cargo crates -newer "$stamp" \
        \( -name '*.rs' -o -name '*.[ch]' -o -name '*.toml' -o -name Cargo.lock \) 2>/dev/null | head -1
}
# BPF programs are built where their compiler and the two libraries of their loader are; where not, the probe has the
# kernel's other sources, and `contend doctor` says so.
features=
if command -v clang >/dev/null && [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]; then
    features=bpf
fi
if [ -f "$stamp" ] && [ -x .venv/bin/contend ] && [ -x .venv/bin/contend-probe ] && [ -x "$fetch" ] &&
    [ "$(cat "$stamp")" = "$features" ] && [ -z "$(changed)" ]; then
    exit 0
fi

began=$(date +%s)
[ -x .venv/bin/python ] || "$python" -m venv .venv ||
    die "$python cannot make a virtual environment" "apt-get install python3-venv"
pip() { PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
echo "setup: installing Python packages into .venv"
pip install --upgrade 'pip>=25.1'
pip install --group dev 'maturin>=1.9,<2'
# Change points in trends. Without what it asks for: of that the used part needs numpy and scipy, and its pin of numpy would
# take ours back by two releases.
pip install --no-deps 'apache-otava>=0.8,<0.9'
echo "setup: building contend (Rust and Python)"
pip install --no-build-isolation --editable .
echo "setup: building contend-probe${features:+ with BPF}"
pip install --no-build-isolation --force-reinstall --no-deps ./crates/probe \
    ${features:+--config-settings=build-args="--features $features"}
if [ "${1:-}" != demo ] || [ -x .venv/bin/contend-fetch ]; then
    echo "setup: building contend-fetch"
    pip install --no-build-isolation --force-reinstall --no-deps ./crates/fetch
fi
echo "$features" >"$stamp"
echo "setup: done in $(($(date +%s) - began)) s"
