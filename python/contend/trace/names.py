"""What a lock is called: what its creation is assigned to, read from the bytecode, so that no source is needed."""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType

_STORES = {"STORE_ATTR", "STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF"}
# What may stand between the call that makes a lock and the store of it: conversions and a dataclass' or dict's frame.
_LOOKED_AT = 12


def describe(name: str | None, code: CodeType | None, at: int) -> tuple[str, str]:
    """Name and site of a lock: `name` if it was given, else from the instruction `at` of the code that made it.

    >>> def make(): lock = object(); return lock
    >>> describe("mine", None, -1)
    ('mine', '')
    """
    if code is None:
        return name or "", ""
    assigned, site = _described(code, at)
    return name or assigned, site


@functools.lru_cache(maxsize=4096)
def _described(code: CodeType, at: int) -> tuple[str, str]:
    site = f"{code.co_filename}:{_line(code, at)}"
    target = _target(code, at)
    if target is None:
        return "", site
    store, name = target
    owner = code.co_qualname
    if store == "STORE_ATTR":
        # `self.lock = Lock()` in Class.__init__ is Class.lock.
        owner, _, _ = owner.rpartition(".")
        return f"{owner}.{name}" if owner and not owner.endswith("<locals>") else name, site
    if owner == "<module>" or store == "STORE_GLOBAL":
        return name, site
    return f"{owner}.{name}", site


def _line(code: CodeType, at: int) -> int:
    for start, end, line in code.co_lines():
        if start <= at < end and line is not None:
            return line
    return code.co_firstlineno


def _target(code: CodeType, at: int) -> tuple[str, str] | None:
    """The store that follows the call at that instruction, if nothing else is called before it."""
    after = (found for found in dis.get_instructions(code) if found.offset > at)
    for found in itertools.islice(after, _LOOKED_AT):
        if found.opname in _STORES:
            return found.opname, str(found.argval)
        if found.opname.startswith(("CALL", "PRECALL", "RETURN", "POP", "JUMP", "SEND", "YIELD")):
            return None
    return None
