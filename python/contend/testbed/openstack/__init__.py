"""A real OpenStack on the loopback device, without systemd: what contend is tried on where there is no cloud."""
