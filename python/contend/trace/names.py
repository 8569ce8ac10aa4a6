"""Names of locks: what their creation is assigned to, read from the bytecode, so that no source is needed."""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType

_STORES = {"STORE_ATTR", "STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF"}
# Instructions between the call that makes a lock and the store of it: other values of the same assignment.
_LOOKED_AT = 64
# Where it is not one after the other any more.
_ELSEWHERE = ("RETURN", "JUMP", "POP_JUMP", "SEND", "YIELD", "FOR_ITER", "RAISE", "RERAISE")


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


def describe_part(code: CodeType, at: int, part: int) -> str:
    """Name of one thing of a tuple that the instruction `at` makes, where it is taken apart; 1 is the first."""
    return _described(code, at, part)[0]


# Of LOAD_SPECIAL (Include/internal/pycore_ceval.h): __exit__ and __aexit__.
_EXITS = (1, 3)


@functools.lru_cache(maxsize=4096)
def _described(code: CodeType, at: int, part: int = 0) -> tuple[str, str]:
    site = f"{code.co_filename}:{_line(code, at)}"
    target = _target(code, at, part)
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


def _target(code: CodeType, at: int, packed: int) -> tuple[str, str] | None:
    """The store of what the call at that instruction gave: its depth on the stack is followed, 1 is the top. `packed`: which
    part of it is meant, 0 all of it."""
    depth = 1
    after = (instruction for instruction in dis.get_instructions(code) if instruction.offset > at)
    for instruction in itertools.islice(after, _LOOKED_AT):
        name, arg = instruction.opname, instruction.arg or 0
        if name in _STORES:
            value = 2 if name == "STORE_ATTR" else 1  # below the object whose attribute it becomes
            if depth == value:
                return name, str(instruction.argval)
            depth -= value
        elif name in ("STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):  # two in one, from 3.13 on
            stored = instruction.argval[: 1 if name.endswith("LOAD_FAST") else 2]
            if depth <= len(stored):
                return "STORE_FAST", str(stored[depth - 1])
            depth += 0 if name.endswith("LOAD_FAST") else -2
        elif name == "SWAP":
            depth = arg if depth == 1 else 1 if depth == arg else depth
        elif name == "BEFORE_WITH" and depth == 1:
            continue  # what it gives as it is entered is on top, and stands for it
        elif name == "LOAD_SPECIAL" and depth == 1:  # the same, from 3.14 on, in three steps
            # Its `__exit__` is taken from a copy, and what is below goes on; what `__enter__` will give is called for next.
            depth = 3 if arg in _EXITS else 2
        elif name == "COPY":
            depth += arg != depth  # either of the two will do
        elif name == "UNPACK_SEQUENCE" and depth == 1 and packed:
            depth = packed
        elif name.startswith("BUILD_"):
            count = {"BUILD_MAP": arg * 2, "BUILD_CONST_KEY_MAP": arg + 1}.get(name, arg)
            # What is put into something is called as that is, unless it is taken apart again.
            packed = count - depth + 1 if depth <= count else 0
            depth = 1 if depth <= count else depth - count + 1
        elif name.startswith(_ELSEWHERE):
            return None
        else:
            effect = dis.stack_effect(
                instruction.opcode, arg if instruction.opcode >= dis.HAVE_ARGUMENT else None, jump=False
            )
            depth += effect
        if depth < 1:
            return None  # something else took it: a call, a container
    return None
