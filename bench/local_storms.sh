#!/bin/sh
# Storms of this host's own machines, for docs/results/local-storms.md: containers of podman without and with its default
# network, of runc, and micro-VMs of QEMU. Wants a quiet machine and root; three to ten minutes.
#
#   bench/local_storms.sh
set -eu
common="boot-storm --cloud local --seed 7 --set measure.target=null"
# shellcheck disable=SC2086 # words
exec "$(dirname "$0")/../.venv/bin/python" "$(dirname "$0")/kept_run.py" local-storms \
    -- $common --name podman --set parameters.engine=podman --set 'n=[1,2,5,10,20]' --set measure.blocks=6 \
    -- $common --name podman-network --set parameters.engine=podman --set 'n=[1,5]' --set 'network=[none,auto]' \
        --set measure.blocks=6 \
    -- $common --name runc --set parameters.engine=runc --set 'n=[1,2,5,10,20]' --set measure.blocks=6 \
    -- $common --name qemu --set parameters.engine=qemu --set 'n=[1,2,4]' --set measure.blocks=4
