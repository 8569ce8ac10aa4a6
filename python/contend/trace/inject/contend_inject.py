"""How contend comes into a program that does not know it: into one that is started (sitecustomize, beside this), and
into one that runs (`contend trace --pid`). Only the standard library, and as little of it as will do.
"""

import _thread
import contextlib
import importlib.util
import json
import os
import posix
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any


def load(root: str) -> None:
    """Import contend from that directory, and nothing else from there."""
    if "contend" in sys.modules:
        return
    package = os.path.join(root, "contend")  # noqa: PTH118 - pathlib costs 10 ms here
    spec = importlib.util.spec_from_file_location(
        "contend",
        os.path.join(package, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[package],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no contend in {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["contend"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("contend", None)
        raise


def start_thread(function: Callable[..., object], *arguments: object) -> None:
    """Start a thread of the operating system, also where the program has greenlets for threads."""
    threads: Any = _thread
    if not isinstance(threads.start_new_thread, BuiltinFunctionType):
        import _imp
        from importlib.machinery import BuiltinImporter, ModuleSpec

        threads = _imp.create_builtin(ModuleSpec("_thread", BuiltinImporter))  # type: ignore[arg-type]
    threads.start_new_thread(function, arguments)


def say(directory: str, message: Mapping[str, object]) -> None:
    """Write a message for `contend trace --pid` into its file, whole or not at all."""
    target = os.path.join(directory, "status.json")  # noqa: PTH118
    with open(target + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(message, file)
    os.replace(target + ".part", target)  # noqa: PTH105


def attach(directory: str, root: str, main: bool) -> None:
    """Record until contend lets go. Runs in a thread of its own; `main`: the main thread has started it.

    `directory` is made by `contend trace --pid`, with a FIFO called ticket. Who takes it records: a call that comes
    too late finds none. While contend is there it holds the other end open, so that its end, however it comes, is the
    end of the recording too.
    """
    if not main and "threading" not in sys.modules:
        # The thread that imports it first is taken for the main thread (up to 3.12).
        say(directory, {"state": "main"})
        return
    control = _take(directory)
    if control is None:
        return
    known = "contend.trace" in sys.modules
    try:
        try:
            load(root)
            from contend.trace import attached
        except BaseException as error:
            raise RuntimeError(f"contend cannot be loaded there: {type(error).__name__}: {error}") from error
        attached.record(directory, control, known, say=say, start_thread=start_thread)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program must not see it
        with contextlib.suppress(OSError):  # nobody is there to be told
            say(directory, {"state": "failed", "error": str(error), "hint": getattr(error, "hint", "")})
    finally:
        with contextlib.suppress(OSError):  # the program has closed all its files
            os.close(control)


def _take(directory: str) -> int | None:
    """The FIFO, opened, if nobody else took it and contend holds its other end."""
    mine = os.path.join(directory, "control")  # noqa: PTH118
    try:
        os.rename(os.path.join(directory, "ticket"), mine)  # noqa: PTH104, PTH118
        control = os.open(mine, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        posix.read(control, 1)  # os.read may be eventlet's, which would wait in its hub
    except BlockingIOError:
        os.set_blocking(control, True)
        return control
    os.close(control)
    return None
