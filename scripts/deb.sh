#!/bin/sh
# Builds a Debian package from the wheels in dist/, for one Debian: deb.sh bookworm|trixie. contend is in an environment of
# its own below /usr/lib/contend, for Debian lacks DuckDB; its programs, pages of the manual, completions and a unit that
# nobody starts are where Debian has them. The same wheels give the same bytes. Needs network for what the wheels ask for.
set -eu
cd "$(dirname "$0")/.."
suite=${1:?usage: deb.sh bookworm|trixie [DIR]}
out=${2:-dist}
case "$suite" in
bookworm) python=3.11 ;;
trixie) python=3.13 ;;
*)
    echo "error: no package is made for $suite" >&2
    echo "  hint: bookworm or trixie" >&2
    exit 2
    ;;
esac
minor=${python#3.}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
root=$PWD/target/dist/deb-$suite
home=$root/usr/lib/contend
rm -rf "$root"
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/contend" \
    "$root/usr/lib/systemd/system"

scripts/environment.sh "$python" "$root" /usr/lib/contend "$out" "contend[fetch,rpc]==$version"
site=$home/lib/python$python/site-packages
for program in contend contend-probe contend-fetch contend-rpc; do
    ln -s "../lib/contend/bin/$program" "$root/usr/bin/$program"
done

# What the wheel has beside its Python belongs to the system here.
mv "$home/share/man/man1"/*.1 "$root/usr/share/man/man1/"
gzip -9n "$root"/usr/share/man/man1/*
for place in bash-completion/completions/contend zsh/site-functions/_contend fish/vendor_completions.d/contend.fish; do
    into=$root/usr/share/$(echo "$place" | sed s,site-functions,vendor-completions,)
    mkdir -p "$(dirname "$into")"
    mv "$home/share/$place" "$into"
done
rm -rf "$home/share"
cp scripts/contend-watch.service "$root/usr/lib/systemd/system/"
cp LICENSE "$root/usr/share/doc/contend/copyright"
find "$site" -name THIRD-PARTY.txt | LC_ALL=C sort | xargs cat | gzip -9n >"$root/usr/share/doc/contend/THIRD-PARTY.txt.gz"
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/contend/changelog.gz"

cat >"$root/DEBIAN/control" <<END
Package: contend
Version: $version~$suite
Architecture: amd64
Maintainer: contend developers <contend@localhost>
Depends: python3 (>= $python~), python3 (<< 3.$((minor + 1))~), libc6 (>= 2.28)
Recommends: iproute2, fio, stress-ng
Suggests: ffmpeg, nginx-light, wrk, redis-server, sysbench
Section: admin
Priority: optional
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Description: what workloads on shared machines contend for
 Measures, explains and predicts what workloads on shared machines and clouds
 contend for, and what the platform under them costs: who slows whom, by how
 much, and why, with intervals that hold on noisy hosts.
END
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/contend_$version~${suite}_amd64.deb" >/dev/null
rm -rf "$root"
