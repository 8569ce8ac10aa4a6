#!/bin/sh
# Builds what a release publishes, into dist/: a source archive and wheels of contend and its three programs. The wheels run
# on every Linux with glibc 2.28 or newer: zig links against that, and of libelf and zlib the probe has Debian 12's in it.
#   dist.sh                for x86_64, and for aarch64 where this Rust can build for it (rustup target add
#                          aarch64-unknown-linux-gnu): there without BPF, and untried
#   dist.sh --native [PACKAGE…]    for this host alone: with its compiler and libraries, from what setup.sh has built
# The same commit gives the same bytes. Needs network, and mmdebstrap unless --native.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "error: $1" >&2
    echo "  hint: $2" >&2
    exit 1
}

GLIBC=2_28
SUITE=bookworm # of libelf and zlib: built against a glibc that zig can stand in for
work=$PWD/target/dist
native=
packages=
out=$PWD/dist
while [ $# -gt 0 ]; do
    case "$1" in
    --native) native=yes ;;
    --out) out=$(mkdir -p "$2" && cd "$2" && pwd) && shift ;;
    contend | contend-*) packages="$packages $1" ;;
    *) die "dist.sh does not know $1" "dist.sh [--native] [--out DIR] [PACKAGE…]" ;;
    esac
    shift
done
: "${packages:=contend contend-probe contend-fetch contend-rpc}"
mkdir -p "$out" "$work"

# Times in archives are the commit's; a tree without git says so itself.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} ||
    die "no commit to date the archives by" "set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH

manifest() { # $1: package
    case "$1" in
    contend) echo crates/python/Cargo.toml ;;
    *) echo "crates/${1#contend-}/Cargo.toml" ;;
    esac
}
notices() { # $1: package, $2: features
    case "$1" in
    contend) into=. ;;
    *) into=crates/${1#contend-} ;;
    esac
    python3 scripts/notices.py "$1" --features "$2" >"$into/.notices" && mv "$into/.notices" "$into/THIRD-PARTY.txt"
}

if [ -n "$native" ]; then
    python=.venv/bin/python
    features=$(sed -n 's/^features=//p' .venv/contend-setup.stamp)
    $python scripts/backend.py all
    for package in $packages; do
        of=
        [ $package != contend-probe ] || of=$features
        notices $package "$of"
        # auditwheel would bundle what the probe links: of this host it is there.
        .venv/bin/maturin build --quiet --release --locked --manifest-path "$(manifest $package)" --compatibility linux \
            --auditwheel skip ${of:+--features $of} --out "$out"
    done
    exit 0
fi

tools=$work/tools
wanted=$(sed -n '/^dist = \[/,/^\]/s/^ *"\([^"]*\)".*/\1/p' pyproject.toml)
if [ "$(cat "$tools/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    # shellcheck disable=SC2086 # a list
    "$tools/bin/pip" install --quiet --disable-pip-version-check $wanted
    printf '%s\n' "$wanted" >"$tools/wanted"
fi
"$tools/bin/python" scripts/backend.py all
PATH=$tools/bin:$PATH

command -v mmdebstrap >/dev/null || die "no mmdebstrap, for Debian's libelf and zlib" "apt-get install mmdebstrap debian-archive-keyring"
if [ ! -e "$work/debian/libelf.a" ]; then
    root=$work/debian.root
    rm -rf "$work/debian" "$root"
    mmdebstrap --quiet --variant=extract --architectures=amd64 --include=libelf-dev,zlib1g-dev,linux-libc-dev \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$SUITE" "$root"
    mkdir -p "$work/debian/include" "$work/debian/kernel"
    mv "$root/usr/include/libelf.h" "$root/usr/include/gelf.h" "$root/usr/include/zlib.h" "$root/usr/include/zconf.h" \
        "$work/debian/include/"
    mv "$root/usr/include/x86_64-linux-gnu/asm" "$work/debian/kernel/asm"
    mv "$root/usr/lib/x86_64-linux-gnu/libz.a" "$root/usr/lib/x86_64-linux-gnu/libelf.a" "$work/debian/"
    rm -rf "$root"
fi

# Where they were built is nothing that a program should say.
from=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$PWD=/contend --remap-path-prefix=$from=/cargo"
CFLAGS="-ffile-prefix-map=$PWD=/contend -ffile-prefix-map=$from=/cargo"
export CFLAGS
export CARGO_TARGET_DIR="$work/target"

wheels() { # $1: an architecture
    echo "dist: wheels for $1"
    for package in $packages; do
        # BPF programs are compiled and linked on a host of their architecture only.
        of=
        [ "$package" != contend-probe ] || [ "$1" != x86_64 ] || of=static
        notices "$package" "$of"
        env CONTEND_BPF_INCLUDE="$work/debian/kernel" LIBBPF_SYS_EXTRA_CFLAGS="-I$work/debian/include" \
            LIBBPF_SYS_LIBRARY_PATH="$work/debian" maturin build --quiet --release --strip --locked --zig \
            --target "$1-unknown-linux-gnu" --compatibility "manylinux_$GLIBC" \
            --manifest-path "$(manifest "$package")" ${of:+--features $of} --out "$work/wheels"
    done
    for wheel in "$work/wheels"/*.whl; do # bills of materials name the directory
        rm -rf "$work/unpacked"
        "$tools/bin/wheel" unpack --dest "$work/unpacked" "$wheel" >/dev/null
        sed -i "s|file://$PWD/|file:///contend/|g" "$work/unpacked"/*/*.dist-info/sboms/*.json
        "$tools/bin/wheel" pack --dest-dir "$out" "$work/unpacked"/* >/dev/null
        rm -rf "$wheel" "$work/unpacked"
    done
}
rm -rf "$work/wheels"
wheels x86_64
if [ -d "$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu" ]; then
    wheels aarch64
else
    echo "dist: none for aarch64: this Rust has no aarch64-unknown-linux-gnu" >&2
fi
for package in $packages; do
    maturin sdist --manifest-path "$(manifest $package)" --out "$out"
done
