"""libvirt by its client virsh: finds one that answers, calls it, and ends a run's domains."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.calls import MEMBER, Ended, call
from contend.platforms.packages import install_command

PROGRAM = "virsh"
URIS = "qemu:///system", "qemu:///session"
KIND = "local-domain"  # of a domain in a run's ledger
_WITHIN_S = 120.0
DEFAULT = "LIBVIRT_DEFAULT_URI", "VIRSH_DEFAULT_CONNECT_URI"  # libvirt's own variables
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_GONE = re.compile(r"failed to get domain|[Dd]omain not found|domain is not running")
ENGLISH = {"LC_ALL": "C.UTF-8"}  # what it says is looked at


def ask(uri: str, *words: str, within_s: float = _WITHIN_S) -> Ended:
    """Call libvirt's client. Raises OSError where there is none."""
    environment = {**os.environ, **ENGLISH, procfs.MEMBER_MARKER: MEMBER}
    return call((PROGRAM, "--connect", uri, *words), within_s, environment=environment)


def need_program() -> None:
    """Check that libvirt's client is installed. Raises CannotHonour."""
    if shutil.which(PROGRAM) is None:
        raise CannotHonour("libvirt's client virsh was not found", hint=install_command("libvirt-clients"))


def known() -> tuple[str, ...]:
    """URIs under which a ledger's domain may be removed: libvirt's own two, and the one that the environment names."""
    return (*URIS, *(os.environ[name] for name in DEFAULT if os.environ.get(name)))


def check_known(uri: str, name: str) -> None:
    """Check that this user's environment names the libvirt that a ledger names for a domain. Raises HostFailed."""
    if uri not in known():
        raise HostFailed(
            f"domain {name} is at a libvirt that your environment does not name; if {uri} is yours: "
            f"{DEFAULT[0]}={shlex.quote(uri)} contend destroy RUN",
            hint="libvirt's addresses can name programs: none is taken from a ledger",
        )


def usual() -> tuple[str, ...]:
    """URIs at which contend looks for a libvirt: the system's, then the user's own, which root does not have."""
    return URIS[:1] if os.geteuid() == 0 else URIS


def detect(chosen: str = "", setting: str = "parameters.uri") -> str:
    """Find a libvirt that answers: the chosen one, else the system's, else the user's own. Raises CannotHonour.

    The call starts the user's own; it must not carry the marks of a run, since it outlives that. setting: by
    which a user names one, for the hint.
    """
    need_program()
    clean = {name: word for name, word in os.environ.items() if name != procfs.MARKER} | ENGLISH
    reasons = []
    for uri in (chosen,) if chosen else usual():
        done = call((PROGRAM, "--connect", uri, "version"), 20.0, environment=clean)
        if done.code == 0:
            return uri
        reasons.append(f"{uri}: {done.why.removeprefix('error: ')}")
    raise CannotHonour(
        f"no libvirt answers: {'; '.join(reasons)}",
        hint=f"{install_command('libvirt-daemon-system')}, and be in the group libvirt; or {setting}",
    )


def remove(uri: str, name: str, run: str) -> bool:
    """End a domain of a run; True if it was there. Raises HostFailed."""
    if not _NAME.fullmatch(name) or not name.startswith(f"{names.PREFIX}-{run}-"):
        raise HostFailed(f"'{name}' is not one of contend's domains", hint="the ledger names a stranger")
    try:
        done = ask(uri, "destroy", name)
    except OSError as error:
        raise HostFailed(
            f"virsh cannot end {name}: {error}", hint=f"virsh --connect {uri} destroy {name}"
        ) from None
    if done.code and not _GONE.search(done.err):
        raise HostFailed(f"libvirt does not end {name}: {done.why}", hint=f"virsh --connect {uri} list")
    return done.code == 0


def put(where: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
    """Add an element to a domain's description.

    >>> domain = ElementTree.Element("domain")
    >>> _ = put(domain, "memory", "64", unit="MiB")
    >>> ElementTree.tostring(domain, encoding="unicode")
    '<domain><memory unit="MiB">64</memory></domain>'
    """
    made = ElementTree.SubElement(where, tag, attributes)
    made.text = text or None
    return made
