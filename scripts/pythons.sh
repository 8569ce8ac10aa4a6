#!/bin/sh
# Builds CPython from an archive of its source, once with its lock (GIL) and once without, for tests under versions that
# the system has not:   scripts/pythons.sh Python-3.14.4.tar.xz /opt/pythons   makes /opt/pythons/3.14 and 3.14t, about
# four minutes each on two CPUs. Then: export CONTEND_TEST_PYTHONS=/opt/pythons/3.14/bin/python3.14:…; of the
# free-threaded one also scripts/native.sh. Headers it needs: libssl-dev libffi-dev zlib1g-dev libsqlite3-dev libbz2-dev
# liblzma-dev.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: pythons.sh ARCHIVE DIRECTORY" >&2
    exit 2
fi
archive=$(realpath "$1")
mkdir -p "$2"
place=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xf "$archive"
source=$(dirname "$(ls "$scratch"/*/configure)")
version=$(sed -n 's/^#define PY_M[A-Z]*_VERSION[^0-9]*\([0-9]*\).*/\1/p' "$source/Include/patchlevel.h" | head -2 | paste -sd.)
for kind in "" t; do
    mkdir "$scratch/build$kind"
    cd "$scratch/build$kind"
    "$source/configure" -q --prefix="$place/$version$kind" ${kind:+--disable-gil} CFLAGS="-O2 -g0" >/dev/null
    make -s -j"$(nproc)" >/dev/null 2>&1
    make -s altinstall >/dev/null 2>&1
    echo "python: $place/$version$kind/bin/python$version$kind"
done
