"""In which function a thread is that keeps an event loop from all others."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from queue import Queue

from contend.trace.blocked import look


def seen_in(function: Callable[[Callable[[], None]], None]) -> tuple[str, str] | None:
    """Call `function` in a thread with something that waits, and look at the thread meanwhile."""
    there: Queue[int] = Queue()
    go_on = threading.Event()

    def waits() -> None:
        there.put(threading.get_ident())
        go_on.wait(10)

    thread = threading.Thread(target=function, args=(waits,))
    thread.start()
    try:
        return look(there.get(timeout=10))
    finally:
        go_on.set()
        thread.join()


def test_the_innermost_function_of_the_program_is_named_and_not_what_a_library_does_for_it() -> None:
    def squeeze(waits: Callable[[], None]) -> None:
        sorted([1], key=lambda _: waits())

    found = seen_in(squeeze)
    assert found is not None
    function, line = found
    # `waits` waits in threading.py, which is a library.
    assert function == "seen_in.<locals>.waits"
    assert line.startswith(f"{__file__}:")


def test_a_look_meets_no_collection_of_garbage() -> None:
    """A local of a thread that is taken apart amid sys._current_frames would wait for its lock for ever."""
    program = """
import gc, threading
from contend.trace.blocked import look

class Own(threading.local):
    pass

gc.set_threshold(1, 1, 1)
for _ in range(3000):
    own = Own()
    own.itself = own
    del own
    look(threading.get_ident())
assert gc.isenabled()
gc.disable()
look(threading.get_ident())
assert not gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_thread_that_is_gone_is_in_no_function() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    ident = thread.ident
    thread.join()
    assert ident is not None and look(ident) is None
