"""Downloads of one image by one client, all at once: what the workload image-download runs.

Prints one JSON document: wall time, what the clients' processes used (user, system, most memory of one) and, where the
server is on this host, what its processes used meanwhile; all together and per 10^9 bytes. The clients are started
and waited for here, so that this interpreter's own time is not in their figures. A download that fails is no measurement.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from contend.errors import TrialFailed
from contend.units import parse_fraction, parse_size_bytes
from contend.workloads.downloads.clients import Command, Task, command_of, put_program
from contend.workloads.generators import download_server, verbs
from contend.workloads.parameters_file import Placeholders

SCHEMA_VERSION = 1
_LAST_BYTES = 400


class Used(NamedTuple):
    """Exit code and resource usage of one client."""

    code: int
    user_s: float
    system_s: float
    max_rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload image-download."""

    client: str
    scheme: str
    to: str
    checksum: str
    size: str
    at_once: int
    cpu_max: str


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(
        arguments,
        Parameters,
        {"client": build, "make": _make, "serve": _serve, "run": _run, "neighbour": _neighbour},
    )


def build(given: Parameters, at: Placeholders) -> None:
    """Build what a client needs, kept between runs. Raises CannotHonour, HostFailed."""
    put_program(given.client, at.work, at.cache)


def _served_folder(given: Parameters, at: Placeholders) -> Path:
    """Folder of what is served, the same for all variants of the run."""
    return at.work.parent / f"image-{given.size}"


def _make(given: Parameters, at: Placeholders) -> None:
    download_server.make(_served_folder(given, at), parse_size_bytes(given.size))


def _serve(given: Parameters, at: Placeholders) -> None:
    download_server.serve(_served_folder(given, at), at.work / "image-download.conf", at.port, at.out)


def _run(given: Parameters, at: Placeholders) -> None:
    print(json.dumps(_once(given, at)))


def _neighbour(given: Parameters, at: Placeholders) -> None:
    while True:
        _once(given, at)


def _once(given: Parameters, at: Placeholders) -> dict[str, Any]:
    """Run all downloads at once and return the result as it is printed. Raises BadInput, TrialFailed."""
    folder = _served_folder(given, at)
    about = json.loads((folder / "about").read_text(encoding="utf-8"))
    port = at.port
    if given.scheme == "https":
        port = int((at.out / download_server.HTTPS_PORT).read_text(encoding="utf-8"))
    task = Task(
        base=f"{given.scheme}://127.0.0.1:{port}",
        authority=str(folder / "certificate.pem") if given.scheme == "https" else "",
        sha512=about["os_hash_value"] if given.checksum == "sha512" else "",
        cpu_max=parse_fraction(given.cpu_max) if given.cpu_max else None,
        programs=str(at.work),
    )
    pids = server_pids(at.out / "nginx.pid")
    server = (lambda: server_cpu_s(pids)) if pids else None
    return trial(given.client, task, about["size"], given.to, given.at_once, at.out, server)


def trial(
    client: str,
    task: Task,
    size: int,
    to: str,
    many: int,
    out: Path,
    server: Callable[[], float] | None,
    proxy: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """Run `many` downloads of `size` bytes at once, to nothing or to files in `out`, and return the result as it is printed.

    server: what the server has used so far, s; None where it is not on this host. proxy: what a proxy before it has used so
    far, s; None without one. Raises BadInput, TrialFailed.
    """
    outputs = [str(out / f"image.{n}") if to == "file" else "" for n in range(many)]
    commands = [command_of(client, replace(task, output=o)) for o in outputs]
    before = server() if server else 0.0
    proxy_before = proxy() if proxy else 0.0
    began = time.monotonic()
    used = at_once(commands)
    wall_s = time.monotonic() - began
    server_s = server() - before if server else None
    proxy_s = proxy() - proxy_before if proxy else None
    for output in filter(None, outputs):
        if Path(output).stat().st_size != size:
            raise TrialFailed(f"{client} wrote {Path(output).stat().st_size} bytes of {size}")
        Path(output).unlink()
    return result(client, size * many, wall_s, used, server_s, proxy_s)


def result(
    client: str,
    size: int,
    wall_s: float,
    used: Sequence[Used],
    server_s: float | None,
    proxy_s: float | None = None,
) -> dict[str, Any]:
    """The document to print; no server that is elsewhere. A proxy stands by itself, and in the sum with the server.

    >>> result("curl", 2 * 10**9, 1.0, [Used(0, 0.5, 0.5, 9)], 1.0)["both_cpu_s_per_gb"]
    1.0
    >>> result("curl", 2 * 10**9, 1.0, [Used(0, 0.5, 0.5, 9)], 1.0, 2.0)["both_cpu_s_per_gb"]
    2.0
    """
    gigabytes = size / 1e9
    user_s, system_s = sum(u.user_s for u in used), sum(u.system_s for u in used)
    return {
        "schema_version": SCHEMA_VERSION,
        "client": client,
        "bytes": size,
        "wall_s": wall_s,
        "rate": size / wall_s,
        "user_s": user_s,
        "system_s": system_s,
        "cpu_s_per_gb": (user_s + system_s) / gigabytes,
        **(
            {}
            if server_s is None
            else {
                "server_cpu_s_per_gb": server_s / gigabytes,
                "both_cpu_s_per_gb": (user_s + system_s + server_s + (proxy_s or 0.0)) / gigabytes,
            }
        ),
        **({} if proxy_s is None else {"proxy_cpu_s_per_gb": proxy_s / gigabytes}),
        "cpu_load": (user_s + system_s) / wall_s,
        "max_rss_bytes": max(u.max_rss_bytes for u in used),
    }


def at_once(commands: Sequence[Command]) -> list[Used]:
    """Start all commands and wait for all. Raises TrialFailed with the last output of the first that failed."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        processes = []
        for command, file in zip(commands, outputs, strict=True):
            stdin = stack.enter_context(tempfile.TemporaryFile())
            stdin.write(command.stdin.encode())
            stdin.seek(0)
            processes.append(
                subprocess.Popen(
                    command.argv, stdin=stdin, stdout=file, stderr=subprocess.STDOUT, env=environment()
                )
            )
        used = []
        for process, file in zip(processes, outputs, strict=True):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            used.append(Used(process.returncode, usage.ru_utime, usage.ru_stime, usage.ru_maxrss << 10))
            if process.returncode:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))  # of a traceback, the end says why
                words = file.read(_LAST_BYTES).decode(errors="replace").strip()
                for other in processes:
                    if other.returncode is None:
                        other.kill()
                        other.wait()
                raise TrialFailed(f"{process.args[0]!s} ended with {process.returncode}: {words}")  # type: ignore[index]
        return used


def environment() -> dict[str, str]:
    """This process's environment without proxies, and without variables that override the certificate that clients trust."""
    left_out = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and k not in left_out}


def server_pids(file: Path) -> tuple[int, ...]:
    """Pids of nginx and its workers; empty where it is not on this host."""
    try:
        master = int(file.read_text(encoding="utf-8"))
        workers = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return ()
    return (master, *map(int, workers))


def server_cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds of these processes, by the scheduler's own sums, exact to the last switch."""
    spent = 0
    for pid in pids:
        spent += int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0])
    return spent / 1e9
