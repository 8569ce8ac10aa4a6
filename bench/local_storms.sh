#!/bin/sh
# Storms of this host's own machines, for docs/results/local-storms.md: containers of podman without and with its default
# network, of runc, and micro-VMs of QEMU. Wants a quiet machine and root; three to ten minutes. Runs stay in RUNS
# (./runs), each with its page; `contend report RUNS/NAME` shows one again.
#
#   bench/local_storms.sh [RUNS]
set -eu
runs=${1:-runs}
contend=${CONTEND:-contend}
storm() { # name, then settings
    name=$1
    shift
    # shellcheck disable=SC2046 # words
    "$contend" run boot-storm --cloud local --runs "$runs" --name "$name" --seed 7 --set measure.target=null \
        $(printf -- '--set %s ' "$@")
}
storm podman parameters.engine=podman 'n=[1,2,5,10,20]' measure.blocks=6
storm podman-network parameters.engine=podman 'n=[1,5]' 'network=[none,auto]' measure.blocks=6
storm runc parameters.engine=runc 'n=[1,2,5,10,20]' measure.blocks=6
storm qemu parameters.engine=qemu 'n=[1,2,4]' measure.blocks=4
