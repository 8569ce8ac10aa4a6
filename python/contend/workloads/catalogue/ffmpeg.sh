# transcode.sh WORK PIECES THREADS PRESET OUT: the clip in WORK by this very process, or all of its pieces at once, each by
# a process of its own. OUT is a directory, or - to go round for ever and write nothing.
set -eu
cd "$1"
pieces=$2 threads=$3 preset=$4 out=$5
few=
[ "$threads" = default ] || few='-threads 1 -filter_threads 1'

# shellcheck disable=SC2046,SC2086 # several arguments each, or none
transcode() { # PIECE
    if [ "$out" = - ]; then
        exec ffmpeg -nostdin -v error $few -stream_loop -1 -i "$1" \
            -an -c:v libx265 -preset "$preset" $(cat "$threads.args") -f null -
    fi
    exec ffmpeg -nostdin -v error -y $few -i "$1" \
        -an -c:v libx265 -preset "$preset" $(cat "$threads.args") "$out/${2:-${1##*/}}"
}

[ "$pieces" -ne 1 ] || transcode clip.mp4 out.mp4
started=
for piece in pieces/*.mp4; do
    transcode "$piece" &
    started="$started $!"
done
failed=0
for pid in $started; do
    wait "$pid" || failed=1
done
exit "$failed"
