# cassandra.sh fetch WORK CACHE SERVER LOADER | prepare WORK PORT | serve WORK PORT: one node of Cassandra, all of it in WORK.
# Every trial begins with the same files: a copy of those that a node has which has started once and was ended in order.
set -eu
cd "$2"

node() { # PORT OPTION...: in this process' place
    # Nodes speak with each other at an address that only this port's node has, so two runs never meet.
    own=127.1.$(($1 / 256)).$(($1 % 256))
    sed "s|OWN|$own|" node.yaml.in >node.yaml
    shift
    rm -rf tmp # what a node unpacks there, it leaves when it is killed
    mkdir tmp
    exec java "@$PWD/java.args" "$@" -Djava.io.tmpdir="$PWD/tmp" -Dcassandra.config="file://$PWD/node.yaml" -Dcassandra.storagedir="$PWD/data" \
        -Dlogback.configurationFile="$PWD/logback.xml" -javaagent:"$(echo lib/jamm-*.jar)" -cp 'lib/*' \
        org.apache.cassandra.service.CassandraDaemon
}

give() { # FILE... DIRECTORY: links, where the file system is the same
    cp -lLf "$@" 2>/dev/null || cp -Lf "$@"
}

case $1 in
fetch)
    cache=$3 server=$4 loader=$5
    mkdir -p lib bin
    if [ "$server" = cassandra ]; then
        # Where the archive of Apache, and where Debian's package of it, keep the jars.
        home=$(dirname "$(dirname "$(readlink -f "$(command -v cassandra)")")")
        [ -d "$home/lib" ] && [ -n "$(find "$home/lib" -name 'cassandra-*.jar')" ] || home=/usr/share/cassandra
        find -L "$home" -maxdepth 2 -name '*.jar' >jars
        grep -q '/apache-cassandra-\|/cassandra-all-' jars || { echo "no jars of Cassandra below $home" >&2; exit 1; }
    else
        lib=$cache/cassandra-$server
        if [ ! -d "$lib" ]; then
            command -v mvn >/dev/null || { echo "no mvn to download Cassandra with: apt-get install maven" >&2; exit 1; }
            rm -rf "$lib.part"
            mvn -q -B -f pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib.part" >mvn.log 2>&1 || {
                echo "mvn could not download Cassandra $server: $(grep -m 1 ERROR mvn.log)" >&2
                exit 1
            }
            mv "$lib.part" "$lib"
        fi
        find "$lib" -name '*.jar' >jars
    fi
    while read -r jar; do give "$jar" lib; done <jars
    if [ "$loader" = latte ]; then
        latte=$(command -v latte || echo "$cache/latte/bin/latte")
        if [ ! -x "$latte" ]; then
            command -v cargo >/dev/null || { echo "no cargo to build latte with: https://rustup.rs" >&2; exit 1; }
            cargo install --quiet --locked --root "$cache/latte" latte-cli@0.29.0 >cargo.log 2>&1 || {
                echo "cargo could not build latte: $(grep -m 1 '^error' cargo.log)" >&2
                exit 1
            }
        fi
        give "$latte" bin
    fi
    ;;
prepare)
    rm -rf data fresh # of a run that was interrupted here
    node "$3" >prepare.log 2>&1 &
    pid=$!
    # A listening socket (0A) at 127.0.0.1 and that port, as IPv4 or inside IPv6 shows it.
    until grep -q "$(printf '0100007F:%04X 0*:0000 0A' "$3")" /proc/net/tcp /proc/net/tcp6; do
        kill -0 "$pid" 2>/dev/null || { grep -m 1 -i 'exception\|error' prepare.log >&2 || tail -n 1 prepare.log >&2; exit 1; }
        sleep 0.1
    done
    kill "$pid"
    wait "$pid" || true # 143: it says that it was told to end
    mv data fresh
    ;;
serve)
    rm -rf data
    cp -r fresh data
    node "$3"
    ;;
esac
