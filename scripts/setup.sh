#!/bin/sh
# Makes .venv with contend in it, with uv where that is there and with pip otherwise. Does nothing when nothing changed.
#   setup.sh         contend, its four programs, BPF where it can be built, and all tools of its development
#   setup.sh demo    what running contend on this host needs: no development tools, no BPF, neither contend-fetch nor
#                    contend-rpc, whose TLS takes longer to build than the rest. Adds nothing to a full set-up and takes
#                    nothing from it.
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

# What there is, one NAME=VALUE a line: kind (demo, full), features (of contend-probe), packages (a checksum).
stamp=.venv/contend-setup.stamp
had() { sed -n "s/^$1=//p" "$stamp" 2>/dev/null || true; }

kind=full
if [ "${1:-}" = demo ] && { [ ! -f "$stamp" ] || [ "$(had kind)" = demo ]; }; then
    kind=demo
fi

# BPF programs are built where their compiler and the two libraries of their loader are; where not, the probe has the
# kernel's other sources, and `contend doctor` says so.
features=
if [ $kind = full ] && command -v clang >/dev/null && [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]; then
    features=bpf
fi
programs=contend-probe
[ $kind = demo ] || programs="contend-probe contend-fetch contend-rpc"

# What pip or uv installs, as lines of a requirements file.
requirements() {
    "$python" - $kind <<'END'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    told = tomllib.load(file)
# contend's own programs are built here.
needed = [of for of in told["project"]["dependencies"] if not of.startswith("contend-")]
wanted = told["build-system"]["requires"] + needed
print(*wanted, *(told["dependency-groups"]["dev"] if sys.argv[1] == "full" else ()), sep="\n")
END
}
# Change points in trends. Without what it asks for: of that the used part needs numpy and scipy, and its pin of numpy would
# take ours back by two releases.
otava='apache-otava>=0.8,<0.9'

there() { # all that this kind has
    for program in contend $programs; do
        [ -x ".venv/bin/$program" ] || return 1
    done
    ls python/contend/_native.abi3.so python/contend/report/templates/vega.js >/dev/null 2>&1
}
changed() { # files that say what to build, newer than the last set-up
    find pyproject.toml Cargo.toml Cargo.lock .cargo crates -newer "$stamp" \
        \( -name '*.rs' -o -name '*.[ch]' -o -name '*.toml' -o -name Cargo.lock \) 2>/dev/null | head -1
}
wanted=$(requirements)
packages=$(printf '%s\n' "$wanted" "$otava" | cksum | tr ' ' -)
if there && [ "$(had kind)" = $kind ] && [ "$(had features)" = "$features" ] && [ "$(had packages)" = "$packages" ] &&
    [ -z "$(changed)" ]; then
    exit 0
fi

began=$(date +%s)
scratch=$(mktemp -d)
building=
tidy() {
    [ -z "$building" ] || kill "$building" 2>/dev/null || true
    rm -rf "$scratch"
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Nothing is compiled to bytecode: Python does that with the few modules that are ever imported.
if command -v uv >/dev/null; then
    [ -x .venv/bin/python ] || uv venv --quiet --python "$(command -v "$python")" .venv || die "uv cannot make .venv" "uv venv .venv"
    install() { uv pip install --quiet --python .venv/bin/python "$@"; }
else
    [ -x .venv/bin/python ] || "$python" -m venv --without-pip .venv ||
        die "$python cannot make a virtual environment" "apt-get install python3-venv"
    # Also where uv made it, which leaves pip out.
    .venv/bin/python -c 'import pip' 2>/dev/null || .venv/bin/python -m ensurepip >"$scratch/log" 2>&1 ||
        die "$(tail -n 1 "$scratch/log")" "apt-get install python3-venv"
    install() { PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
fi

build() { # all that is Rust, one after the other: they share what they build, and cargo fills the CPUs by itself
    mkdir -p target/wheel-data # named in pyproject.toml
    .venv/bin/maturin develop --quiet --release --skip-install || return
    # shellcheck disable=SC2046,SC2086 # lists
    cargo build --quiet --release $(printf -- '--package %s ' $programs) ${features:+--features contend-probe/$features}
}
failed() {
    building=
    cat "$scratch/built" >&2
    die "contend cannot be built" "the compiler's words are above"
}

printf '%s\n' "$wanted" >"$scratch/requirements"
echo "setup: building contend's module, $(echo $programs | sed 's/ /, /g')${features:+ with BPF}"
if [ "$(had packages)" != "$packages" ] || ! .venv/bin/maturin --version >/dev/null 2>&1; then
    install "$(grep '^maturin' "$scratch/requirements")"
    build >"$scratch/built" 2>&1 &
    building=$!
    echo "setup: installing Python packages into .venv"
    install --requirement "$scratch/requirements"
    [ $kind = demo ] || install --no-deps "$otava"
    wait "$building" || failed
    building=
else
    build >"$scratch/built" 2>&1 || failed
fi
# Its module is built already, so that this only links the checkout.
install --no-build-isolation --no-deps --editable .
for program in $programs; do
    # In place of the old one as a whole: it may be running.
    cp "${CARGO_TARGET_DIR:-target}/release/$program" ".venv/bin/.$program.new"
    mv ".venv/bin/.$program.new" ".venv/bin/$program"
done
printf '%s\n' kind=$kind "features=$features" "packages=$packages" >"$stamp"
echo "setup: done in $(($(date +%s) - began)) s"
