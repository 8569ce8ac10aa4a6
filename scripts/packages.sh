#!/bin/sh
# Installs the Debian packages of programs that are missing: `packages.sh setup` what building all of contend needs,
# `demo` what building it without BPF and the demo need, `test` what all tests run, `accept` the campaigns besides, `bench`
# the peers too, `dist` what wheels are built with. Says what it installs; silent when nothing is missing. NO_APT=1 installs nothing and says what is left
# out. No service is started meanwhile. Exit status 0 also when something is left out, so that the demo runs with the
# rest; with `test` and CI=true something missing is a failure.
set -eu

# package:program[:what is left out without it]
BASE='
python3-venv:/usr/share/doc/python3-venv:installing contend
gcc:cc:building contend, workloads mpi-*
libc6-dev:/usr/include/stdio.h:building contend, workloads mpi-*
'
SETUP="$BASE"'
clang:clang:probes by BPF
libelf-dev:/usr/include/libelf.h:probes by BPF
zlib1g-dev:/usr/include/zlib.h:probes by BPF
'
DEMO="$BASE"'
ffmpeg:ffmpeg:workload ffmpeg
fio:fio:workload fio
nginx-light:nginx:workload nginx
wrk:wrk:workload nginx
stress-ng:stress-ng:workloads stress-*
iproute2:ip:network placement
'
TEST="$DEMO$SETUP"'
sysbench:sysbench:workloads sysbench-*
hyperfine:hyperfine:tests of imported results
redis-server:redis-server:workload redis
redis-tools:redis-benchmark:workload redis
iperf3:iperf3:workload iperf3
openmpi-bin:mpirun:workloads mpi-*
libopenmpi-dev:mpicc:workloads mpi-*
runc:runc:platform container
podman:podman:platform container
chromium:chromium:tests of the report page
sysstat:pidstat:cross-checks with pidstat
linux-perf:perf:cross-checks with perf, and what histograms cost a pipe
rabbitmq-server:/usr/lib/rabbitmq/bin/rabbitmq-server:tests of traced messages
mariadb-server:mariadbd:tests of the OpenStack test bed, workload wordpress
apache2-bin:apache2:workload wordpress
apache2-utils:ab:workload wordpress
libapache2-mod-php:/usr/share/doc/libapache2-mod-php:workload wordpress
php-mysql:/usr/share/doc/php-mysql:workload wordpress
postgresql:/usr/share/doc/postgresql:workload pgbench
wordpress:/usr/share/wordpress/wp-settings.php:workload wordpress
wordpress-theme-twentytwentythree:/usr/share/wordpress/wp-content/themes/twentytwentythree:workload wordpress
qemu-system-x86:qemu-system-x86_64:micro-VMs of this host
busybox-static:busybox:micro-VMs of this host
qemu-utils:qemu-img:platform vm, and guests of the OpenStack test bed
genisoimage:genisoimage:guests of the OpenStack test bed
dropbear-bin:dropbear:guests of the OpenStack test bed that are logged in to
mmdebstrap:mmdebstrap:platform vm
e2fsprogs:debugfs:platform vm
libvirt-clients:virsh:virtual machines of this host by libvirt
libvirt-daemon:libvirtd:virtual machines of this host by libvirt
libvirt-daemon-driver-qemu:/usr/share/doc/libvirt-daemon-driver-qemu:virtual machines of this host by libvirt
python3-libvirt:/usr/lib/python3/dist-packages/libvirt.py:tests of traced libvirt calls
'
ACCEPT="$TEST"'
openjdk-17-jre-headless:java:workloads terasort, terasort-cluster and cassandra
maven:mvn:workloads terasort, terasort-cluster and cassandra
linux-source:/usr/share/doc/linux-source:workload kernel-build
flex:flex:workload kernel-build
bison:bison:workload kernel-build
bc:bc:workload kernel-build
xz-utils:xz:workload kernel-build
'
# atop brings a service that records from the next boot on: not for those who only run tests.
BENCH="$TEST"'
hyperfine:hyperfine:benchmarks against hyperfine
atop:atop:benchmarks against atop
libbpf-tools:runqlat:benchmarks against runqlat, cpudist and offcputime
'
DIST="$SETUP"'
mmdebstrap:mmdebstrap:wheels
debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg:wheels
umoci:umoci:the OCI image
'
POLICY=/usr/sbin/policy-rc.d

# A normal user's PATH lacks the directories of nginx, ip and runc.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

case "${1:-}" in
setup) wanted=$SETUP ;;
demo) wanted=$DEMO ;;
test) wanted=$TEST ;;
accept) wanted=$ACCEPT ;;
bench) wanted=$BENCH ;;
dist) wanted=$DIST ;;
*)
    echo "usage: packages.sh setup|demo|test|accept|bench|dist" >&2
    exit 2
    ;;
esac

present() { # a program on PATH, or a path that exists
    case "$1" in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Lines of $wanted whose program is not there.
lacking() {
    printf '%s' "$wanted" | while IFS=: read -r package program without; do
        [ -n "$package" ] || continue
        # Any Python that can make an environment will do, Debian's or not.
        [ "$package" = python3-venv ] && python3 -c 'import ensurepip, venv' 2>/dev/null && continue
        present "$program" || printf '%s:%s\n' "$package" "$without"
    done
}

leave_out() { # $1: why
    echo "packages: $1; left out:" >&2
    lacking | sort -u -t: -k2 | while IFS=: read -r package without; do
        echo "  $without (needs $package)" >&2
    done
    echo "  hint: apt-get install $(echo "$missing" | tr '\n' ' ')" >&2
    if [ "$wanted" = "$TEST" ] && [ "${CI:-}" = true ]; then
        exit 1
    fi
    exit 0
}

missing=$(lacking | cut -d: -f1 | sort -u)
[ -n "$missing" ] || exit 0
[ "${NO_APT:-0}" != 1 ] || leave_out "NO_APT=1"
command -v apt-get >/dev/null 2>&1 || leave_out "no apt-get on this system"
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root='sudo -n'
else
    leave_out "not root, and sudo wants a password"
fi

# A machine that CI makes is thrown away after a crash: no file is waited for until the disk has it.
quick=
[ "${CI:-}" != true ] || quick='-o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0'
# shellcheck disable=SC2086 # $as_root is zero words or two, $quick zero or four
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=900 $quick "$@"
}

# Debian asks policy-rc.d before a package's script starts a service; 101 means no. One that exists is somebody's
# decision and stays. It does not keep systemd from starting the service at the next boot: that is the
# administrator's to decide (systemctl disable nginx redis-server).
made_policy=
# shellcheck disable=SC2086,SC2317,SC2329 # as above; called by trap
tidy() {
    [ -z "$made_policy" ] || $as_root rm -f "$POLICY"
    made_policy=
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ ! -e "$POLICY" ] && [ ! -L "$POLICY" ]; then
    made_policy=yes
    # shellcheck disable=SC2016,SC2086
    $as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$POLICY"
fi

echo "packages: installing $(echo "$missing" | tr '\n' ' ')(no service is started)"
log=$(mktemp)
# shellcheck disable=SC2086 # a list
if ! apt install --simulate --no-install-recommends $missing >"$log" 2>&1; then
    echo "packages: apt-get update"
    apt update >"$log" 2>&1 || true # the install below tells whether it mattered
fi
# shellcheck disable=SC2086
if ! apt install -y --no-install-recommends $missing >"$log" 2>&1; then
    # Lists older than the archive name packages that are gone.
    apt update >>"$log" 2>&1 || true
    # shellcheck disable=SC2086
    if ! apt install -y --no-install-recommends $missing >>"$log" 2>&1; then
        tail -n 5 "$log" >&2
        rm -f "$log"
        missing=$(lacking | cut -d: -f1 | sort -u)
        leave_out "apt-get failed"
    fi
fi
rm -f "$log"
missing=$(lacking | cut -d: -f1 | sort -u)
[ -z "$missing" ] || leave_out "still missing after apt-get"
