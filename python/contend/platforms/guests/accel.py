"""A test whether KVM boots guests here: one is booted, and the answer kept until this host boots again.

That /dev/kvm opens, or that a virtual machine can be made, is no proof: under some hosts a guest's kernel meets an
instruction that nobody carries out for it, and stands still.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from contend import files
from contend.errors import HostFailed
from contend.platforms import procfs
from contend.platforms.guests.channel import Silent
from contend.store import state

_G = TypeVar("_G")
WITHIN_S = 15.0  # a guest that is not up by KVM by then does not come up,
BUSY_WITHIN_S = 60.0  # unless the host has too much to do
# A guest that is known to boot here takes seconds; now and then one stands still under emulation, and the next does not.
_PATIENCE_S = (30.0, 60.0, 120.0)


def start(boot: Callable[[str, float], _G], what: str, how: str = "") -> tuple[_G, str, int]:
    """A guest by KVM where that boots it, else emulated: the guest, `kvm` or `tcg`, and how many did not come up before.

    boot: starts one so, within so many seconds, or raises HostFailed. what: which guest, for the memory of what did.
    how: asked for; "" decides here. Raises HostFailed when none comes up.
    """
    why = cannot_open()
    if not how and not why:
        known = remembered(what)
        if known is None:
            guest, _ = by_kvm(lambda within_s: boot("kvm", within_s), what)
            if guest is not None:
                return guest, "kvm", 0
        elif not known:
            how = "kvm"
    how = how or "tcg"
    for still, within_s in enumerate(_PATIENCE_S[:-1]):
        with contextlib.suppress(HostFailed):
            return boot(how, within_s), how, still
    return boot(how, _PATIENCE_S[-1]), how, len(_PATIENCE_S) - 1


def by_kvm(boot: Callable[[float], _G], what: str) -> tuple[_G | None, str]:
    """A guest by KVM; None where none comes up, and why. The answer is kept, but for that of a guest which was silent on
    a busy host: the next is tried again.

    boot: starts one within so many seconds, or raises HostFailed, of a guest that only says nothing Silent.
    """
    try:
        try:
            guest = boot(WITHIN_S)
        except Silent:
            if not busy():
                raise
            guest = boot(BUSY_WITHIN_S)
    except HostFailed as error:
        why = f"{error.message}: {error.hint}" if error.hint else error.message
        if not (isinstance(error, Silent) and busy()):
            remember(what, why)
        return None, why
    remember(what, "")
    return guest, ""


def busy() -> bool:
    """True if a guest may be slow for want of a CPU: tasks waited for one in a quarter of the last 10 s (PSI), or without
    PSI more want to run than there are CPUs."""
    some = re.search(r"^some avg10=([0-9.]+)", procfs.text_or_empty(Path("/proc/pressure/cpu")), re.MULTILINE)
    return float(some[1]) >= 25 if some else os.getloadavg()[0] > (os.cpu_count() or 1)


def cannot_open() -> str:
    """Why there can be no KVM here; "" where there may be."""
    if not Path("/dev/kvm").exists():
        return "no /dev/kvm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "/dev/kvm is not this user's to open (group kvm)"
    return ""


def remembered(what: str = "") -> str | None:
    """Why KVM does not boot a guest; "" where it does, None where nobody has tried since this host's boot.

    what: which guest; "": any.
    """
    answers = _read()
    return answers.get(what) if what else next(iter(answers.values()), None)


def remember(what: str, why: str) -> None:
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"boot": procfs.boot_id(), "answers": _read() | {what: why}}
    files.write(path, f"{json.dumps(document)}\n".encode())


def _path() -> Path:
    return state.cache() / "kvm.json"


def _read() -> dict[str, str]:
    try:
        document: dict[str, Any] = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    answers = document.get("answers", {}) if document.get("boot") == procfs.boot_id() else {}
    return {str(what): str(why) for what, why in answers.items()}
