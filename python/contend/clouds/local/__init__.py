"""Machines of this host: containers of podman, docker, runc or crun,
micro-VMs of QEMU and domains of libvirt, made at once and timed.
"""
