"""`contend sample`: the host and its processes, recorded while a command runs or for a time."""
