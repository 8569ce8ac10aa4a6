"""The clients that an image can be downloaded by, as commands: what `image-download` and bench/image_fetch.py measure.

A token is on stdin, never on a command line, which anybody on the host may read.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from contend.errors import BadInput, UnknownName
from contend.workloads.downloads import built
from contend.workloads.install import is_here

IMAGE_ID = "0c0ffee0-0000-4000-8000-000000000001"
_LIBRARIES = Path(__file__).with_name("libraries.py")
_NOTHING = "/dev/null"
LIMITED = ("fetch", "reader")  # what keeps to a limit


@dataclass(frozen=True, slots=True)
class Task:
    """One download. base: of a server that gives the image as Glance does, http or https. output: "" for nowhere.
    authority: PEM of whom to trust. sha512: what is verified, "" for nothing. image: its id. cpu_max: of one CPU.
    programs: the directory of what was built for it."""

    base: str
    output: str = ""
    authority: str = ""
    sha512: str = ""
    image: str = IMAGE_ID
    token: str = "none"
    cpu_max: float | None = None
    programs: str = ""

    @property
    def url(self) -> str:
        return f"{self.base}/v2/images/{self.image}/file"


class Command(NamedTuple):
    """A client's command, and what it reads from its stdin."""

    argv: tuple[str, ...]
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """needs: programs, or `module NAME` of this Python. verifies: whether it can, must, or cannot."""

    name: str
    needs: tuple[str, ...]
    verifies: str
    command: Callable[[Task], Command]

    def missing(self) -> tuple[str, ...]:
        """Names of what the client needs and this host lacks."""
        return tuple(need for need in self.needs if not is_here(need))


def client(name: str) -> Client:
    """The client of that name. Raises UnknownName."""
    if name not in CLIENTS:
        raise UnknownName("client", name, CLIENTS)
    return CLIENTS[name]


def command_of(name: str, task: Task) -> Command:
    """The client's command for the task. Raises BadInput for what it cannot do, or what is not installed."""
    chosen = client(name)
    if absent := chosen.missing():
        raise BadInput(
            f"client '{name}' needs {', '.join(absent)}", hint="install it, or leave the client out"
        )
    if chosen.verifies == "must" and not task.sha512:
        raise BadInput(f"client '{name}' verifies always", hint="checksum: sha512")
    if chosen.verifies == "cannot" and task.sha512:
        raise BadInput(f"client '{name}' does not verify sha512", hint="checksum: none")
    if task.cpu_max is not None and name not in LIMITED:
        raise BadInput(
            f"client '{name}' keeps to no limit of CPU time", hint=f"client: {' or '.join(LIMITED)}"
        )
    return chosen.command(task)


def _curl(task: Task) -> Command:
    trusted = ("--cacert", task.authority) if task.authority else ()
    words = ("curl", "-sSf", *trusted, "-H", "@-")
    return _by_shell(words, ("-o",), task, f"X-Auth-Token: {task.token}\n")


def _wget(task: Task) -> Command:
    trusted = (f"--ca-certificate={task.authority}",) if task.authority else ()
    words = ("wget", "-q", *trusted, "--config=/dev/stdin")
    return _by_shell(words, ("-O",), task, f"header = X-Auth-Token: {task.token}\n")


def _by_shell(words: tuple[str, ...], to: tuple[str, ...], task: Task, stdin: str) -> Command:
    """The program alone or, where a checksum is wanted, with sha512sum behind it, as people do. stdin: has the token."""
    if not task.sha512:
        return Command((*words, *to, task.output or _NOTHING, task.url), stdin)
    if task.output:
        script = 'out=$1 sum=$2; shift 2; "$@" && echo "$sum  $out" | sha512sum --check --status'
        return Command(
            ("sh", "-c", script, "sh", task.output, task.sha512, *words, *to, task.output, task.url), stdin
        )
    script = 'sum=$1; shift; test "$("$@" | sha512sum)" = "$sum  -"'
    return Command(("sh", "-c", script, "sh", task.sha512, *words, *to, "-", task.url), stdin)


def _fetch(task: Task) -> Command:
    """`contend fetch`, start-up of the interpreter and all."""
    words = [
        sys.executable,
        "-P",
        "-m",
        "contend",
        "fetch",
        task.url,
        "-q",
        "--nice",
        "0",
        "-o",
        task.output or _NOTHING,
    ]
    words += ["--header", "@-"]
    words += ["--cacert", task.authority] if task.authority else []
    words += ["--checksum", f"sha512:{task.sha512}"] if task.sha512 else []
    words += ["--cpu-max", str(task.cpu_max)] if task.cpu_max is not None else []
    return Command(tuple(words), f"X-Auth-Token: {task.token}\n")


def _reader(task: Task) -> Command:
    """contend-fetch itself: what reads, decrypts, verifies and writes."""
    from contend.fetch.order import program

    order: dict[str, object] = {"url": task.url, "quiet": True, "output": task.output or _NOTHING}
    order["headers"] = [["X-Auth-Token", task.token]]
    if task.cpu_max is not None:
        order["cpu_max"] = task.cpu_max
    if task.authority:
        order["cacert"] = task.authority
    if task.sha512:
        order["checksum"] = {"algorithm": "sha512", "value": task.sha512}
    return Command((str(program()),), json.dumps(order))


def _library(name: str) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        arguments = [task.base, task.image, task.output or _NOTHING, task.authority, task.sha512]
        return Command((sys.executable, str(_LIBRARIES), name, *arguments), task.token)

    return command


def _built(program: str) -> Callable[[Task], Command]:
    """The command that `put_program` has put into the task's programs."""

    def command(task: Task) -> Command:
        arguments = (task.url, task.output or _NOTHING, task.authority, task.sha512)
        return Command((str(Path(task.programs) / program), *arguments), task.token)

    return command


def put_program(name: str, folder: Path, cache: Path) -> None:
    """Build the client's program, if it needs one, into `folder`. cache: directory of earlier builds.

    Raises CannotHonour where it does not build.
    """
    if name in _BUILDERS:
        program, build = _BUILDERS[name]
        shutil.copy(build(cache), folder / program)


_BUILDERS: Mapping[str, tuple[str, Callable[[Path], Path]]] = {
    "go": (built.GO, built.build_go),
    "reqwest": (built.REQWEST, built.build_reqwest),
}


CLIENTS: Mapping[str, Client] = {
    made.name: made
    for made in (
        Client("curl", ("curl",), "can", _curl),
        Client("wget", ("wget",), "can", _wget),
        Client("fetch", ("contend-fetch",), "can", _fetch),
        Client("reader", ("contend-fetch",), "can", _reader),
        Client("go", ("go",), "can", _built(built.GO)),
        Client("reqwest", ("cargo",), "can", _built(built.REQWEST)),
        Client("requests", ("module requests",), "can", _library("requests")),
        Client("glanceclient", ("module glanceclient",), "must", _library("glanceclient")),
        Client("openstacksdk", ("module openstack",), "must", _library("openstacksdk")),
        Client("openstacksdk-stream", ("module openstack",), "must", _library("openstacksdk-stream")),
    )
}
