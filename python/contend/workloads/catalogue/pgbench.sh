# pgbench.sh prepare WORK SCALE PORT | serve WORK ADDRESS PORT | load WORK ADDRESS PORT OPTION...: PostgreSQL and its clients, all
# of it in WORK. Every trial begins with the same files: a copy of those that `prepare` has made.
set -eu
verb=$1
cd "$2"
shift 2
# The newest of those that the distribution keeps beside each other, else what is on PATH.
for place in $(ls -dr /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -rn) ''; do
    [ -z "$place" ] || [ -x "$place/initdb" ] || continue
    PATH=$place${place:+:}$PATH
    break
done
command -v initdb >/dev/null || { echo "no initdb on PATH or in /usr/lib/postgresql: apt-get install postgresql" >&2; exit 1; }
# PostgreSQL refuses root; its own user cannot read below a private directory: it may here.
as=
[ "$(id -u)" -ne 0 ] || as='setpriv --reuid=postgres --regid=postgres --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override'

server() { # OPTION...: in this process' place. Its socket stays out of the way: addresses of sockets are short.
    # shellcheck disable=SC2086 # several words, or none
    exec $as postgres -D "$PWD/data" -c unix_socket_directories= -c fsync=on -c max_connections=100 "$@"
}

case $verb in
prepare)
    rm -rf data fresh # of a run that was interrupted here
    mkdir -m 700 data
    [ -z "$as" ] || chown postgres: data
    # shellcheck disable=SC2086
    $as initdb -D "$PWD/data" -U contend -A trust -N --no-instructions >initdb.log 2>&1 || { tail -n 2 initdb.log >&2; exit 1; }
    server -c listen_addresses=127.0.0.1 -p "$2" >prepare.log 2>&1 &
    pid=$!
    until psql -h 127.0.0.1 -p "$2" -U contend -c 'SELECT 1' postgres >psql.log 2>&1; do
        kill -0 "$pid" 2>/dev/null || { tail -n 1 prepare.log >&2; exit 1; }
        sleep 0.05
    done
    pgbench -h 127.0.0.1 -p "$2" -U contend -i -q -s "$1" postgres >pgbench.log 2>&1 || { kill "$pid"; tail -n 1 pgbench.log >&2; exit 1; }
    kill -INT "$pid"
    wait "$pid" || true
    mv data fresh
    ;;
serve)
    rm -rf data
    cp -a fresh data
    server -c "listen_addresses=$1" -p "$2"
    ;;
load)
    address=$1 port=$2
    shift 2
    [ "$(id -u)" -ne 0 ] || export HOME=/ # no password file of root's
    case " $* " in *" -R 0 "*) set -- $(echo " $* " | sed 's/ -R 0 / /') ;; esac
    exec pgbench -h "$address" -p "$port" -U contend -j "$(nproc)" "$@" postgres
    ;;
esac
