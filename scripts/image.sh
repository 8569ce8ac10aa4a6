#!/bin/sh
# Builds an OCI image of the Debian package in dist/, without a daemon and without root: Debian 12, contend, and the load
# generators that it looks for first. It is a snapshot of Debian's archive of the day.
#   podman run --rm --privileged --pid=host --network=host -v /sys:/sys oci-archive:dist/contend-X.oci.tar watch
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
package=$(ls "$out/contend_$version~bookworm_amd64.deb")
layout=$PWD/target/dist/image
rm -rf "$layout" "$layout.tar"
mmdebstrap --quiet --variant=minbase --include=python3,iproute2,fio,stress-ng,ca-certificates \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    --customize-hook="copy-in $package /tmp" --customize-hook='chroot "$1" sh -c "dpkg --install /tmp/contend_*.deb && rm /tmp/contend_*.deb"' \
    --customize-hook='rm -rf "$1"/usr/share/man "$1"/usr/share/locale "$1"/var/cache/apt' \
    bookworm "$layout.tar"
umoci init --layout "$layout"
umoci new --image "$layout:contend"
umoci raw add-layer --image "$layout:contend" --history.created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" "$layout.tar"
umoci config --image "$layout:contend" --created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" --architecture amd64 --os linux \
    --config.entrypoint contend --config.cmd --help --config.workingdir /runs \
    --config.env PATH=/usr/sbin:/usr/bin:/sbin:/bin --config.label "org.opencontainers.image.title=contend" \
    --config.label "org.opencontainers.image.version=$version" --config.label org.opencontainers.image.licenses=Apache-2.0
tar -C "$layout" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf "$out/contend-$version.oci.tar" .
rm -rf "$layout" "$layout.tar"
