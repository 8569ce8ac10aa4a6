# kernel-build.sh fetch WORK CACHE | prepare WORK TARGET JOBS | build WORK TARGET JOBS: a part of Linux, built in WORK from
# sources that stay as they are, in CACHE.
set -eu
verb=$1
cd "$2"
shift 2
case $verb in
fetch)
    # The newest: /usr/src/linux-source-6.1.tar.xz, or as Ubuntu has it /usr/src/linux-source-6.8.0/linux-source-6.8.0.tar.bz2.
    archive=$(find /usr/src -maxdepth 2 -name 'linux-source-*.tar.*' | sort -V | tail -n 1)
    [ -n "$archive" ] || { echo "no /usr/src/linux-source-*.tar.*: apt-get install linux-source" >&2; exit 1; }
    tree=$1/$(basename "${archive%.tar.*}")-$(stat -c %Y "$archive")
    if [ ! -d "$tree" ]; then
        # By a name of its own: two runs may unpack at the same time, and the first to be done is as good as the other.
        part=$tree.$$
        mkdir -p "$part"
        trap 'rm -rf "$part"' EXIT
        tar -xf "$archive" -C "$part" --strip-components=1
        mv -T "$part" "$tree" 2>/dev/null || [ -d "$tree" ]
    fi
    ln -sfn "$tree" tree
    ;;
prepare)
    rm -rf built
    make -C tree O="$PWD/built" tinyconfig >prepare.log 2>&1 || { tail -n 2 prepare.log >&2; exit 1; }
    make -C tree O="$PWD/built" -j "$2" prepare >>prepare.log 2>&1 || { tail -n 2 prepare.log >&2; exit 1; }
    ;;
build)
    target=$1 jobs=$2
    case $target in
    */) find "built/$target" -name '*.o' -delete 2>/dev/null || true ;;
    *) find built -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete ;;
    esac
    exec make -C tree O="$PWD/built" -j "$jobs" -s "$target"
    ;;
esac
