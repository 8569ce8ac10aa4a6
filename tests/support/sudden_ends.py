"""A program killed by SIGKILL at a chosen one of its system calls, by ptrace(2): between two of them it changes nothing
outside of itself, so that all of them are all moments that there are."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Sequence

_TRACEME, _GETREGS, _SYSCALL, _SETOPTIONS = 0, 12, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 1 << 20
_AT_SYSCALL = signal.SIGTRAP | 0x80
_ORIG_RAX, _RAX, _REGISTERS = 15, 10, 27  # struct user_regs_struct, sys/user.h
_ENOSYS = (1 << 64) - errno.ENOSYS
_PTRACE = 101  # of x86-64

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def end_at(words: Sequence[str], number: int) -> bool:
    """Run it, and kill it when it begins its `number`-th system call from the first ptrace(2) on, counted from 0.

    False if it has made fewer: then it has ended as it wanted to.
    """
    child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            _libc.ptrace(_TRACEME, 0, None, None)
            os.execv(words[0], list(words))
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    assert os.WIFSTOPPED(status), f"{words[0]} did not start: {status}"
    _request(_SETOPTIONS, child, _SYSGOOD | _EXITKILL)
    registers = (ctypes.c_ulonglong * _REGISTERS)()
    count, sent = -1, 0
    while True:
        _request(_SYSCALL, child, sent)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return False
        sent = 0
        if os.WSTOPSIG(status) != _AT_SYSCALL:
            sent = os.WSTOPSIG(status)
            continue
        _request(_GETREGS, child, ctypes.addressof(registers))
        if registers[_RAX] != _ENOSYS:
            continue  # it ends
        if count >= 0 or registers[_ORIG_RAX] == _PTRACE:
            count += 1
        if count == number:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True


def _request(what: int, child: int, data: int) -> None:
    if _libc.ptrace(what, child, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {what}")
