#!/bin/sh
# Runs a command and prints the time it took: scripts/timed.sh NAME COMMAND…   (children it waited for are counted)
set -u
name=$1
shift
began=$(date +%s)
"$@"
code=$?
wall=$(($(date +%s) - began))
took=$(mktemp)
times >"$took" # not in a pipe: a subshell has no children yet
# The second line is the children's: 1m2.34s (user) 0m5.60s (system).
awk -v name="$name" -v wall="$wall" 'NR == 2 { gsub(/s/, ""); split($1, u, "m"); split($2, s, "m")
    printf "took: %s %d s, CPU %.0f s\n", name, wall, u[1] * 60 + u[2] + s[1] * 60 + s[2] }' "$took"
rm -f "$took"
exit $code
