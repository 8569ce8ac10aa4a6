"""Machines of this host: containers of podman, docker, runc or crun, and micro-VMs of QEMU, made at once and timed."""
