# wordpress.sh prepare WORK | serve WORK OUT: WordPress on Apache with PHP and a MariaDB of its own, all of it in WORK.
# Every trial begins with the same database: a copy of the one that `prepare` has made. What a trial leaves is thrown away.
set -eu
cd "$2"
# Socket addresses hold 107 characters, and WORK may be longer: this one is relative, to the database's directory and to
# the site's. The directory is for this user alone: the database's superuser has no password.
SOCKET=db/socket

database() { # OPTION...
    exec mariadbd --no-defaults --datadir="$PWD/db" --socket=socket --pid-file="$PWD/db/pid" --skip-networking \
        --user="$(id -un)" --innodb-log-file-size=8M --max-connections=1000 "$@"
}

wait_for() { # FILE PID LOG
    until [ -e "$1" ]; do
        kill -0 "$2" 2>/dev/null || { tail -n 1 "$3" >&2; exit 1; }
        sleep 0.02
    done
}

case $1 in
prepare)
    set -- /usr/lib/apache2/modules/libphp*.so
    [ -e "$1" ] || { echo "Apache has no PHP: apt-get install libapache2-mod-php" >&2; exit 1; }
    rm -rf db fresh # of a run that was interrupted here
    mkdir -m 700 db
    mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$PWD/db" --skip-test-db \
        --auth-root-authentication-method=normal --innodb-log-file-size=8M >install-db.log 2>&1 ||
        { tail -n 3 install-db.log >&2; exit 1; }
    database --init-file="$PWD/database.sql" >database.log 2>&1 &
    pid=$!
    wait_for "$SOCKET" "$pid" database.log
    (cd site && php -d mysqli.default_socket="../$SOCKET" ../install.php) >install.log 2>&1 || {
        kill "$pid"
        tail -n 3 install.log >&2
        exit 1
    }
    kill "$pid"
    wait "$pid"
    mv db fresh
    ;;
serve)
    out=$3
    rm -rf db "$out/serves"
    cp -r fresh db
    database >"$out/database.log" 2>&1 &
    wait_for "$SOCKET" $! "$out/database.log"
    # It serves when it has made the page; that has also read the programs and the database into memory.
    (
        until php ready.php >"$out/page.html" 2>"$out/ready.err"; do
            kill -0 $$ 2>/dev/null || exit
            sleep 0.05
        done
        touch "$out/serves"
    ) &
    # Apache serves no pages as root, and www-data cannot read below a private directory: it may here.
    as=
    [ "$(id -u)" -ne 0 ] ||
        as='setpriv --reuid=www-data --regid=www-data --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override'
    set -- /usr/lib/apache2/modules/libphp*.so
    # In this process' place: any other than a session's leader would begin a session of its own.
    # shellcheck disable=SC2086 # several words, or none
    exec $as apache2 -D FOREGROUND -f "$PWD/apache.conf" -C "LoadModule php_module $1" -C "PidFile '$out/apache.pid'" \
        -C "ErrorLog '$out/apache.log'"
    ;;
esac
