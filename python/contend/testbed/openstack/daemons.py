"""The bed's processes: started in sessions of their own, waited for, ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from contend.errors import HostFailed
from contend.files import last_line
from contend.testbed import children, members
from contend.testbed.openstack.bed import Bed

_TERM_S = 15.0
# Ended last: the others would complain of losing them, and take long to give up.
_LAST = ("rabbitmq", "mariadb")


def start(
    bed: Bed, service: str, command: Sequence[str], environment: Mapping[str, str], digest: str = ""
) -> bool:
    """Start a service, unless it lives and was started with the same `digest`. True if it was started now."""
    leader = bed.leader(service)
    if leader is not None and leader[1] == digest:
        return False
    end(bed, service.__eq__)
    bed.logs.mkdir(parents=True, exist_ok=True)
    with (bed.logs / f"{service}.log").open("ab") as log:
        process = bed.members.popen(
            list(command),
            {**environment, **bed.mark(service)},
            cwd=bed.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    bed.remember(service, process.pid, digest)
    children.keep(process)
    return True


def wait(bed: Bed, services: Sequence[str], ready: Callable[[], bool], what: str, limit_s: float) -> None:
    """Wait until `ready`. Raises HostFailed, with the last line of a service's log if one ended meanwhile."""
    deadline = time.monotonic() + limit_s
    looked = 0.0
    while not ready():
        now = time.monotonic()
        if now - looked > 1:
            looked = now
            for service in services:
                if bed.leader(service) is None:
                    log = bed.logs / f"{service}.log"
                    raise HostFailed(f"{service} ended", hint=f"{last_words(bed, service)} ({log})")
        if now > deadline:
            raise HostFailed(f"{what}, after {limit_s:.0f} s", hint=f"logs are in {bed.logs}")
        time.sleep(0.1)


def last_words(bed: Bed, service: str) -> str:
    """Last line of a service's log."""
    return last_line(bed.logs / f"{service}.log")


def run(
    bed: Bed, what: str, command: Sequence[str], environment: Mapping[str, str], stdin: str | None = None
) -> str:
    """Run a command and return its output; `stdin` is its standard input. Raises HostFailed if it fails."""
    done = bed.members.run(
        list(command),
        {**environment, **bed.mark(what)},
        cwd=bed.root,
        input=stdin or "",
        capture_output=True,
        text=True,
        errors="replace",
    )
    bed.logs.mkdir(parents=True, exist_ok=True)
    log = bed.logs / f"{what}.log"
    with log.open("a", encoding="utf-8") as file:
        file.write(done.stdout + done.stderr)
    if done.returncode:
        raise HostFailed(f"{what} ended with {done.returncode}", hint=f"{last_words(bed, what)} ({log})")
    return str(done.stdout)


def stop(bed: Bed) -> list[str]:
    """End everything of the bed and return the services that were up. Idempotent.

    Raises HostFailed for a process that does not die.
    """
    services = bed.processes()
    end(bed, lambda service: service not in _LAST)
    for service in _LAST:
        end(bed, service.__eq__)
    members.end(bed.processes, 0.0)
    bed.members.forget()
    shutil.rmtree(bed.root / "run", ignore_errors=True)
    return sorted(set(services.values()))


def end(bed: Bed, chosen: Callable[[str], bool]) -> None:
    """End those services. Raises HostFailed for a process that does not die."""

    def left() -> set[int]:
        return {pid for pid, service in bed.processes().items() if chosen(service)}

    members.end(left, _TERM_S)
    children.reap()


def base_environment(bed: Bed) -> dict[str, str]:
    """Environment of every process: no variables of the caller that OpenStack's programs would read."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OS_", "PYTHON", "RABBITMQ_", "CONTEND_")) and name != "VIRTUAL_ENV"
    }
    return {
        **kept,
        "PATH": f"{bed.python.parent}:{kept.get('PATH', os.defpath)}:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
    }
