"""The native core: what must cost almost nothing. Documented in crates/python/src."""

from collections.abc import Mapping, Sequence

def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdout_fd: int,
    stderr_fd: int,
    cgroup_procs: Sequence[str],
    cpus: Sequence[int] | None,
    netns: str | None,
) -> tuple[int, int]:
    """Start a process in its place; returns (pid, started_ns).

    The child leads a session of its own, reads /dev/null, enters every file of `cgroup_procs` by itself, takes
    the affinity `cpus` and the network namespace file `netns`, has default signal handling and no inherited
    descriptors, and is killed when the *thread* that called spawn ends (PR_SET_PDEATHSIG): call it from a
    thread that outlives the process. `env` is the whole environment; argv[0] is looked up on its PATH.

    started_ns is CLOCK_MONOTONIC in the child, just before execve. Returns after the execve has happened.

    Raises OSError (with errno, and the path where there is one) naming the step that failed; ValueError for
    an empty argv or `cpus`, a negative or absurd CPU, or a NUL byte.
    """
