#!/bin/sh
# An environment as `python3 -m venv` makes one, for another root: environment.sh PYTHON ROOT PREFIX WHEELS REQUIREMENT…
# is one for the Python /usr/bin/pythonPYTHON of ROOT, at PREFIX in it. Wheels are those in WHEELS and of the index.
set -eu
python=$1 root=$2 prefix=$3 wheels=$4
shift 4
home=$root$prefix
site=$home/lib/python$python/site-packages
mkdir -p "$home/bin"
tree=$(dirname "$0")/..
for uv in "$tree/target/dist/tools/bin/uv" "$tree/.venv/bin/uv" uv; do
    [ ! -x "$uv" ] || break
done
# A wheel that was built again has the name of the one before it, by which uv keeps what it unpacked.
again=
for wheel in "$wheels"/*.whl; do
    name=${wheel##*/}
    again="$again --refresh-package ${name%%-*}"
done
# shellcheck disable=SC2086 # names have no blanks
"$uv" pip install $again --quiet --link-mode copy --target "$site" --python-version "$python" --python-platform x86_64-manylinux_2_28 \
    --only-binary :all: --no-compile --find-links "$wheels" "$@"
ln -sf "/usr/bin/python$python" "$home/bin/python$python"
ln -sf "python$python" "$home/bin/python3"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$python" >"$home/pyvenv.cfg"
for program in contend-probe contend-fetch contend-rpc; do
    [ ! -e "$site/bin/$program" ] || mv "$site/bin/$program" "$home/bin/"
done
if [ -e "$site/bin/contend" ]; then
    printf '#!%s/bin/python3\nfrom contend.cli import main\n\nmain()\n' "$prefix" >"$home/bin/contend"
    chmod 755 "$home/bin/contend"
fi
# Where it installs for another root uv puts what belongs beside lib/ into it.
[ ! -d "$site/share" ] || mv "$site/share" "$home/"
rm -rf "$site/bin" "$site/.lock"
# uv notes when a wheel of a folder was made, by which it knows another of its name: no part of what was installed.
rm -f "$site"/*.dist-info/uv_cache.json
sed -i '/\/uv_cache\.json,/d' "$site"/*.dist-info/RECORD
