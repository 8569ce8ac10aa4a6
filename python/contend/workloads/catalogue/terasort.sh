# terasort.sh fetch WORK CACHE RELEASE | sort WORK OUT ROWS MAPS HEAP: Hadoop's three programs, one after the other, in OUT. The
# time of each is told as JSON; rows out of order, or too few, are an error.
set -eu
verb=$1
cd "$2"
shift 2

give() { # FILE... DIRECTORY: links, where the file system is the same
    cp -lLf "$@" 2>/dev/null || cp -Lf "$@"
}

case $verb in
fetch)
    lib=$1/hadoop-client-$2
    if [ ! -d "$lib" ]; then
        command -v mvn >/dev/null || { echo "no mvn to download Hadoop with: apt-get install maven" >&2; exit 1; }
        rm -rf "$lib.part"
        mvn -q -B -f pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib.part" >mvn.log 2>&1 || {
            echo "mvn could not download Hadoop $2: $(grep -m 1 ERROR mvn.log)" >&2
            exit 1
        }
        mv "$lib.part" "$lib"
    fi
    mkdir -p lib
    give "$lib"/*.jar lib
    ;;
sort)
    out=$1 rows=$2 maps=$3 heap=$4
    rm -rf "$out/made" "$out/sorted" "$out/report" "$out/tmp"
    mkdir -p "$out/tmp"
    told='{'
    for program in teragen terasort teravalidate; do
        case $program in
        teragen) set -- -Dmapreduce.job.maps="$maps" "$rows" "$out/made" ;;
        terasort) set -- -Dmapreduce.job.reduces=1 "$out/made" "$out/sorted" ;;
        teravalidate) set -- "$out/sorted" "$out/report" ;;
        esac
        began=$(date +%s.%N)
        java -Xmx"$heap"m --add-opens=java.base/java.lang=ALL-UNNAMED -Djava.io.tmpdir="$out/tmp" -cp "$PWD/lib/*" \
            org.apache.hadoop.examples.ExampleDriver "$program" -Dfs.defaultFS=file:/// -Dmapreduce.framework.name=local \
            -Dhadoop.tmp.dir="$out/tmp" -Dmapreduce.local.map.tasks.maximum="$maps" "$@" >"$out/$program.log" 2>&1 || {
            grep -m 1 -i 'exception\|error' "$out/$program.log" >&2 || tail -n 1 "$out/$program.log" >&2
            exit 1
        }
        told="$told\"${program}_s\": $(awk "BEGIN { print $(date +%s.%N) - $began }"),"
    done
    # All of them sorted is a checksum alone: what is out of order has a row of its own.
    grep -q '^checksum' "$out/report/part-r-00000" || { echo "no checksum of the sorted rows" >&2; exit 1; }
    if grep -q '^error' "$out/report/part-r-00000"; then
        echo "rows are out of order: $(grep -m 1 '^error' "$out/report/part-r-00000")" >&2
        exit 1
    fi
    size=$(stat -c %s "$out/sorted/part-r-00000")
    [ "$size" -eq $((rows * 100)) ] || { echo "$size bytes were sorted, not $((rows * 100))" >&2; exit 1; }
    rm -rf "$out/made" "$out/sorted" "$out/tmp"
    echo "$told\"rows\": $rows}"
    ;;
esac
