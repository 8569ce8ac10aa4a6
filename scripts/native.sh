#!/bin/sh
# Builds the native module for free-threaded Pythons, which cannot load the one of .venv (they have no stable ABI), into
# python/contend beside it: scripts/native.sh python3.14t…   Idempotent; the packages of a wheel are built by pip.
set -eu
cd "$(dirname "$0")/.."
for python in "$@"; do
    suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX") or "")')
    "$python" -c 'import sys; sys.exit("t" not in sys.abiflags)' || {
        echo "error: $python is not free-threaded: it loads python/contend/_native.abi3.so" >&2
        exit 1
    }
    target=${CARGO_TARGET_DIR:-target}/free-threaded
    # As maturin has it: the interpreter brings its own symbols.
    PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$(command -v "$python") cargo build --quiet --release --package contend-python --target-dir "$target"
    # In place of the old one as a whole: a program may have it open.
    cp "$target/release/lib_native.so" python/contend/.native.new
    mv python/contend/.native.new "python/contend/_native$suffix"
    echo "native: python/contend/_native$suffix"
done
